//! One question to the directory itself: whether this node's reader may bind there and read the owners' group (RFC 4511).
//!
//! sssd answers from its cache while its server is away or refuses its password, so its answer alone would call a
//! directory good that is not. This is asked before anything is changed, and at every look after that. Two requests are
//! written and three kinds of answer read: a library for all of LDAP would be larger than the agent's own code for it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lucia_daemon::reach::{Reach, Unreached};
use lucia_proto::node::directory::DirectoryAccess;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

/// The whole question, from the name to the last answer.
const LIMIT: Duration = Duration::from_secs(15);
/// Of that, to have TLS with it.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest answer: a group of thousands has its members left out, so an entry is short.
const ANSWER_MAX: usize = 64 * 1024;
/// Answers to one request: an entry and the end of a search, or two of what is passed over.
const ANSWERS_MAX: usize = 4;

/// Application tags of RFC 4511.
const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
/// Universal tags.
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;

/// The reader of this node, with its password.
pub struct Reader {
    /// Where and as whom.
    pub access: DirectoryAccess,
    /// Its password.
    pub password: Zeroizing<Vec<u8>>,
}

/// The directory does not let this node read.
#[derive(Debug, Error)]
pub enum LdapError {
    /// It cannot be reached, or the connection ends.
    #[error("cannot reach it")]
    Reach(#[source] io::Error),
    /// No whole answer in time.
    #[error("it does not answer within {} s", LIMIT.as_secs())]
    Timeout,
    /// Its name cannot be looked up in a certificate.
    #[error("its name is none that a certificate has")]
    Name,
    /// What came is no answer.
    #[error("it answers with something else than LDAP")]
    Form,
    /// The password is not taken; result 49 is a wrong one.
    #[error("it refuses this node's reader (LDAP result {0})")]
    Bind(u8),
    /// The group is not shown: result 0 with no entry, 32 where there is none, 10 where it sends elsewhere.
    #[error("it does not show the owners' group to this node's reader (LDAP result {0})")]
    Group(u8),
}

/// The directory's server, or a script in tests.
pub trait Directory {
    /// Binds as the reader and reads the owners' group.
    ///
    /// # Errors
    /// [`LdapError`].
    fn read(&self, reader: &Reader) -> impl Future<Output = Result<(), LdapError>>;
}

/// Over TLS, to whoever proves to be the URI's host by the pinned root.
pub struct Ldaps(TlsConnector);

impl Ldaps {
    /// With the settings that the controller is recognised by.
    #[must_use]
    pub fn new(tls: &ClientConfig) -> Self {
        let mut tls = tls.clone();
        tls.alpn_protocols.clear();
        Self(TlsConnector::from(Arc::new(tls)))
    }
}

impl Directory for Ldaps {
    async fn read(&self, reader: &Reader) -> Result<(), LdapError> {
        let asked = async {
            let (host, port) = (reader.access.uri.host(), reader.access.uri.port());
            let name = ServerName::try_from(host.to_owned()).map_err(|_| LdapError::Name)?;
            let connect = async |_, tcp| self.0.connect(name.clone(), tcp).await;
            let stream = Reach::new(host, port).connect(CONNECT, connect).await;
            let mut stream = stream.map_err(|failure| match failure {
                Unreached::Late => LdapError::Timeout,
                Unreached::Name(source) | Unreached::Closed { source, .. } => LdapError::Reach(source),
                Unreached::Unusable { error, .. } => LdapError::Reach(error),
            })?;
            ask(&mut stream, reader).await
        };
        timeout(LIMIT, asked).await.unwrap_or(Err(LdapError::Timeout))
    }
}

/// Binds, reads the group's entry, and takes leave.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), reader: &Reader) -> Result<(), LdapError> {
    let access = &reader.access;
    // An empty password would be an anonymous bind that succeeds (RFC 4513 5.1.2).
    if reader.password.is_empty() {
        return Err(LdapError::Bind(53));
    }
    let bind = [
        value(INTEGER, &[3]),
        value(OCTETS, access.bind_dn.as_str().as_bytes()),
        Zeroizing::new(value(0x80, &reader.password).to_vec()),
    ];
    send(stream, 1, BIND_REQUEST, &bind.iter().flat_map(|part| part.iter().copied()).collect::<Vec<_>>()).await?;
    let answer = receive(stream, 1).await?;
    match (answer.tag, answer.code()) {
        (BIND_RESPONSE, Some(0)) => {}
        (BIND_RESPONSE, Some(code)) => return Err(LdapError::Bind(code)),
        _ => return Err(LdapError::Form),
    }
    let search = [
        value(OCTETS, access.owner_group.as_str().as_bytes()),
        // The entry itself, no aliases, at most one of it, ten seconds, types alone.
        value(ENUMERATED, &[0]),
        value(ENUMERATED, &[0]),
        value(INTEGER, &[1]),
        value(INTEGER, &[10]),
        value(0x01, &[0xff]),
        value(0x87, b"objectClass"),
        value(SEQUENCE, &value(OCTETS, b"cn")),
    ];
    send(stream, 2, SEARCH_REQUEST, &search.iter().flat_map(|part| part.iter().copied()).collect::<Vec<_>>()).await?;
    let mut shown = false;
    for _ in 0..ANSWERS_MAX {
        let answer = receive(stream, 2).await?;
        match answer.tag {
            SEARCH_ENTRY => shown = true,
            SEARCH_DONE => {
                let code = answer.code().ok_or(LdapError::Form)?;
                // Leave is taken for politeness; the answer is there.
                let _ = send(stream, 3, UNBIND_REQUEST, &[]).await;
                let _ = stream.shutdown().await;
                return if code == 0 && shown { Ok(()) } else { Err(LdapError::Group(code)) };
            }
            // A reference to somewhere else is never followed (threats.md D-2).
            _ => return Err(LdapError::Form),
        }
    }
    Err(LdapError::Form)
}

