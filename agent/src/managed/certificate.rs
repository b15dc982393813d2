//! The certificate loop: the first certificate, then each next one (managed-nodes.md "Enrollment", "Renewal and lapsed
//! certificates").

use std::sync::Arc;
use std::time::Duration;

use lucia_proto::api::Endpoint;
use tokio::time::sleep;

use super::shared::Shared;
use crate::client::Client;
use crate::client::retry::{Backoff, Pace};
use crate::client::transport::Transport;
use crate::host::status::Doing;
use crate::identity::Identity;
use crate::identity::accept::AcceptError;
use crate::identity::enroll::{self, EnrollError, Turn};
use crate::identity::renew::{Renewal, renewal};

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
}

/// The disk is in a state in which the daemon must not go on.
#[derive(Debug, thiserror::Error)]
#[error("the private directory cannot be trusted after a failed write; the daemon ends to read it anew")]
pub struct DiskDoubtful(#[source] AcceptError);

impl<T: Transport> CertificateLoop<T> {
    /// The loop of this identity; its certificate is known to the other loops from here on.
    #[must_use]
    pub fn new(client: Client<T>, identity: Identity, backoff: Backoff, shared: Arc<Shared>) -> Self {
        let this = Self { client, identity, backoff, shared };
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
        self.shared.certificate.send_replace(certificate);
    }

    /// One turn; says how long to wait for the next.
    ///
    /// # Errors
    /// [`DiskDoubtful`], which ends the daemon; its next start reads what is really there.
    pub async fn turn(&mut self) -> Result<Duration, DiskDoubtful> {
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
        let doing = match renewal(certificate.not_after, now) {
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

    async fn ask(&mut self, call: &'static str, doing: Option<Doing>) -> Result<Duration, DiskDoubtful> {
        if let Some(doing) = doing {
            self.shared.update(|status| status.doing = doing);
        }
        let pace = if call == "renew" { Pace::RENEWAL } else { PENDING };
        match enroll::turn(&mut self.client, &mut self.identity, &self.shared.state).await {
            Ok(Turn::Pending) => {
                self.shared.succeeded(call, |_| {});
                Ok(self.backoff.next(pace, None))
            }
            Ok(Turn::Accepted) => {
                self.backoff.reset();
                self.shared.succeeded(call, |status| status.refusals.retain(|last| last.call != "enroll"));
                self.publish();
                let until = self.identity.certificate().map(|certificate| certificate.not_after.to_string());
                tracing::info!("certificate until {}", until.unwrap_or_default());
                Ok(self.backoff.around(LOOK_EVERY))
            }
            Err(EnrollError::Call(error)) => {
                self.shared.failed(call, &error);
                let asked = Pace::after(&error);
                // A renewal has days of slack and keeps the reference's steps, unless more patience is asked for.
                let pace = if call == "renew" && asked.cap < pace.cap { pace } else { asked };
                Ok(self.backoff.next(pace, error.retry_after()))
            }
            Err(EnrollError::Accept(error)) => {
                let doubtful = matches!(&error, AcceptError::State(state) if state.is_doubtful());
                self.shared.refused(call, crate::host::chain(&error), accept_cure(&error));
                if doubtful { Err(DiskDoubtful(error)) } else { Ok(self.backoff.next(Pace::RENEWAL, None)) }
            }
        }
    }

    /// Turns for ever, or until the disk is doubtful.
    pub async fn run(mut self) -> String {
        loop {
            self.shared.expect_within("certificate", Duration::ZERO);
            match self.turn().await {
                Ok(pause) => {
                    self.shared.expect_within("certificate", pause);
                    sleep(pause).await;
                }
                Err(error) => return crate::host::chain(&error),
            }
        }
    }
}

const fn accept_cure(error: &AcceptError) -> &'static str {
    match error {
        AcceptError::Refused(_) => {
            "check that root-file is the root of the worker that answers; if it is, somebody between changes answers. \
             Key and certificate are kept"
        }
        AcceptError::State(_) | AcceptError::Form(_) => "free space on the disk of /var/lib/lucia; it is tried again",
    }
}
