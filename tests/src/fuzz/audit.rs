//! The audit: lines as they are, and the same lines put into a chain.

use lucia_people::audit::{AuditEntry, AuditView, verify};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{ANSWER_MAX, AUDIT_LINE_MAX};
use lucia_proto::files::audit_chain::AuditChain;
use serde_json::Value;

use super::twice;

pub(super) fn run(input: &[u8]) {
    twice::<AuditView>(input, ANSWER_MAX);
    judge(input);
    // Whoever can write the file can count and hash as well.
    let mut chain = AuditChain::default();
    let mut lines = String::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some(entry) = twice::<AuditEntry>(line, AUDIT_LINE_MAX) else { continue };
        let Ok(line) = lucia_people::audit::add(&mut chain, entry) else { continue };
        lines += &line;
    }
    assert_eq!(verify(lines.as_bytes(), Some(&chain)).unwrap(), chain, "{lines}");
    judge(lines.as_bytes());
}

/// What is accepted is a chain by another reader's hashes, and no line of it can be missed.
fn judge(lines: &[u8]) {
    let Ok(chain) = verify(lines, None) else { return };
    let mut head = Digest::ZERO;
    let mut count = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let value: Value = serde_json::from_slice(line).unwrap();
        count += 1;
        assert_eq!(
            (value["sequence"].as_u64(), value["prev"].as_str()),
            (Some(count), Some(head.to_string().as_str()))
        );
        assert!(value["actor"]["kind"].is_string() && value["action"].is_string());
        head = Digest::of(line);
    }
    assert_eq!((chain.entries, chain.head), (count, head));
    let each: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..each.len().min(8) {
        let without = [&each[..at], &each[at + 1..]].concat().concat();
        assert!(verify(&without, Some(&chain)).is_err(), "line {at} is missed by nobody");
        let twice = [&each[..=at], &each[at..]].concat().concat();
        assert!(verify(&twice, Some(&chain)).is_err(), "line {at} twice");
    }
}
