//! The reply to a heartbeat, read so that one bad part costs no other.

use lucia_proto::base::digest::Digest;
use lucia_proto::base::extensions::Extensions;
use lucia_proto::base::names::Hostname;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// [`lucia_proto::node::heartbeat::HeartbeatReply`], with its orders not looked at yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Reply {
    /// Always true.
    #[serde(rename = "accepted")]
    _accepted: bool,
    /// Unsigned keys of a controller before this version. Read and never used: keys come in signed orders alone.
    #[serde(default, rename = "sshKeys")]
    _unsigned: IgnoredAny,
    /// What the next heartbeat says.
    #[serde(default)]
    pub(super) chain: Option<Digest>,
    /// Whether the identity is frozen.
    #[serde(default)]
    pub(super) frozen: bool,
    /// The approved name, while it is another than the certificate's.
    #[serde(default)]
    pub(super) hostname: Option<Hostname>,
    /// What the node lacks of who may order, and the next order: each is looked at by itself.
    #[serde(default)]
    pub(super) orders: Option<Value>,
    /// Of a later controller: nothing here is known.
    #[serde(default, rename = "extensions")]
    _extensions: Extensions,
}

#[cfg(test)]
mod tests {
    use lucia_proto::base::json::{self, JsonError};
    use lucia_proto::base::limits::JSON_DEPTH_MAX;
    use lucia_proto::node::heartbeat::HeartbeatReply;

    use super::*;
    use crate::keys::tests::line;

    fn read(text: &str) -> Result<Reply, JsonError> {
        json::from_str(text, 64 * 1024, JSON_DEPTH_MAX)
    }

    // spec: AO-400
    // spec: VE-402
    #[test]
    fn unsigned_keys_of_an_older_controller_cost_the_reply_nothing() {
        let old = include_str!("../../../tests/vectors/heartbeat-reply-keys.json");
        assert!(old.contains("sshKeys"));
        assert!(read(old).is_ok_and(|reply| reply._accepted && reply.orders.is_none()));
        for keys in ["null", "1", "[]", r#""root""#, "{}", r#"{"root":["../x"]}"#, r#"{"alice":{"alice":[]}}"#] {
            let reply = read(&format!(r#"{{"accepted":true,"sshKeys":{keys},"frozen":true}}"#));
            assert!(reply.is_ok_and(|reply| reply._accepted && reply.frozen), "{keys}");
        }
        // What no text of the protocol may hold refuses the whole reply also there.
        let good = line(1);
        for bad in [
            format!(r#"{{"al\u0000ice":["{good}"]}}"#),
            format!(r#"{{"alice":["{good}"],"alice":[]}}"#),
            format!(r#"{{}},"sshKeys":{{"alice":["{good}"]}}"#),
        ] {
            assert!(read(&format!(r#"{{"accepted":true,"sshKeys":{bad}}}"#)).is_err(), "{bad}");
        }
        // What a later controller adds has a place of its own, and costs nothing.
        assert!(read(r#"{"accepted":true,"extensions":{"version":"9.0.0"}}"#).is_ok_and(|reply| reply._accepted));
        for bad in [r#"{"accepted":true,"extensions":[]}"#, r#"{"accepted":true,"more":1}"#, r#"{"sshKeys":{}}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    /// What the agent reads is what the controller writes.
    #[test]
    fn every_reply_of_the_protocol_is_read() {
        for text in [
            include_str!("../../../tests/vectors/heartbeat-reply.json"),
            include_str!("../../../tests/vectors/heartbeat-reply-chain.json"),
            include_str!("../../../tests/vectors/heartbeat-reply-frozen.json"),
            include_str!("../../../tests/vectors/heartbeat-reply-renamed.json"),
        ] {
            let theirs: HeartbeatReply = json::from_str(text, 64 * 1024, JSON_DEPTH_MAX).unwrap();
            let ours = read(text).unwrap();
            assert_eq!((ours._accepted, ours.chain, ours.frozen), (theirs.accepted, theirs.chain, theirs.frozen));
            assert_eq!(ours.hostname, theirs.hostname);
        }
    }
}
