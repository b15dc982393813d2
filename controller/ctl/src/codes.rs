//! The codes by which programs tell failures of this machine apart, as `--json` writes them. `None` leaves it to the exit code.

use lucia_people::audit::AuditError;
use lucia_proto::orders::DraftError;
use lucia_proto::orders::roster::RosterError;
use lucia_proto::pki::bundle::BundleError;

use crate::audit::AuditProblem;
use crate::client::CallError;
use crate::context::ContextError;
use crate::files::FileError;
use crate::login::LoginError;
use crate::nodes_named::NodesProblem;
use crate::order::OrderError;
use crate::owner_key::OwnerKeyError;
use crate::passphrase::PassphraseError;
use crate::roster::RosterProblem;
use crate::session::RootError;
use crate::sign::SignError;

pub(crate) const fn call(error: &CallError) -> Option<&'static str> {
    match error {
        CallError::Refused(body) => Some(body.error.code.as_str()),
        CallError::Stranger { .. } => Some("server_unverified"),
        CallError::Strange(_) => Some("answer_invalid"),
        _ => None,
    }
}

const fn file(error: &FileError) -> Option<&'static str> {
    match error {
        FileError::Io { .. } => None,
        FileError::Kind(_) => Some("file_irregular"),
        FileError::Owner(_) => Some("file_foreign"),
        FileError::Mode { .. } => Some("file_mode"),
        FileError::TooLong { .. } => Some("file_too_long"),
        FileError::Text(_) => Some("file_not_text"),
    }
}

pub(crate) const fn context(error: &ContextError) -> Option<&'static str> {
    match error {
        ContextError::File(error) => file(error),
        ContextError::Malformed { .. } | ContextError::Neither { .. } => Some("context_invalid"),
        ContextError::Taken(_) => Some("context_taken"),
        _ => None,
    }
}

pub(crate) const fn root(error: &RootError) -> Option<&'static str> {
    match error {
        RootError::File(error) => file(error),
        RootError::NotRoot { .. } => Some("root_invalid"),
    }
}

pub(crate) const fn key(error: &OwnerKeyError) -> Option<&'static str> {
    match error {
        OwnerKeyError::File(error) => file(error),
        OwnerKeyError::NotKey(_) => Some("key_invalid"),
        OwnerKeyError::WrongPassphrase(_) => Some("passphrase_wrong"),
        OwnerKeyError::Passphrase(error) => match error {
            PassphraseError::File(error) => file(error),
            PassphraseError::Cancelled => Some("passphrase_missing"),
            PassphraseError::Differ => Some("passphrase_mismatch"),
            PassphraseError::TooShort => Some("passphrase_too_short"),
            PassphraseError::NoTerminal(_) | PassphraseError::TooLong => None,
        },
        OwnerKeyError::Missing(_) | OwnerKeyError::Make(_) => None,
    }
}

pub(crate) const fn sign(error: &SignError) -> Option<&'static str> {
    Some(match error {
        SignError::Draft(error) => draft(error),
        SignError::OtherCode { .. } => "order_mismatch",
        SignError::OtherFleet { .. } => "other_fleet",
        SignError::OtherDraft => "draft_mismatch",
        SignError::Already(_) => "already_signed",
        SignError::TypeAdmission(_) => "fingerprint_needed",
        SignError::OtherMachine(_) => "fingerprint_mismatch",
        SignError::Over { .. } => "expired",
    })
}

const fn draft(error: &DraftError) -> &'static str {
    match error {
        DraftError::BodyMismatch => "body_mismatch",
        DraftError::OrderHead(_)
        | DraftError::Body(_)
        | DraftError::DoesNotFit(_)
        | DraftError::Hidden
        | DraftError::TooLong => "malformed",
    }
}

pub(crate) const fn nodes(error: &NodesProblem) -> Option<&'static str> {
    match error {
        NodesProblem::NobodyKnows(_) => Some("code_needed"),
        NodesProblem::OtherCode { .. } => Some("code_mismatch"),
        NodesProblem::OtherName { .. } => Some("name_mismatch"),
        NodesProblem::ControllersWord { .. } => Some("name_unverified"),
        NodesProblem::BadNote(_) | NodesProblem::Note(_) => None,
    }
}

pub(crate) const fn roster(error: &RosterProblem) -> Option<&'static str> {
    Some(match error {
        RosterProblem::NoBundle => "bundle_missing",
        RosterProblem::Bundle(_) => "bundle_invalid",
        RosterProblem::OldBundle { why: BundleError::Conflict { .. }, .. } => "bundle_conflict",
        RosterProblem::OldBundle { .. } => "bundle_older",
        RosterProblem::Roster(error) => match error {
            RosterError::Signature => "roster_signature_invalid",
            RosterError::OtherFleet(_) => "other_fleet",
            RosterError::Older { .. } | RosterError::OlderBundle { .. } => "roster_older",
            RosterError::Conflict { .. } => "roster_conflict",
            _ => "roster_invalid",
        },
        RosterProblem::NotIn => "not_in_roster",
        RosterProblem::Viewer(_) => "role_required",
        RosterProblem::Forbidden(_) => "kind_forbidden",
        RosterProblem::None | RosterProblem::Mark(_) | RosterProblem::BadMark(_) | RosterProblem::Strange(_) => {
            return None;
        }
    })
}

pub(crate) const fn login(error: &LoginError) -> Option<&'static str> {
    match error {
        LoginError::Name(_) => None,
        LoginError::OtherRoot { .. } => Some("root_mismatch"),
        LoginError::OtherCode { .. } => Some("code_mismatch"),
        LoginError::OtherName { .. } => Some("name_mismatch"),
        LoginError::NotApproved => Some("not_approved"),
    }
}

pub(crate) const fn audit(error: &AuditProblem) -> Option<&'static str> {
    Some(match error {
        AuditProblem::Broken(error) => match error {
            AuditError::Line { .. } => "audit_unreadable",
            AuditError::Form { .. } => "audit_edited",
            AuditError::Sequence { .. } => "audit_out_of_order",
            AuditError::Chain { .. } => "audit_chain_broken",
            AuditError::Cut { .. } => "audit_line_cut",
            AuditError::Short { .. } => "audit_shorter",
            AuditError::TooLong => return None,
        },
        AuditProblem::Anew(_) => "audit_rewritten",
        AuditProblem::Short { .. } => "audit_withheld",
        AuditProblem::File { .. } | AuditProblem::Note(_) | AuditProblem::BadNote(_) => return None,
    })
}

pub(crate) const fn order(error: &OrderError) -> Option<&'static str> {
    match error {
        OrderError::OtherHostname { .. } => Some("hostname_mismatch"),
        OrderError::NoCertificate(_) => Some("no_certificate"),
        OrderError::OtherNode => Some("node_mismatch"),
        _ => None,
    }
}
