//! What can happen or be done in a fleet, once for journal and audit.
//!
//! A row has the word that the audit writes and, where the journal was written with another before there was this table, that
//! one too: what is stored or hashed keeps its words.

/// The table of acts.
macro_rules! acts {
    ($($(#[$doc:meta])* $name:ident = $word:literal $(journal $journal:literal)?, $words:literal;)*) => {
        /// Something that happened or was done. A closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Act { $($(#[$doc])* $name,)* }

        impl Act {
            /// Every act.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word that the audit writes.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The word that the journal writes.
            #[must_use]
            pub const fn journal_word(self) -> &'static str {
                match self { $(Self::$name => { let word = $word; $(let _ = word; let word = $journal;)? word })* }
            }

            /// What people read.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }
        }
    };
}

acts! {
    /// The discovery window was opened.
    WindowOpened = "window-opened" journal "AdmissionOpened", "Opened the discovery window";
    /// A person closed it.
    WindowClosed = "window-closed" journal "AdmissionClosed", "Closed the discovery window";
    /// It was open when the controller last stopped.
    WindowClosedAtStart = "window-closed-at-start" journal "AdmissionClosedOnStartup", "Closed the discovery window at start";
    /// Its time ran out.
    WindowExpired = "window-expired" journal "AdmissionExpired", "Discovery window expired";
    /// A machine introduced itself.
    Discovered = "discovered" journal "Discovered", "Introduced itself";
    /// Nobody decided about it in time.
    DiscoveryExpired = "discovery-expired" journal "DiscoveryExpired", "Discovery expired";
    /// It reported other hardware; an approval, if any, is void.
    InventoryChanged = "inventory-changed" journal "InventoryChanged", "Reported other hardware";
    /// A person approved it.
    Approved = "install-approved" journal "InstallationApproved", "Approved a machine";
    /// The approval ran out before the grant.
    ApprovalExpired = "approval-expired" journal "InstallationApprovalExpired", "Approval expired";
    /// A person rejected it.
    Rejected = "device-rejected" journal "DiscoveryRejected", "Rejected a machine";
    /// It left the list.
    Dismissed = "device-dismissed" journal "DiscoveryDismissed", "Removed a machine from the list";
    /// It is on the list again.
    Restored = "device-restored" journal "DiscoveryRestoredToList", "Restored a machine to the list";
    /// It got its one-time permission to install.
    Granted = "install-granted" journal "InstallationGrantIssued", "Installation authorized";
    /// It did not become a node in time.
    InstallationExpired = "installation-expired" journal "InstallationExpired", "Did not become a node in time";
    /// It says: installing.
    ReportedInstalling = "reported-installing" journal "DeviceReportedInstalling", "Installation started";
    /// It says: installed.
    ReportedInstalled = "reported-installed" journal "DeviceReportedAwaitingEnrollment", "Installation finished";
    /// It says: failed.
    ReportedFailed = "reported-failed" journal "DeviceReportedFailed", "Installation failed";
    /// Its first heartbeat was verified.
    Enrolled = "node-enrolled" journal "NodeEnrolled", "Became a node";
    /// A node or machine was removed.
    Removed = "node-removed" journal "DeviceRemoved", "Removed a node";
    /// Its identity was seen twice.
    Frozen = "identity-frozen" journal "IdentityFrozen", "Identity seen twice, frozen";
    /// Of the two, one was kept.
    CloneKept = "clone-kept" journal "CloneKept", "Kept one of two instances";
    /// Neither was kept: the identity was removed.
    CloneSplit = "clone-split" journal "CloneSplit", "Kept neither of two instances";
    /// Its name was given to another key, for which this installation was approved; its own removal follows.
    Replaced = "node-replaced" journal "NodeReplaced", "Replaced by another key";
    /// A node was given another name, which its machine calls itself by.
    Renamed = "node-renamed" journal "Renamed", "Renamed a node";
    /// The operator gave nodes an unsigned SSH key; written before 2026-12 alone.
    SshKeyAdded = "ssh-key-added" journal "SshKeyAdded", "Added an SSH key";
    /// The operator took one back; written before 2026-12 alone.
    SshKeyRemoved = "ssh-key-removed" journal "SshKeyRemoved", "Removed an SSH key";
    /// Somebody asked to become an owner.
    ApplicationReceived = "application-received", "Asked to become an owner";
    /// The worker published a roster.
    RosterTaken = "roster-taken", "Published a roster";
    /// A draft was handed in.
    DraftAdded = "draft-added", "Drafted an order";
    /// A signature under it was handed in.
    IntentSigned = "intent-signed", "Submitted a signature";
    /// With that of this owner enough had signed: it is an order.
    OrderGiven = "order-given", "Issued an order";
    /// It was discarded.
    DraftDropped = "draft-dropped", "Discarded an order";
    /// Somebody who carries an order out said what became of it.
    IntentSettled = "intent-settled", "Reported the result of an order";
    /// A last line that a crash had cut off was dropped. Nothing had been answered on the strength of it.
    TornLineDropped = "torn-line-dropped", "Dropped a line that a crash had cut off";
    /// Somebody signed in to the page.
    SignedIn = "signed-in", "Signed in";
    /// Sessions of the page were ended.
    SessionEnded = "session-ended", "Ended a session";
    /// A passkey signs somebody in from now on.
    PasskeyConfirmed = "passkey-confirmed", "Confirmed a passkey";
    /// It no longer does.
    PasskeyRemoved = "passkey-removed", "Removed a passkey";
    /// An owner made an automation token.
    TokenMade = "token-made", "Created an API token";
    /// Somebody removed one.
    TokenRemoved = "token-removed", "Removed an API token";
    /// More calls of this one were refused than have lines of their own; `more` says how many.
    RefusalsCounted = "refusals-counted", "Was refused more often";
}

/// How a log writes an act: `#[serde(with = "in_audit")]`, `#[serde(with = "in_journal")]`.
macro_rules! written {
    ($log:ident, $word:ident) => {
        #[doc = concat!("An act as `", stringify!($word), "`.")]
        pub mod $log {
            use serde::{Deserialize as _, Deserializer, Serializer, de};

            use super::Act;

            /// The act of this word.
            #[must_use]
            pub fn read(word: &str) -> Option<Act> {
                Act::ALL.iter().copied().find(|act| act.$word() == word)
            }

            /// # Errors
            /// Those of the serializer.
            pub fn serialize<S: Serializer>(act: &Act, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(act.$word())
            }

            /// # Errors
            /// For a word that no act has.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Act, D::Error> {
                let word = String::deserialize(deserializer)?;
                read(&word).ok_or_else(|| de::Error::custom(format_args!("no act is called {word:?}")))
            }
        }
    };
}
written!(in_audit, word);
written!(in_journal, journal_word);

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AU-440
    #[test]
    fn each_act_has_words_of_its_own_and_is_read_by_them() {
        for act in Act::ALL {
            assert_eq!(in_audit::read(act.word()), Some(*act));
            assert_eq!(in_journal::read(act.journal_word()), Some(*act));
            assert!(!act.words().is_empty());
        }
        assert_eq!((in_audit::read("DeviceRemoved"), in_journal::read("node-removed")), (None, None));
    }
}
