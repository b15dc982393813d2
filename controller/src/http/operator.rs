//! The operator's Unix socket (threats.md B-43): mode 0600, and the kernel says who calls.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::accept::{accept_failed, connection, drain};
use super::memory::OPERATORS_MAX;
use super::site::{Edge, Peer, stopped};

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Something that is not a socket is in the way.
    #[error("{path} is there and is not a socket; move it away")]
    NotSocket {
        /// The path.
        path: PathBuf,
    },
    /// Another program answers there.
    #[error("another program answers on {path}; is a controller running?")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot make the socket {path}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What it said.
        #[source]
        err: io::Error,
    },
}

/// Makes the socket, in place of one that nobody answers on any more.
///
/// # Errors
/// See [`SocketError`].
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    let fail = |err| SocketError::Io { path: path.to_owned(), err };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotSocket { path: path.to_owned() }),
        Ok(_) => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(SocketError::InUse { path: path.to_owned() });
            }
            fs::remove_file(path).map_err(fail)?;
        }
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    // Until here the umask decides; whoever connects in between is judged by the kernel's word all the same.
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fail)?;
    Ok(listener)
}

/// Serves the operator until the edge's stop signal, as [`super::serve_tls`] does.
pub async fn serve_operator(listener: UnixListener, edge: Edge) {
    let mut stop = edge.shared.stop.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < OPERATORS_MAX => match accepted {
                Ok((stream, _)) => match stream.peer_cred().map(|peer| peer.uid()) {
                    Ok(uid) if may_operate(uid, Uid::effective().as_raw()) => {
                        connections.spawn(connection(stream, edge.clone(), Peer::Operator(uid)));
                    }
                    Ok(uid) => tracing::warn!(uid, "refused: only root and the controller's own user may operate"),
                    Err(error) => tracing::warn!("refused: the system does not say who calls: {error}"),
                },
                Err(error) => accept_failed(&error).await,
            },
        }
    }
    drop(listener);
    drain(connections, &edge).await;
}

/// Root, and the user the controller runs as.
const fn may_operate(uid: u32, own: u32) -> bool {
    uid == 0 || uid == own
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HT-14
    #[test]
    fn only_root_and_the_controller_s_user_operate() {
        for (uid, own, may) in [(0, 990, true), (990, 990, true), (1000, 990, false), (1, 0, false)] {
            assert_eq!(may_operate(uid, own), may, "{uid} {own}");
        }
    }
}
