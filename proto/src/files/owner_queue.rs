//! The owners' files between controller and worker: who asks to become an owner, who asks how late it is, what an owner
//! ordered of the worker (design.md O3, O4; W6 for the directories).
//!
//! `owner-requests/` is the controller's: `application-<owner>.json`, `freshness-<node>.json`
//! ([`crate::orders::freshness::FreshnessRequest`]), `intent-<id>.json` ([`crate::orders::SignedOrder`]) and `audit-head.json`, how
//! far the controller's audit reaches. `owner-responses/` is
//! the worker's: `roster.json`, `bundle.json`, `barred.json` and `names.json`, `freshness-<node>.json` and `intent-<id>.json`. A file is never
//! authority: an application is only shown, an intent is checked like a node checks it.

use serde::{Deserialize, Serialize};

use crate::base::bounded::{Text, Version};
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::json::json_file;
use crate::base::limits::{AUDIT_HEAD_FILE_MAX, FRESHNESS_FILE_MAX, MESSAGE_MAX, QUEUE_FILE_MAX};
use crate::base::time::UnixTime;
use crate::files::audit_chain::AuditChain;
use crate::node::challenge::Nonce;
use crate::orders::application::Application;
use crate::orders::freshness::SignedFreshness;
use crate::orders::owner::OwnerId;
use crate::orders::{OrderCode, OrderId};

/// The roster in force, [`crate::orders::roster::SignedRoster`], in `owner-responses/`.
pub const ROSTER_FILE: &str = "roster.json";
/// The bundle in force, [`crate::pki::bundle::SignedBundle`], beside it.
pub const BUNDLE_FILE: &str = "bundle.json";

/// The keys that the worker's ledger bars, [`crate::orders::lists::SignedBarred`], beside it.
pub const BARRED_FILE: &str = "barred.json";
/// What the nodes of the worker's ledger are called, [`crate::orders::lists::SignedNames`], beside it.
pub const NAMES_FILE: &str = "names.json";

/// A file of `owner-requests/`, and of the same name in `owner-responses/`. A closed list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerFile {
    /// Somebody asks to become an owner: an [`ApplicationFile`]. Its answer is the next roster, or a [`RejectionFile`].
    Application(OwnerId),
    /// A node asks how late it is; answered by a [`FreshnessFile`].
    Freshness(NodeId),
    /// An owner's order for the worker; answered by an [`OrderAnswerFile`].
    OrderHead(OrderId),
    /// How far the controller's audit reaches: an [`AuditHeadFile`]. It has no answer.
    AuditHead,
}

impl OwnerFile {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Application(owner) => format!("application-{owner}.json"),
            Self::Freshness(node) => format!("freshness-{node}.json"),
            Self::OrderHead(intent) => format!("intent-{intent}.json"),
            Self::AuditHead => "audit-head.json".to_owned(),
        }
    }

    /// The file of this name; nothing for any other name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (kind, id) = name.strip_suffix(".json")?.split_once('-')?;
        match kind {
            "application" => id.parse().ok().map(Self::Application),
            "freshness" => id.parse().ok().map(Self::Freshness),
            "intent" => id.parse().ok().map(Self::OrderHead),
            "audit" if id == "head" => Some(Self::AuditHead),
            _ => None,
        }
    }
}

/// What the controller passes on of somebody who asks to become an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApplicationFile {
    /// Always 1.
    pub schema_version: Version<1>,
    /// Name, key and the key's signature.
    pub application: Application,
    /// Until when it is shown.
    pub expires_at: UnixTime,
}

/// The worker's answer to an application that somebody on its host rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RejectionFile {
    /// Always 1.
    pub schema_version: Version<1>,
    /// SHA-256 of the [`ApplicationFile`], as it lay there: the same key asking later asks again.
    pub application: Digest,
}

/// The worker's answer to a node's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FreshnessFile {
    /// Always 1.
    pub schema_version: Version<1>,
    /// The question it answers.
    pub nonce: Nonce,
    /// For the node.
    pub answer: SignedFreshness,
}

