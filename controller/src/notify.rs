//! Tells systemd how we are (sd_notify(3)): one datagram a message, nothing when nobody asked.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if one listens.
#[derive(Debug)]
pub struct Notify {
    target: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads `NOTIFY_SOCKET` and `WATCHDOG_USEC`, which the service manager alone sets.
    #[must_use]
    pub fn from_env() -> Self {
        let target = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let address = match name.as_bytes() {
                [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok()?,
                _ => SocketAddr::from_pathname(&name).ok()?,
            };
            Some((UnixDatagram::unbound().ok()?, address))
        });
        let watchdog = std::env::var_os("WATCHDOG_USEC")
            .and_then(|text| text.to_str()?.parse().ok())
            .map(|micros| Duration::from_micros(micros) / 2);
        Self { target, watchdog }
    }

    /// How often [`Notify::alive`] is due; nothing when there is no watchdog.
    #[must_use]
    pub const fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Everything that is started serves.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// We still turn.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// We end, in order.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// One sentence for `systemctl status`.
    pub fn status(&self, sentence: &str) {
        self.send(&format!("STATUS={}", lucia_proto::base::text::shown(sentence)));
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.target
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::debug!("the service manager did not take {message:?}: {error}");
        }
    }
}
