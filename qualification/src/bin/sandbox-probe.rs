//! Stands in for a daemon inside its unit's sandbox: tries what `/etc/lucia/<its name>.probe` lists, says READY, stays.
//!
//! Each line is a word and paths: `write DIR`, `refused DIR` (nothing can be made there), `read FILE`, `hidden PATH`,
//! `noexec PROGRAM`, `same FILE FILE` (one device and inode),
//! `connect ADDRESS:PORT`, `alone ADDRESS:PORT` (it cannot be reached),
//! `mapped PATH` (its owner and group are not shown as nobody). What did not hold is printed, and it exits with 1.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::ExitCode;

use nix::unistd::{AccessFlags, access};

/// How an owner looks that a user namespace does not know.
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let own = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&own).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list = match fs::read_to_string(format!("/etc/lucia/{name}.probe")) {
        Ok(list) => list,
        Err(err) => {
            eprintln!("{name}.probe: {err}");
            return ExitCode::FAILURE;
        }
    };
    let broken: Vec<&str> = list.lines().filter(|line| !holds(line)).collect();
    if !broken.is_empty() {
        eprintln!("does not hold: {}", broken.join("; "));
        return ExitCode::FAILURE;
    }
    if let Err(err) = ready() {
        eprintln!("READY could not be said: {err}");
        return ExitCode::FAILURE;
    }
    loop {
        std::thread::park();
    }
}

fn holds(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["write", directory] => make_in(directory).is_ok(),
        ["refused", directory] => make_in(directory).is_err(),
        ["read", file] => fs::read(file).is_ok(),
        ["hidden", path] => fs::read_dir(path).is_err() && fs::read(path).is_err(),
        ["noexec", program] => access(*program, AccessFlags::X_OK).is_err(),
        ["mapped", path] => fs::metadata(path).is_ok_and(|meta| meta.uid() != NOBODY && meta.gid() != NOBODY),
        ["connect", address] => TcpStream::connect(address).is_ok(),
        ["alone", address] => TcpStream::connect(address).is_err(),
        ["same", one, other] => {
            let id = |path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
            matches!((id(one), id(other)), (Ok(a), Ok(b)) if a == b)
        }
        _ => false,
    }
}

fn make_in(directory: &str) -> io::Result<()> {
    fs::write(Path::new(directory).join("probe"), "x")
}

fn ready() -> io::Result<()> {
    let socket = std::env::var_os("NOTIFY_SOCKET").ok_or(io::ErrorKind::NotFound)?;
    UnixDatagram::unbound()?.send_to(b"READY=1", Path::new(&socket)).map(drop)
}
