//! Tells systemd how the daemon is (sd_notify(3)). Without systemd every call does nothing.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The socket systemd gave us, if it did.
#[derive(Debug)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads what systemd put into the environment. That is systemd's interface, not a setting of ours.
    #[must_use]
    pub fn from_environment() -> Self {
        let watchdog = std::env::var_os("WATCHDOG_USEC")
            .and_then(|text| text.to_str().and_then(|text| text.parse().ok()))
            .filter(|micros| *micros > 0)
            .map(Duration::from_micros);
        Self { to: std::env::var_os("NOTIFY_SOCKET").and_then(connect), watchdog }
    }

    /// Tells nobody.
    #[must_use]
    pub const fn silent() -> Self {
        Self { to: None, watchdog: None }
    }

    /// How often [`Notify::alive`] is due, which is twice in the time that systemd allows; `None` without a watchdog.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.map(|longest| longest / 2)
    }

    /// The daemon is up.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// It makes progress.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// One line for `systemctl status`.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", lucia_proto::base::text::shown(text)));
    }

    /// The daemon is going down as asked.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            // systemd gone deaf is no reason to stop; the watchdog is then its own answer.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

fn connect(path: OsString) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes().split_first()? {
        (b'@', name) => SocketAddr::from_abstract_name(name).ok()?,
        (b'/', _) => SocketAddr::from_pathname(&path).ok()?,
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    // A full socket must not stop a heartbeat.
    socket.set_nonblocking(true).ok()?;
    Some((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_hears_each_word() {
        let path = std::env::temp_dir().join(format!("lucia-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let systemd = UnixDatagram::bind(&path).unwrap();
        let notify = Notify { to: connect(path.clone().into_os_string()), watchdog: None };
        notify.ready();
        notify.status("1 heartbeat\naccepted");
        let mut buf = [0; 128];
        for want in ["READY=1", "STATUS=1 heartbeat\\u{a}accepted"] {
            let len = systemd.recv(&mut buf).unwrap();
            assert_eq!(std::str::from_utf8(&buf[..len]).unwrap(), want);
        }
        std::fs::remove_file(path).unwrap();
        Notify::silent().ready();
        assert!(connect("relative".into()).is_none());
    }
}
