//! The certificate loop: the first certificate, then each next one (managed-nodes.md "Enrollment", "Renewal and lapsed
//! certificates").

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::names::Hostname;
use lucia_proto::calls::Endpoint;
use tokio::time::sleep;

use super::shared::Shared;
use crate::client::Client;
use crate::client::retry::{Backoff, Pace};
use crate::client::transport::Transport;
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::state::StateError;
use crate::host::status::Doing;
use crate::identity::accept::AcceptError;
use crate::identity::enroll::{self, EnrollError, Turn};
use crate::identity::renew::{Renewal, renewal};
use crate::identity::{Certificate, Identity};
use crate::owners::Owners;

/// Time between two looks at a certificate that is good.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// An enrolment that the worker has not answered yet: 5 s, 10 s, then 20 s.
const PENDING: Pace = Pace { base: Duration::from_secs(5), cap: Duration::from_secs(20), jitter: false };

/// Keeps the certificate in force.
pub struct CertificateLoop<T> {
    client: Client<T>,
    identity: Identity,
    backoff: Backoff,
    shared: Arc<Shared>,
    owners: Rc<RefCell<Owners>>,
    /// Tries so far while both names are asked for by turns; the last of a turn is the one that is refused.
    tries: u32,
}

/// Tries with the one name before the other has its turn.
const BY_TURNS: u32 = 4;
/// A new name that somebody has to say yes to: 5 s doubled up to 5 min.
const RENAMING: Pace = Pace { base: Duration::from_secs(5), cap: Duration::from_secs(300), jitter: false };

/// Why the daemon ends where nobody knows what the disk holds; its next start reads what is really there.
const DOUBTFUL: &str =
    "the private directory cannot be trusted after a failed write; the daemon restarts to read what is on the disk";

impl<T: Transport> CertificateLoop<T> {
    /// The loop of this identity; its certificate is known to the other loops from here on.
    #[must_use]
    pub fn new(
        client: Client<T>,
        identity: Identity,
        backoff: Backoff,
        shared: Arc<Shared>,
        owners: Rc<RefCell<Owners>>,
    ) -> Self {
        let this = Self { client, identity, backoff, shared, owners, tries: 0 };
        this.publish();
        this
    }

    fn publish(&self) {
        let certificate = self.identity.certificate().cloned();
        self.shared.update(|status| {
            status.certificate_until = certificate.as_ref().map(|certificate| certificate.not_after);
            match (&certificate, status.doing) {
                (None, _) => status.doing = Doing::AwaitingCertificate,
                // It need not wait for a heartbeat to be true.
                (Some(_), Doing::AwaitingCertificate | Doing::Lapsed) => status.doing = Doing::Certified,
                (Some(_), _) => {}
            }
        });
        // Before the certificate, which lets others act: what they wait for is on its way then.
        self.shared.orders.send_if_modified(|orders| {
            let changed = orders != self.identity.directory();
            orders.clone_from(self.identity.directory());
            changed
        });
        self.shared.certificate.send_replace(certificate);
    }

    /// One turn; says how long to wait for the next.
    ///
    /// # Errors
    /// When the disk is in doubt, which ends the daemon.
    pub async fn turn(&mut self) -> Result<Duration, Failed> {
        let Some(certificate) = self.identity.certificate().cloned() else {
            return self.ask("enroll", None).await;
        };
        let now = match self.client.server_now() {
            Some(now) => now,
            // Nothing is decided by this machine's own clock: first the controller says what time it is.
            None => match self.client.prepare(Endpoint::Renew).await {
                Ok(now) => now,
                Err(error) => {
                    self.shared.failed("renew", &error);
                    return Ok(self.backoff.next(Pace::after(&error), error.retry_after()));
                }
            },
        };
        let due = renewal(certificate.not_after, now);
        let other = self.other_name(&certificate, due);
        if other.is_none() {
            self.tries = 0;
        }
        let asked = match (&other, due) {
            (None, _) => &certificate.hostname,
            (Some(other), Renewal::Keep) => other,
            // Long enough with each that the worker can answer, and the one it has first.
            (Some(other), _) => {
                if (self.tries / BY_TURNS).is_multiple_of(2) {
                    &certificate.hostname
                } else {
                    other
                }
            }
        };
        if let Err(error) = self.identity.ask_as(asked, &self.client.key()) {
            tracing::error!("{}", crate::host::chain(&*error));
        }
        let doing = match due {
            Renewal::Keep if other.is_some() => None,
            Renewal::Keep => {
                self.backoff.reset();
                self.shared.succeeded("renew", |_| {});
                return Ok(self.backoff.around(LOOK_EVERY));
            }
            Renewal::Renew => None,
            Renewal::Lapsed => Some(Doing::Lapsed),
        };
        self.ask("renew", doing).await
    }

