//! The directory loop: sets sssd and sshd up as the worker's answer says, looks at them now and then, and opens the way
//! for the first heartbeat ever (design.md N4).

use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::node::heartbeat::{DirectoryReport, DirectoryState, Message};
use lucia_proto::pki::key::NodeKey;
use tokio::sync::watch;
use tokio::time::timeout;

use super::shared::{DirectoryStanding, Shared};
use crate::client::retry::{Backoff, Pace};
use crate::directory::change::{ChangeError, Ground};
use crate::directory::files::{self, Wanted};
use crate::directory::ldap::Directory;
use crate::directory::{Access, Orders};
use crate::host::root::Root;
use crate::keys::passwd;
use crate::units::Runner;

/// Time between two questions to a directory that works.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// So many questions to the directory alone come between two whole looks, at sshd and sssd too: a quarter of an hour.
const QUESTIONS: u32 = 14;
/// Time between two looks where there is none: only other orders change that.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// A change takes this long at most: every program and job of it to its limit, forth and back.
const LONGEST: Duration = Duration::from_secs(600);
/// What cures a password that does not open or a value that does not fit.
const ORDERS_CURE: &str =
    "see that the worker runs the same version as this node's agent; the next renewal brings another answer";

/// Keeps the directory's files.
pub struct DirectoryLoop<R, D> {
    parts: Parts<R, D>,
    backoff: Backoff,
    orders: watch::Receiver<Orders>,
    /// Questions until the next whole look; none after a failure.
    questions: u32,
    shared: Arc<Shared>,
}

/// What the loop is made of beside what all share.
pub struct Parts<R, D> {
    /// Runs programs.
    pub runner: R,
    /// Asks the directory.
    pub directory: D,
    /// Stands for `/`.
    pub root: Root,
    /// Where the fleet's root lies on the node.
    pub root_file: String,
    /// Opens the reader's password.
    pub key: Arc<NodeKey>,
    /// What it is bound to.
    pub node_id: NodeId,
}

impl<R: Runner, D: Directory> DirectoryLoop<R, D> {
    /// The loop; whether heartbeats may go out is known from here on.
    #[must_use]
    pub fn new(parts: Parts<R, D>, backoff: Backoff, shared: Arc<Shared>) -> Self {
        let mut orders = shared.orders.subscribe();
        orders.mark_changed();
        let worked = files::kept(&shared.state).is_some_and(|kept| kept.sssd.is_some());
        let this = Self { parts, backoff, orders, questions: 0, shared };
        this.stand(worked, None);
        this
    }

    /// One turn; says how long to wait for the next.
    ///
    /// # Errors
    /// When nobody knows what the private directory holds; the daemon ends, and its next start reads what is there.
    pub async fn turn(&mut self) -> Result<Duration, ChangeError> {
        if self.orders.has_changed().unwrap_or(true) {
            self.questions = 0;
        }
        let orders = self.orders.borrow_and_update().clone();
        match orders {
            Orders::Unknown => {
                // Nothing tells that there is a directory: the node was enrolled before, and goes on.
                self.stand(self.shared.certificate.borrow().is_some(), None);
                Ok(IDLE)
            }
            Orders::None => self.without().await,
            Orders::Ldap(access) => self.with(&access).await,
        }
    }

    fn ground(&self) -> Ground<'_, R, D> {
        Ground {
            root: &self.parts.root,
            state: &self.shared.state,
            runner: &self.parts.runner,
            directory: &self.parts.directory,
        }
    }

    async fn without(&mut self) -> Result<Duration, ChangeError> {
        self.stand(true, None);
        match self.ground().apply(&Wanted::default(), None).await {
            Ok(changed) => {
                if changed {
                    tracing::info!("directory: the fleet has none any more; its files were removed from this node");
                }
                self.shared.succeeded("directory", |_| {});
                self.backoff.reset();
                Ok(IDLE)
            }
            Err(error) => self.failed(error, false),
        }
    }

    async fn with(&mut self, access: &Access) -> Result<Duration, ChangeError> {
        let DirectoryStanding { open, report } = self.shared.standing.borrow().clone();
        if report.is_none() {
            self.stand(open, Some((DirectoryState::Waiting, "sssd and sshd are being set up")));
        }
        let opened = access.open(&self.parts.key, &self.parts.node_id);
        let opened = opened.and_then(|reader| reader.wanted(&self.parts.root_file).map(|wanted| (reader, wanted)));
        let (reader, wanted) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.refused(crate::host::chain(&*error), ORDERS_CURE, true);
                return Ok(self.backoff.next(Pace::RENEWAL, None));
            }
        };
        if let Some(left) = self.questions.checked_sub(1) {
            self.questions = left;
            return match self.ground().ask(&reader).await {
                Ok(()) => Ok(self.backoff.around(ASK_EVERY)),
                Err(error) => self.failed(error, true),
            };
        }
        match self.ground().apply(&wanted, Some(&reader)).await {
            Ok(changed) => {
                self.questions = QUESTIONS;
                self.backoff.reset();
                let group = access.access.owner_group.group_name();
                if passwd::has_group(&self.parts.root, group) {
                    let what = format!(
                        "this machine has a local group {group}, which hides the directory's group of the same name: its \
                         members count as owners, and the directory's may not"
                    );
                    let cure = format!("rename the local group: groupmod -n {group}-local {group}");
                    self.shared.refused("directory", what, &cure);
                } else {
                    self.shared.succeeded("directory", |_| {});
                }
                self.stand(true, Some((DirectoryState::Ready, "")));
                if changed {
                    tracing::info!("directory: sssd answers from {}", access.access.uri);
                }
                Ok(self.backoff.around(ASK_EVERY))
            }
            Err(error) => self.failed(error, true),
        }
    }

    fn failed(&mut self, error: ChangeError, reports: bool) -> Result<Duration, ChangeError> {
        self.questions = 0;
        self.refused(crate::host::chain(&error), &error.cure(), reports);
        if error.is_doubtful() {
            return Err(error);
        }
        Ok(self.backoff.next(Pace::RENEWAL, None))
    }

    fn refused(&self, what: String, cure: &str, reports: bool) {
        if reports {
            let open = self.shared.standing.borrow().open;
            self.stand(open, Some((DirectoryState::Failed, &what)));
        }
        self.shared.refused("directory", what, cure);
    }

    fn stand(&self, open: bool, report: Option<(DirectoryState, &str)>) {
        let report = report.map(|(state, message)| DirectoryReport {
            state,
            message: Some(message).filter(|message| !message.is_empty()).and_then(Message::fitted),
        });
        let standing = DirectoryStanding { open, report };
        self.shared.update(|status| status.directory = standing.report.clone());
        self.shared.standing.send_replace(standing);
    }

    /// Turns for ever; new orders end a pause.
    pub async fn run(mut self) -> String {
        loop {
            self.shared.expect_within("directory", LONGEST);
            match self.turn().await {
                Ok(pause) => {
                    self.shared.expect_within("directory", pause);
                    let _ = timeout(pause, self.orders.changed()).await;
                }
                Err(error) => return crate::host::chain(&error),
            }
        }
    }
}
