//! The page for owners: from what there is at one moment to one HTML document. No I/O; time is an argument.
//!
//! Templates are in `controller/templates`, style and script in `controller/page`. Whatever is put into a template is
//! escaped there, so text from a node is never markup; what a person reads is made from checked types or by
//! [`lucia_proto::text::shown`]. No document has a script or a style of its own: the headers forbid them.

mod chart;
mod lists;
mod server;
mod servers;
mod words;

use askama::Template;
use lucia_proto::owner::{OwnerName, Role};
use lucia_proto::time::UnixTime;
use thiserror::Error;

pub(crate) use lists::{Audit, Keys, OrderedKeys, Owners, Passkeys, SignIn, Trouble, Window};
pub(crate) use server::{Approve, Drafting, Server};
pub(crate) use servers::{Cells, Servers, cells};

/// What all documents look like.
pub(crate) const STYLE: &str = include_str!("../../page/lucia.css");
/// What they do in the browser.
pub(crate) const SCRIPT: &str = include_str!("../../page/lucia.js");

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
}

/// The documents that stand in the list of every document.
const LIST: &[(&str, &str)] = &[
    ("/", "Servers"),
    ("/window", "Discovery"),
    ("/keys", "SSH keys"),
    ("/owners", "Owners"),
    ("/audit", "Audit"),
    ("/passkeys", "Passkeys"),
];

impl Frame {
    /// A document for `who`.
    pub(crate) fn new(title: &str, at: &'static str, who: Option<Who>, now: UnixTime) -> Self {
        Self { title: title.to_owned(), at, who, now }
    }

    fn list(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        LIST.iter().map(|(path, name)| (*path, *name, *path == self.at))
    }

    fn orders(&self) -> bool {
        self.who.as_ref().is_some_and(Who::orders)
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