/// One element: tag, length, content.
fn value(tag: u8, content: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(content.len() + 6));
    out.push(tag);
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
            out.push(0x84);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend_from_slice(content);
    out
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), id: u8, tag: u8, content: &[u8]) -> Result<(), LdapError> {
    let operation = if tag == UNBIND_REQUEST { Zeroizing::new(vec![tag, 0]) } else { value(tag, content) };
    let both = Zeroizing::new([value(INTEGER, &[id]).as_slice(), operation.as_slice()].concat());
    stream.write_all(&value(SEQUENCE, &both)).await.map_err(LdapError::Reach)?;
    stream.flush().await.map_err(LdapError::Reach)
}

/// An answer: its operation.
struct LdapAnswer {
    tag: u8,
    content: Vec<u8>,
}

impl LdapAnswer {
    /// The result code that such an answer begins with.
    fn code(&self) -> Option<u8> {
        match self.content.as_slice() {
            [ENUMERATED, 1, code, ..] => Some(*code),
            _ => None,
        }
    }
}

/// The next answer, which must be to request `id`.
async fn receive(stream: &mut (impl AsyncRead + Unpin), id: u8) -> Result<LdapAnswer, LdapError> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await.map_err(LdapError::Reach)?;
    let [SEQUENCE, first] = head else { return Err(LdapError::Form) };
    let length = match first {
        short @ 0..=0x7f => usize::from(short),
        // One to four bytes of length, and nothing that goes on without end.
        long @ 0x81..=0x84 => {
            let mut bytes = [0; 4];
            let from = 4 - usize::from(long - 0x80);
            let part = bytes.get_mut(from..).ok_or(LdapError::Form)?;
            stream.read_exact(part).await.map_err(LdapError::Reach)?;
            usize::try_from(u32::from_be_bytes(bytes)).map_err(|_| LdapError::Form)?
        }
        _ => return Err(LdapError::Form),
    };
    if length > ANSWER_MAX {
        return Err(LdapError::Form);
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await.map_err(LdapError::Reach)?;
    let (INTEGER, number, rest) = element(&message).ok_or(LdapError::Form)? else { return Err(LdapError::Form) };
    if number != [id] {
        return Err(LdapError::Form);
    }
    let (tag, content, _controls) = element(rest).ok_or(LdapError::Form)?;
    Ok(LdapAnswer { tag, content: content.to_vec() })
}

/// The first element of `bytes`: its tag, its content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
            (length.iter().fold(0, |sum: usize, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
pub(crate) mod tests;
