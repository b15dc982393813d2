//! What a directory with readers does.

use std::collections::BTreeMap;

use lucia_proto::base::ids::NodeId;

use super::error::DirectoryError;
use super::password::Stored;
use crate::config::DirectoryConfig;

/// Readers found: their passwords as the directory keeps them. A value that is none of ours is left out and counted.
pub type Found = BTreeMap<NodeId, Vec<String>>;

/// A directory with readers. Each call is whole: an entry has what was asked, or the call failed and may be repeated.
pub trait Directory: Send {
    /// What nodes are told of it; nothing where there is no directory.
    fn site(&self) -> Option<&DirectoryConfig>;

    /// Makes the reader's entry, or changes the one there, so that it has exactly these passwords.
    ///
    /// # Errors
    /// The directory cannot be asked, or refuses.
    fn set_reader(&self, node_id: &NodeId, passwords: &[&Stored]) -> Result<(), DirectoryError>;

    /// Deletes the reader's entry; none there is as good.
    ///
    /// # Errors
    /// As [`Directory::set_reader`].
    fn delete_reader(&self, node_id: &NodeId) -> Result<(), DirectoryError>;

    /// Those of these readers that there are.
    ///
    /// # Errors
    /// As [`Directory::set_reader`]. A reader that is left out is not there: a list that a limit cut short is an error.
    fn readers(&self, nodes: &[NodeId]) -> Result<Found, DirectoryError>;
}
