//! What people read in the place of a code: who did something, what happened, why something was refused. The page and
//! `luciactl` say the same; the code itself goes beside it where it is small, and is what a program reads.

use lucia_proto::base::acts::in_journal;
use lucia_proto::base::code::Code;
use lucia_proto::base::text::shown;
use lucia_proto::orders::OrderCode;

/// Who did something, from the journal's name for them: `owner:alice` is alice. What is none of these is said as it stands.
#[must_use]
pub fn actor(label: &str) -> String {
    match label.split_once(':') {
        Some(("owner", name)) if !name.is_empty() => shown(name),
        Some(("operator", uid)) if uid.parse::<u32>().is_ok() => format!("the operator (uid {uid})"),
        _ => match label {
            "device" => "the machine itself".to_owned(),
            "controller" => "the controller".to_owned(),
            "worker" => "the enrollment worker".to_owned(),
            other => shown(other),
        },
    }
}

/// What happened, from the journal's name for it. A name that is not known here is said as it stands.
#[must_use]
pub fn event_named(kind: &str) -> String {
    in_journal::read(kind).map_or_else(|| shown(kind), |act| act.words().to_owned())
}

/// Why somebody who carries orders out refused one, in a few words; what cures it is [`OrderCode::cure`].
#[must_use]
pub const fn order_refused(code: OrderCode) -> &'static str {
    match code {
        OrderCode::Malformed => "it is no order of a form that is known there",
        OrderCode::KindElsewhere => "somebody else carries orders of this kind out",
        OrderCode::KindForbidden => "a policy forbids this kind",
        OrderCode::SecondOwnerNeeded => "a second owner has to sign it",
        OrderCode::OtherFleet => "it is for another fleet",
        OrderCode::NotNamed => "it does not name this node",
        OrderCode::OwnerUnknown => "who signed is not in the roster",
        OrderCode::NotAnOwner => "who signed may only look",
        OrderCode::KeyUnknown => "the roster does not have the key that signed",
        OrderCode::PageNotAllowed => "this kind is not signed on the page",
        OrderCode::SignatureInvalid => "the signature is not that key's",
        OrderCode::NoFreshness => "no answer of the worker says how late it is",
        OrderCode::BundleBehind => "a newer bundle is still to come",
        OrderCode::RosterBehind => "a newer roster is still to come",
        OrderCode::NotYet => "it was made later than it is now",
        OrderCode::Expired => "its time was over",
        OrderCode::BodyMismatch => "what came with it is not what was signed",
        OrderCode::NameDiffers => "the node has another name than the one that was signed",
        OrderCode::BeforeMemory => "it was signed before that memory of orders began",
        OrderCode::AlreadyDone => "it was carried out before",
        OrderCode::AlreadyHeld => "it holds already",
        OrderCode::OlderRevision => "a later order took its place",
        OrderCode::RevisionConflict => "another order of the same revision holds",
        OrderCode::RevisionLeap => "its revision is far beyond the one that holds",
        OrderCode::MemoryFull => "as many orders are remembered as there may be",
        OrderCode::NotPossible => "something there stands in its way",
    }
}

