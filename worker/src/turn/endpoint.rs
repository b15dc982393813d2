//! The endpoint's part of a turn: the controller's own certificate, for the names in our settings and no others.

use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::LEAF_LIFETIME;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::enrollment::{EndpointRequest, request_hash};
use lucia_proto::pki::csr;
use tracing::{info, warn};

use super::error::TurnError;
use super::pass::Pass;
use super::summary::Summary;
use crate::ca::{self, CaError, ServerLeaf};
use crate::files::file;
use crate::home::{ENDPOINT, EndpointReceipt};
use crate::ledger::Entry;
use crate::{answers, chain};

/// The endpoint's certificate is signed anew after this long.
const ENDPOINT_RENEWED: Duration = Duration::from_secs(24 * 3600);
/// Certificates signed for the endpoint in an hour: a controller that makes its key anew needs one.
pub(crate) const ENDPOINT_AN_HOUR: usize = 4;

impl Pass<'_> {
    /// Signs the controller's endpoint certificate: the names in our own settings and no others. Rests on no journal, so
    /// that a damaged one does not take the endpoint down as well.
    pub(super) fn endpoint(&mut self, summary: &mut Summary) -> Result<(), TurnError> {
        let bytes = match self.queue.endpoint() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(error) => {
                let text = chain(&error);
                if self.remarks.is_new("endpoint", &text) {
                    warn!("endpoint request ignored: {text}");
                }
                return Ok(());
            }
        };
        let hash = request_hash(&bytes);
        let before = self.queue.endpoint_answer().filter(|answer| answer.request_hash == hash);
        let is_young = |at: UnixTime| at <= self.now && self.now.since(at) < ENDPOINT_RENEWED;
        if before.as_ref().is_some_and(|answer| answer.success && is_young(answer.checked_at)) {
            return Ok(());
        }
        let kept = self.home.endpoint().unwrap_or_else(|error| {
            let text = chain(&error);
            if self.remarks.is_new("endpoint's receipt", &text) {
                warn!("{text}");
            }
            None
        });
        let kept = kept.filter(|kept| kept.request_hash == hash && is_young(kept.signed_at));
        let signed = &self.transaction.records().rates().endpoint;
        if kept.is_none() && signed.count(self.now) >= ENDPOINT_AN_HOUR {
            let until = signed.frees_at(self.now).unwrap_or(self.now);
            if self.remarks.is_new("endpoint", "limit") {
                warn!(
                    "the endpoint got {ENDPOINT_AN_HOUR} certificates this hour; the next one is signed after {until}"
                );
            }
            return Ok(());
        }
        let outcome = match (self.endpoint_leaf(&bytes), &kept) {
            (Ok(_), Some(kept)) => Ok(kept.leaf()),
            (Ok(csr), None) => {
                let now = self.now;
                let signed = self
                    .pauses
                    .ask(self.identity.ca.as_ref(), "endpoint", now, |ca| ca.sign_server(&csr, LEAF_LIFETIME, now));
                match signed {
                    // Not the request's fault: it stays in the queue and is tried again.
                    Err(error @ (CaError::Step(_) | CaError::Waits { .. } | CaError::NextTurn)) => {
                        self.ca_trouble("endpoint", &error, summary);
                        return Ok(());
                    }
                    signed => signed.map_err(|error| chain(&error)),
                }
            }
            (Err(text), _) => Err(text),
        };
        if let Err(text) = &outcome {
            if self.remarks.is_new("endpoint", text) {
                warn!("endpoint certificate refused: {text}");
            }
            if before.is_some_and(|answer| !answer.success && answer.message == answers::message(text)) {
                return Ok(());
            }
        }
        let mut at = self.now;
        if let Ok(leaf) = &outcome {
            at = kept.as_ref().map_or(self.now, |kept| kept.signed_at);
            self.endpoint_signed(EndpointReceipt::of(hash, leaf, at), kept.as_ref(), summary)?;
        }
        let answer = answers::endpoint_file(hash, outcome.as_ref().cloned().map_err(String::as_str), at);
        self.drafts.answers.push((file(ENDPOINT), answer.to_bytes().map_err(TurnError::Json)?));
        Ok(())
    }

    /// Keeps a certificate, and counts it where it is not counted yet: a crash may have come after its receipt, its line in
    /// the ledger, or neither.
    fn endpoint_signed(
        &mut self,
        receipt: EndpointReceipt,
        kept: Option<&EndpointReceipt>,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let EndpointReceipt { serial, not_after, .. } = &receipt;
        if self.transaction.records().endpoint().is_none_or(|(newest, _)| newest != serial) {
            info!(serial, until = %not_after, "endpoint certificate signed");
            self.add(Entry::EndpointIssued { serial: serial.clone(), not_after: *not_after })?;
        }
        summary.endpoint = true;
        if kept != Some(&receipt) {
            let bytes = json::to_string(&receipt).map_err(TurnError::Json)?.into_bytes();
            self.drafts.receipts.push((file(ENDPOINT), bytes));
        }
        Ok(())
    }

    fn endpoint_leaf(&self, bytes: &[u8]) -> Result<ca::ServerCsr, String> {
        let names =
            self.config.endpoint_names.as_ref().ok_or(
                "the worker signs no endpoint certificate; set endpoint-names in its worker.toml and restart it",
            )?;
        let request = EndpointRequest::from_bytes(bytes).map_err(|error| chain(&error))?;
        let csr = csr::endpoint_check(request.csr_pem.as_str(), names).map_err(|error| {
            format!("{}; they must be those of endpoint-names in worker.toml, with the same one first", chain(&error))
        })?;
        Ok(csr.into())
    }
}

impl EndpointReceipt {
    fn of(request_hash: Digest, leaf: &ServerLeaf, signed_at: UnixTime) -> Self {
        let ServerLeaf { pem, serial, not_after } = leaf.clone();
        Self { request_hash, serial, certificate_pem: pem, not_after, signed_at }
    }

    fn leaf(&self) -> ServerLeaf {
        ServerLeaf { pem: self.certificate_pem.clone(), serial: self.serial.clone(), not_after: self.not_after }
    }
}
