//! The page for owners: from what there is at one moment to one HTML document. No I/O; time is an argument.
//!
//! Templates are in `controller/templates`, style and script in `controller/page`. Whatever is put into a template is
//! escaped there, so text from a node is never markup; what a person reads is made from checked types or by
//! [`lucia_proto::base::text::shown`]. No document has a script or a style of its own: the headers forbid them.

mod assets;
mod chart;
mod device;
mod keys;
mod lists;
mod orders;
mod people;
mod server;
mod servers;
mod words;

use askama::Template;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::OrderKind;
use lucia_proto::orders::owner::{OwnerId, OwnerName, Role};
use thiserror::Error;

pub(crate) use assets::Asset;
pub(crate) use device::Device;
pub(crate) use keys::{GivenKeys, Keys, OrderedKeys};
pub(crate) use lists::{Audit, AuditPart, Passkeys, SignIn, Trouble, Window};
pub(crate) use orders::{Order, OrderFacts, Orders};
pub(crate) use people::Owners;
pub(crate) use server::{Gone, Server, ServerFacts};
pub(crate) use servers::{Cells, Servers, cells};

/// Why there is no document.
#[derive(Debug, Error)]
pub(crate) enum PageError {
    /// A template cannot be filled in.
    #[error("a page cannot be written; this is a mistake in the program, report it")]
    Template(#[source] askama::Error),
}

/// Who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// What people call them.
    pub(crate) name: OwnerName,
    /// What they may do.
    pub(crate) role: Role,
}

impl Who {
    /// Whether they may order.
    fn orders(&self) -> bool {
        self.role >= Role::Owner
    }
}

/// What a draft names beside machines and what is ordered: who orders, in which fleet.
#[derive(Clone, Debug)]
pub(crate) struct Drafting {
    /// The SHA-256 of the root.
    pub(crate) fleet: Digest,
    /// Who drafts.
    pub(crate) owner: OwnerId,
    /// The kinds that may be signed on this page, by a passkey for orders; none by default.
    pub(crate) page_kinds: Vec<OrderKind>,
}

/// What stands around every document.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Its heading.
    pub(crate) title: String,
    /// Its place in the list of documents.
    pub(crate) at: &'static str,
    /// Who looks; nobody before signing in.
    pub(crate) who: Option<Who>,
    /// The controller's clock.
    pub(crate) now: UnixTime,
    /// How orders are drafted here; nothing for who may not, and in a fleet without a roster.
    pub(crate) drafting: Option<Drafting>,
    /// The number of the newest event when it was made: who watches from then on has missed nothing.
    pub(crate) sequence: u64,
}

/// The documents that stand in the list of every document.
const LIST: &[(&str, &str)] = &[
    ("/", "Servers"),
    ("/window", "Discovery"),
    ("/orders", "Orders"),
    ("/keys", "SSH keys"),
    ("/owners", "Owners"),
    ("/audit", "Audit"),
    ("/passkeys", "Passkeys"),
];

impl Frame {
    /// A document for `who`.
    pub(crate) fn new(title: &str, at: &'static str, who: Option<Who>, now: UnixTime) -> Self {
        Self { title: title.to_owned(), at, who, now, drafting: None, sequence: 0 }
    }

    /// One on which orders are drafted.
    pub(crate) fn drafting(self, drafting: Option<Drafting>) -> Self {
        Self { drafting, ..self }
    }

    /// One made after this event.
    pub(crate) fn after(self, sequence: u64) -> Self {
        Self { sequence, ..self }
    }

    fn list(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        // A server is one of the servers, and an order one of the orders.
        let at = match self.at {
            "/servers/{id}" | "/devices/{id}" => "/",
            "/orders/{code}" => "/orders",
            at => at,
        };
        LIST.iter().map(move |(path, name)| (*path, *name, *path == at))
    }

    fn orders(&self) -> bool {
        self.who.as_ref().is_some_and(Who::orders)
    }

    /// The kinds of order that may be signed here, in the words that the worker's host has for them.
    fn page_kinds(&self) -> Vec<&'static str> {
        let kinds = self.drafting.iter().flat_map(|drafting| &drafting.page_kinds);
        kinds.map(|kind| kind.as_str()).collect()
    }
}

/// How something stands: told by its word, and by colour and shape besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    /// As it should be.
    Ok,
    /// It waits for somebody or something.
    Wait,
    /// It wants a look.
    Bad,
    /// Neither.
    Calm,
}

impl Tone {
    /// The class of the style sheet.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wait => "wait",
            Self::Bad => "bad",
            Self::Calm => "calm",
        }
    }
}

impl std::fmt::Display for Tone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The document.
///
/// # Errors
/// [`PageError::Template`]; nothing is shown then.
pub(crate) fn render(document: &impl Template) -> Result<String, PageError> {
    document.render().map_err(PageError::Template)
}

#[cfg(test)]
mod tests;
