//! The page's way out of the demo's network: a port of this machine's loopback, and of nothing else, that leads to the
//! controller byte by byte. A browser needs no name for it and no route, and TLS ends where it ends for nodes.
//!
//! The name is `localhost`: browsers make passkeys for a DNS name or for that one, and it needs no entry anywhere.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::SigSet;
use nix::sys::socket;

/// The name browsers have for it.
pub(super) const PAGE_NAME: &str = "localhost";
/// The port, where nobody has it yet.
const PORT: u16 = 8443;
/// Connections at the same time; the controller takes no more of one address.
const MOST: usize = 64;

/// The port, taken. Dropping it lets nobody in any more.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    port: u16,
    serving: Option<JoinHandle<()>>,
}

impl Door {
    /// Takes port 8443 of 127.0.0.1, or any that is free.
    pub(super) fn take() -> io::Result<Self> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = bind(PORT).or_else(|_| bind(0))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port, serving: None })
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Where a browser finds the page.
    pub(super) fn origin(&self) -> String {
        format!("https://{PAGE_NAME}:{}", self.port)
    }

    /// Leads each connection to `to` in the network of `holder`.
    pub(super) fn open(&mut self, holder: u32, to: SocketAddr) -> io::Result<()> {
        let network = File::open(format!("/proc/{holder}/ns/net"))?;
        let listener = self.listener.try_clone()?;
        let (said, told) = std::sync::mpsc::channel();
        let serving = thread::Builder::new().name("door".into()).spawn(move || {
            // Only the demo's first thread waits for Ctrl-C; and this one alone is in the other network, where what it
            // dials is. What it listens on stays where it was made.
            let entered = SigSet::all().thread_block().and_then(|()| setns(network, CloneFlags::CLONE_NEWNET));
            let _ = said.send(entered.map_err(io::Error::from));
            serve(&listener, to);
        })?;
        told.recv().map_err(io::Error::other)??;
        self.serving = Some(serving);
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Wakes whoever accepts, with an error.
        let _ = socket::shutdown(self.listener.as_raw_fd(), socket::Shutdown::Both);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// Until the listener is shut.
fn serve(listener: &TcpListener, to: SocketAddr) {
    let there = Arc::new(AtomicUsize::new(0));
    while let Ok((browser, _)) = listener.accept() {
        if there.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        // A controller that is not there is a connection that ends, as without the door.
        let Ok(controller) = TcpStream::connect(to) else { continue };
        let (Ok(browser_too), Ok(controller_too)) = (browser.try_clone(), controller.try_clone()) else { continue };
        let there = Arc::clone(&there);
        there.fetch_add(1, Ordering::Relaxed);
        let _ = thread::Builder::new().name("door-in".into()).spawn(move || {
            let back = thread::Builder::new().name("door-out".into()).spawn(move || pass(controller_too, browser_too));
            pass(browser, controller);
            if let Ok(back) = back {
                let _ = back.join();
            }
            there.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Passes on what comes until it ends, and then its end.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    // spec: DE-41
    #[test]
    fn the_page_is_reached_by_loopback_alone_byte_by_byte_and_no_longer_than_the_door_is_there() {
        let controller = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let door = Door::take().unwrap();
        let address = door.listener.local_addr().unwrap();
        assert!(address.ip().is_loopback() && door.port() == address.port());
        assert_eq!(door.origin(), format!("https://localhost:{}", address.port()));
        // A second demo takes another port.
        let second = Door::take().unwrap();
        assert_ne!(second.port(), door.port());
        let to = controller.local_addr().unwrap();
        let listener = door.listener.try_clone().unwrap();
        let serving = thread::spawn(move || serve(&listener, to));

        let mut browser = TcpStream::connect(address).unwrap();
        let (mut there, _) = controller.accept().unwrap();
        browser.write_all(b"\x16\x03hello").unwrap();
        let mut bytes = [0; 7];
        there.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"\x16\x03hello");
        there.write_all(b"and back").unwrap();
        drop(there);
        let mut back = String::new();
        browser.read_to_string(&mut back).unwrap();
        assert_eq!(back, "and back");

        drop(door);
        serving.join().unwrap();
        assert!(TcpStream::connect(address).is_err());
    }
}
