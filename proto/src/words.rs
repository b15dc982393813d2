//! One vocabulary for what happened: the journal's events and the audit's lines say the same thing in the same words, in
//! `luciactl` and on the page. What travels and is kept stays as it is; these are for people.

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as ValueError, StrDeserializer};

use crate::audit::AuditAction;
use crate::journal::EventKind;
use crate::text::shown;

impl AuditAction {
    /// What was done, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::WindowOpened => "window opened",
            Self::WindowClosed => "window closed",
            Self::InstallApproved => "installation approved",
            Self::DeviceRejected => "device rejected",
            Self::DeviceDismissed => "device dismissed",
            Self::DeviceRestored => "device restored",
            Self::NodeRemoved => "removed for good",
            Self::NodeRenamed => "node renamed",
            Self::CloneKept => "clone kept",
            Self::CloneSplit => "clone split",
            Self::SshKeyAdded => "SSH key added",
            Self::SshKeyRemoved => "SSH key removed",
            Self::ApplicationReceived => "asked to become an owner",
            Self::RosterTaken => "roster taken over",
            Self::DraftAdded => "order drafted",
            Self::IntentSigned => "order signed",
            Self::OrderGiven => "order given",
            Self::DraftDropped => "order dropped",
            Self::IntentSettled => "order answered",
            Self::TornLineDropped => "torn line dropped",
            Self::SignedIn => "signed in to the page",
            Self::SessionEnded => "session ended",
            Self::PasskeyConfirmed => "passkey confirmed",
            Self::PasskeyRemoved => "passkey removed",
            Self::TokenMade => "token made",
            Self::TokenRemoved => "token removed",
            Self::RefusalsCounted => "more refused calls",
        }
    }
}

impl EventKind {
    /// What happened, in words: those of the audit where both tell of it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::AdmissionOpened => AuditAction::WindowOpened.words(),
            Self::AdmissionClosed => AuditAction::WindowClosed.words(),
            Self::AdmissionClosedOnStartup => "window closed by a restart",
            Self::AdmissionExpired => "window ran out",
            Self::Discovered => "device discovered",
            Self::DiscoveryExpired => "discovery ran out",
            Self::InventoryChanged => "hardware changed",
            Self::InstallationApproved => AuditAction::InstallApproved.words(),
            Self::InstallationApprovalExpired => "approval ran out",
            Self::DiscoveryRejected => AuditAction::DeviceRejected.words(),
            Self::DiscoveryDismissed => AuditAction::DeviceDismissed.words(),
            Self::DiscoveryRestoredToList => AuditAction::DeviceRestored.words(),
            Self::InstallationGrantIssued => "installation permitted",
            Self::InstallationExpired => "installation ran out",
            Self::DeviceReportedInstalling => "installing",
            Self::DeviceReportedAwaitingEnrollment => "installed",
            Self::DeviceReportedFailed => "installation failed",
            Self::NodeEnrolled => "node enrolled",
            Self::DeviceRemoved => AuditAction::NodeRemoved.words(),
            Self::IdentityFrozen => "identity frozen",
            Self::CloneKept => AuditAction::CloneKept.words(),
            Self::CloneSplit => AuditAction::CloneSplit.words(),
            Self::NodeReplaced => "node replaced",
            Self::Renamed => AuditAction::NodeRenamed.words(),
            Self::SshKeyAdded => AuditAction::SshKeyAdded.words(),
            Self::SshKeyRemoved => AuditAction::SshKeyRemoved.words(),
        }
    }
}

/// An event by the journal's name for it, in words; a name that is not known here stays as it is.
#[must_use]
pub fn event(kind: &str) -> String {
    let name: StrDeserializer<'_, ValueError> = kind.into_deserializer();
    EventKind::deserialize(name).map_or_else(|_| shown(kind), |kind| kind.words().to_owned())
}

/// Whoever caused something, by the journal's text for them, as the audit names them.
#[must_use]
pub fn actor(text: &str) -> String {
    match text.split_once(':') {
        Some(("operator", uid)) => format!("operator (uid {})", shown(uid)),
        Some(("owner", name)) => shown(name),
        Some(_) | None => shown(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-94
    #[test]
    fn events_and_audit_speak_the_same_words() {
        for (kind, want) in [
            ("AdmissionOpened", "window opened"),
            ("NodeEnrolled", "node enrolled"),
            ("DeviceRemoved", "removed for good"),
            ("Renamed", "node renamed"),
            ("FromTomorrow", "FromTomorrow"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
        ] {
            assert_eq!(event(kind), want);
        }
        assert_eq!(AuditAction::NodeRemoved.words(), event("DeviceRemoved"));
        for (text, want) in [
            ("operator:1000", "operator (uid 1000)"),
            ("owner:alice", "alice"),
            ("controller", "controller"),
            ("device", "device"),
        ] {
            assert_eq!(actor(text), want);
        }
    }
}