    /// The name that the machine calls itself by, where its certificate is to be for that one: it is approved, or the
    /// controller cannot say whether it is since a lapsed node sends no heartbeats.
    fn other_name(&self, certificate: &Certificate, due: Renewal) -> Option<Hostname> {
        let approved = self.shared.approved.borrow().clone();
        let machine = || {
            let readings = self.shared.readings.borrow();
            let name = readings.as_ref()?.machine_name.as_deref()?;
            name.parse::<Hostname>().ok().filter(|_| due == Renewal::Lapsed)
        };
        approved.or_else(machine).filter(|name| *name != certificate.hostname)
    }

    /// Gives on what the answer says of bundle and roster.
    fn tell_owners(&mut self) -> Result<(), Failed> {
        let roster = self.identity.take_roster();
        let mut owners = self.owners.borrow_mut();
        match owners.answered(&self.shared.state, self.identity.bundle(), roster) {
            Err(error) if error.is_doubtful() => Err(error).or_failed(DOUBTFUL),
            Err(error) => {
                // The controller has it as well, and offers it with its replies.
                tracing::warn!("{}", crate::host::chain(&error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    async fn ask(&mut self, call: &'static str, doing: Option<Doing>) -> Result<Duration, Failed> {
        if let Some(doing) = doing {
            self.shared.update(|status| {
                status.doing = doing;
                // No heartbeat is sent any more, so what the last one was refused for is past.
                status.refusals.retain(|last| last.call != "heartbeat");
            });
        }
        let renames = self.identity.csr_is_for_another_name();
        let pace = match call {
            "renew" if renames => RENAMING,
            "renew" => Pace::RENEWAL,
            _ => PENDING,
        };
        if let Some(bundle) = self.owners.borrow().bundle() {
            self.identity.hold(bundle);
        }
        match enroll::turn(&mut self.client, &mut self.identity, &self.shared.state).await {
            Ok(Turn::Pending) => {
                self.shared.succeeded(call, |_| {});
                // Its own name is not given up for one that nobody approved yet because the worker is slow.
                self.tries = self.tries.wrapping_add(u32::from(renames || self.shared.approved.borrow().is_some()));
                Ok(self.backoff.next(pace, None))
            }
            Ok(Turn::Accepted) => {
                self.tries = 0;
                self.shared.succeeded(call, |status| status.refusals.retain(|last| last.call != "enroll"));
                self.publish();
                self.tell_owners()?;
                let until = self.identity.certificate().map(|certificate| certificate.not_after.to_string());
                tracing::info!("certificate of {} until {}", self.identity.hostname(), until.unwrap_or_default());
                let server = self.client.server_now();
                let short = |certificate: &Arc<Certificate>| {
                    server.is_some_and(|now| renewal(certificate.not_after, now) != Renewal::Keep)
                };
                if self.identity.certificate().is_some_and(short) {
                    // The issuing CA itself ends soon, and there is no longer one to be had yet.
                    return Ok(self.backoff.next(Pace::RENEWAL, None));
                }
                self.backoff.reset();
                Ok(self.backoff.around(LOOK_EVERY))
            }
            Err(EnrollError::Call(error)) => {
                if matches!(error.code(), Some(Code::NodeEnrollmentFailed | Code::EnrollmentMismatch)) {
                    self.tries = self.tries.wrapping_add(BY_TURNS - self.tries % BY_TURNS);
                }
                // A name that nobody approved yet was only tried.
                if !renames || self.shared.approved.borrow().is_some() {
                    self.shared.failed(call, &error);
                }
                let asked = Pace::after(&error);
                // A renewal has days of slack and keeps the reference's steps, unless more patience is asked for.
                let pace = if call == "renew" && asked.cap < pace.cap { pace } else { asked };
                Ok(self.backoff.next(pace, error.retry_after()))
            }
            Err(EnrollError::Accept(error)) => {
                self.shared.refused(call, crate::host::chain(&error), accept_cure(&error));
                match error {
                    AcceptError::State(error) if error.is_doubtful() => Err(error).or_failed(DOUBTFUL),
                    _ => Ok(self.backoff.next(Pace::RENEWAL, None)),
                }
            }
        }
    }

    /// Turns for ever, or until the disk is doubtful.
    pub async fn run(mut self) -> String {
        let mut approved = self.shared.approved.subscribe();
        loop {
            self.shared.expect_within("certificate", Duration::ZERO);
            match self.turn().await {
                Ok(pause) => {
                    self.shared.expect_within("certificate", pause);
                    // A name that is approved is asked for at once.
                    tokio::select! {
                        () = sleep(pause) => {}
                        _ = approved.changed() => {}
                    }
                }
                Err(error) => return crate::host::chain(&*error),
            }
        }
    }
}

const fn accept_cure(error: &AcceptError) -> &'static str {
    match error {
        AcceptError::Refused(_) | AcceptError::Older { .. } => {
            "check that root-file is the root of the worker that answers; if it is, somebody between changes answers. \
             Key and certificate are kept"
        }
        AcceptError::State(StateError::Form { .. }) => "it is tried again",
        AcceptError::State(_) => "free space on the disk of /var/lib/lucia; it is tried again",
    }
}
