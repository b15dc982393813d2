//! The owners' two directories under the controller's `nodes`, read as what they are: somebody else's (design.md O3, O4,
//! W6). The rules are those of [`crate::queue`].
//!
//! A controller that knows nothing of owners has no `owner-requests`; then there is nothing to read.

use lucia_durable::{DirError, DirRules, FileName, FileRules, Owner, PrivateDir, ReadError};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::SIGNED_INTENT_MAX;
use lucia_proto::files::owner_queue::{ApplicationFile, AuditHeadFile, OwnerFile};
use lucia_proto::orders::OrderId;
use lucia_proto::orders::freshness::FreshnessRequest;
use lucia_proto::orders::owner::OwnerId;

use crate::config::Config;
use crate::files::file;
use crate::queue::{
    ANSWER_MODE, ENTRIES_A_TURN, SCAN_MAX, controller_file, controller_nodes, controller_rules, is_directory, read,
};

/// What the controller writes.
const REQUESTS: &str = "owner-requests";
/// What the worker writes.
const RESPONSES: &str = "owner-responses";

/// The directories, open.
#[derive(Debug)]
pub struct OwnerQueue {
    requests: Option<PrivateDir>,
    /// Where answers go.
    pub responses: PrivateDir,
    rules: FileRules,
}

/// What lies in the requests directory, each list by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerScan {
    /// Who asks to become an owner.
    pub applications: Vec<OwnerId>,
    /// Nodes that ask how late it is.
    pub questions: Vec<NodeId>,
    /// Orders.
    pub intents: Vec<OrderId>,
    /// Whether the controller says how far its audit reaches.
    pub audit: bool,
    /// Names that no program of ours writes there, the first [`ENTRIES_A_TURN`] of them.
    pub strange: Vec<FileName>,
    /// Whether all of the directory was seen.
    pub complete: bool,
}

/// The name of a file of the queue.
#[must_use]
pub fn file_name(of: &OwnerFile) -> FileName {
    file(&of.name())
}

impl OwnerQueue {
    /// Opens the directories; gives nothing where there are none, since the installation is older than owners.
    ///
    /// # Errors
    /// One of them is not what it must be, or the answers' is missing beside the other.
    pub fn open(config: &Config) -> Result<Option<Self>, DirError> {
        let rules = controller_rules(config);
        let nodes = controller_nodes(config)?;
        let requests = match nodes.subdir(&file(REQUESTS), rules) {
            Err(DirError::Missing { .. }) => None,
            other => Some(other?),
        };
        let ours = DirRules { owner: Owner::Us, ..rules };
        let responses = match nodes.subdir(&file(RESPONSES), ours) {
            // Where one user runs both programs it can be made here; else the first error says what to do.
            Err(missing @ DirError::Missing { .. }) => {
                match (nodes.create_subdir(&file(RESPONSES), ours), requests.is_some()) {
                    (Ok(made), _) => made,
                    (Err(_), true) => return Err(missing),
                    (Err(_), false) => return Ok(None),
                }
            }
            other => other?,
        };
        Ok(Some(Self { requests, responses, rules: controller_file(config) }))
    }

    /// Whether the controller is one that knows of owners.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.requests.is_some()
    }

    /// The directory in which something may appear.
    #[must_use]
    pub fn watched(&self) -> Option<&std::path::Path> {
        self.requests.as_ref().map(PrivateDir::path)
    }

    /// What lies in the requests directory.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn scan(&self) -> Result<OwnerScan, DirError> {
        let Some(requests) = &self.requests else { return Ok(OwnerScan { complete: true, ..OwnerScan::default() }) };
        let listing = requests.list(SCAN_MAX)?;
        let mut scan = OwnerScan { complete: listing.complete, ..OwnerScan::default() };
        for name in listing {
            match OwnerFile::of_name(name.as_str()) {
                Some(OwnerFile::Application(owner)) => scan.applications.push(owner),
                Some(OwnerFile::Freshness(node)) => scan.questions.push(node),
                Some(OwnerFile::OrderHead(intent)) => scan.intents.push(intent),
                Some(OwnerFile::AuditHead) => scan.audit = true,
                None if scan.strange.len() < ENTRIES_A_TURN => scan.strange.push(name),
                None => {}
            }
        }
        Ok(scan)
    }

    /// The bytes of a request; nothing when it went away meanwhile.
    ///
    /// # Errors
    /// It cannot be read, or breaks a rule.
    pub fn request(&self, of: &OwnerFile) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(requests) = &self.requests else { return Ok(None) };
        let max = match of {
            OwnerFile::Application(_) => ApplicationFile::MAX,
            OwnerFile::Freshness(_) => FreshnessRequest::MAX,
            OwnerFile::OrderHead(_) => SIGNED_INTENT_MAX,
            OwnerFile::AuditHead => AuditHeadFile::MAX,
        };
        read(requests, &file_name(of), max, self.rules)
    }

    /// A file of our own, if it is there whole.
    #[must_use]
    pub fn ours(&self, name: &FileName, max: usize) -> Option<Vec<u8>> {
        read(&self.responses, name, max, FileRules { mode: ANSWER_MODE, owner: Owner::Us }).ok().flatten()
    }

    /// Whether a directory lies where an answer would go: see [`crate::queue::Queue::is_blocked`].
    #[must_use]
    pub fn is_blocked(&self, name: &FileName) -> bool {
        is_directory(&self.responses, name)
    }

    /// Answers whose request is gone, at most a turn's worth of them.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn orphans(&self) -> Result<Vec<FileName>, DirError> {
        let Some(requests) = &self.requests else { return Ok(Vec::new()) };
        let answers = self.responses.list(SCAN_MAX)?.into_iter().filter(|name| {
            let is_answer = OwnerFile::of_name(name.as_str()).is_some();
            // What the system cannot tell is no reason to delete anything.
            is_answer && !requests.exists(name).unwrap_or(true) && !self.is_blocked(name)
        });
        Ok(answers.take(ENTRIES_A_TURN).collect())
    }
}