/// What the worker did about an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrderAnswerFile {
    /// Always 1.
    pub schema_version: Version<1>,
    /// Which order.
    pub intent: OrderId,
    /// What became of it.
    pub outcome: Outcome,
    /// Why not, in words, or nothing to say.
    pub message: Text<0, MESSAGE_MAX>,
}

/// How far the controller's audit reaches (design.md O6): the worker keeps it in its ledger once an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditHeadFile {
    /// Always 1.
    pub schema_version: Version<1>,
    /// Lines so far, and the hash of the last of them.
    pub chain: AuditChain,
}

json_file!(ApplicationFile, QUEUE_FILE_MAX);
json_file!(RejectionFile, QUEUE_FILE_MAX);
json_file!(FreshnessFile, FRESHNESS_FILE_MAX);
json_file!(OrderAnswerFile, QUEUE_FILE_MAX);
json_file!(AuditHeadFile, AUDIT_HEAD_FILE_MAX);

/// What became of an order at one of those who carry it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Outcome {
    /// The node, or the node that the worker was asked for.
    pub node_id: NodeId,
    /// When it was told.
    pub at: UnixTime,
    /// Why it was refused; absent when it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<OrderCode>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::OrderCode;
    use crate::test_support::{TestNode, key};

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    // spec: OQ-1
    #[test]
    fn each_file_has_one_name_and_no_other_name_is_one() {
        let (owner, node, intent) = (OwnerId::of(&key(7).public().fingerprint()), TestNode::new(7), OrderId::of("{}"));
        for file in [
            OwnerFile::Application(owner.clone()),
            OwnerFile::Freshness(node.node_id),
            OwnerFile::OrderHead(intent),
            OwnerFile::AuditHead,
        ] {
            assert_eq!(OwnerFile::of_name(&file.name()), Some(file));
        }
        for name in [
            "roster.json".to_owned(),
            "application-.json".to_owned(),
            format!("application-{owner}"),
            format!("application-{}.json", owner.as_str().to_uppercase()),
            format!("intent-{owner}.json"),
            format!("owner-{owner}.json"),
            format!("../application-{owner}.json"),
            format!("application-{owner}.json.json"),
        ] {
            assert_eq!(OwnerFile::of_name(&name), None, "{name}");
        }
    }

    // spec: OQ-2
    #[test]
    fn the_files_survive_their_bytes_and_take_nothing_more() {
        let asked = ApplicationFile {
            schema_version: Version,
            application: Application::sign("alice".parse().unwrap(), Digest::of(b"root"), NOW, &key(7)),
            expires_at: NOW,
        };
        let bytes = asked.to_bytes().unwrap();
        assert_eq!(ApplicationFile::from_bytes(&bytes).unwrap(), asked);
        let more = String::from_utf8(bytes).unwrap().replacen('{', r#"{"approved":true,"#, 1);
        assert!(ApplicationFile::from_bytes(more.as_bytes()).is_err());
        let done = OrderAnswerFile {
            schema_version: Version,
            intent: OrderId::of("{}"),
            outcome: Outcome { node_id: TestNode::new(7).node_id, at: NOW, refused: Some(OrderCode::Expired) },
            message: "".parse().unwrap(),
        };
        let bytes = done.to_bytes().unwrap();
        assert_eq!(OrderAnswerFile::from_bytes(&bytes).unwrap(), done);
        let second = String::from_utf8(bytes).unwrap().replace("\"schemaVersion\":1", "\"schemaVersion\":2");
        assert!(OrderAnswerFile::from_bytes(second.as_bytes()).is_err());
    }

    // spec: OQ-220
    #[test]
    fn a_rejection_names_the_very_bytes_that_asked_and_nothing_else() {
        let rejection = RejectionFile { schema_version: Version, application: Digest::of(b"asked") };
        let bytes = rejection.to_bytes().unwrap();
        assert_eq!(RejectionFile::from_bytes(&bytes).unwrap(), rejection);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            serde_json::json!({"schemaVersion": 1, "application": Digest::of(b"asked")})
        );
        let more = text.replacen('{', r#"{"also":"others","#, 1);
        assert!(RejectionFile::from_bytes(more.as_bytes()).is_err());
    }
}