/// Why a call was refused, in a few words.
#[must_use]
pub const fn call_refused(code: Code) -> &'static str {
    match code {
        Code::InvalidBody => "not the form that this call takes",
        Code::InvalidRequest => "not well-formed HTTP",
        Code::BadKey => "not a P-256 key",
        Code::InvalidSshKey => "not an SSH key that nodes take",
        Code::InvalidOnboardingRequest => "a value of it is refused",
        Code::ChallengeRefused => "its challenge was used, or too old",
        Code::NodeIdentityInvalid => "the identity is refused",
        Code::ActorRequired => "nobody of the roster asks",
        Code::RoleRequired => "who asks may only look",
        Code::NetworkNotAllowed => "the address is not in allowed-networks",
        Code::NotFound => "nothing is there",
        Code::DeviceNotFound => "no such machine waits",
        Code::UnknownNode => "there is no such node",
        Code::SshKeyNotFound => "the account has no such key",
        Code::DraftNotFound => "there is no such draft",
        Code::PasskeyNotFound => "there is no such passkey",
        Code::SessionNotFound => "there is no such session",
        Code::TokenNotFound => "there is no such token",
        Code::MethodNotAllowed => "not this method",
        Code::RequestTimeout => "it took too long to arrive",
        Code::AdmissionClosed => "the discovery window is closed",
        Code::ManagedDevice => "this key is a node already",
        Code::DiscoveryExpired => "its discovery is over",
        Code::VerificationCodeCollision => "another one has the same code",
        Code::NotPending => "it does not wait for an approval",
        Code::IneligibleDisk => "that disk cannot be erased",
        Code::HostnameInUse => "another machine has the name",
        Code::KeyBarred => "the worker bars its key",
        Code::NotApproved => "nobody approved it yet",
        Code::ApprovalMismatch => "the approval was for other hardware",
        Code::GrantConsumed => "its permission was given to another request",
        Code::RequestReused => "the request came before with other values",
        Code::NotGranted => "it has no permission",
        Code::InvalidTransition => "that cannot follow where it stands",
        Code::EnrollmentNotReady => "the installation is not at its end",
        Code::EnrollmentMismatch => "it differs from what was approved",
        Code::EnrollmentExpired => "the installation took too long",
        Code::NotManaged => "it is no node",
        Code::NotRejected => "it was not rejected",
        Code::NotFrozen => "its identity was not seen twice",
        Code::DuplicateSshKey => "the account has the key already",
        Code::TooManySshKeys => "the account has as many keys as it may",
        Code::SshKeyListFull => "there are as many keys as fit",
        Code::IntentRefused => "the order or the signature is refused",
        Code::OwnersSign => "an owner signs this",
        Code::NoRoster => "there is no roster yet",
        Code::BodyTooLarge => "too long",
        Code::UnsupportedContent => "of another content type",
        Code::TooManyRequests => "too many calls",
        Code::HeadersTooLarge => "headers too long",
        Code::RegistryFull => "there is no room",
        Code::PersistenceFailed => "the disk cannot be written",
        Code::NodeWorkerUnavailable => "the enrollment worker does not answer",
        Code::NodeEnrollmentFailed => "the enrollment worker refused",
        Code::Busy => "the controller was busy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PG-92
    #[test]
    fn people_read_names_and_words_and_no_labels() {
        let mut shown = String::new();
        for label in ["owner:alice", "operator:1000", "worker", "device", "controller"] {
            let words = actor(label);
            assert!(!words.contains(':') && label.split(':').nth(1).is_none_or(|name| words.contains(name)), "{words}");
            shown.push_str(&format!("{label}: {words}\n"));
        }
        // What is no label of ours stands as it is, and commands nothing.
        for (label, words) in [
            ("operator:x", "operator:x"),
            ("owner:", "owner:"),
            ("somebody", "somebody"),
            ("owner:a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(actor(label), words);
        }
        shown.push_str(&format!("\nNodeEnrolled: {}\n\n", event_named("NodeEnrolled")));
        for (kind, words) in [("x\n", "x\\u{a}"), ("", "")] {
            assert_eq!(event_named(kind), words);
        }
        for code in OrderCode::ALL {
            let words = order_refused(*code);
            assert!(words.contains(' ') && !words.contains('_'), "{code:?}");
            shown.push_str(&format!("{}: {words}\n", code.as_str()));
        }
        shown.push('\n');
        for code in Code::ALL {
            let words = call_refused(*code);
            assert!(!words.is_empty() && !words.contains('_'), "{code:?}");
            shown.push_str(&format!("{}: {words}\n", code.as_str()));
        }
        expect_test::expect_file!["snapshots/words.txt"].assert_eq(&shown);
    }
}
