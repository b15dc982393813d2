//! What each order is about, in a few words; of an order about keys that takes the one before it.

use std::collections::BTreeMap;

use lucia_proto::base::bounded::Label;
use lucia_proto::orders::{Body, SshKeys, Subject, Terms, about};

use super::progress::Entry;

/// The orders about keys that were given, by account and revision; nothing where two of one revision say different things.
pub(super) struct Given<'a>(BTreeMap<(&'a Subject, u64), Option<&'a SshKeys>>);

/// Account, revision and keys of an order about keys.
const fn keys(entry: &Entry) -> Option<(&Subject, u64, &SshKeys)> {
    match (&entry.body, &entry.intent.terms) {
        (Body::SshKey(keys), Terms::State { subject, revision }) => Some((subject, *revision, keys)),
        (
            Body::SshKey(_) | Body::Admit(_) | Body::ReleaseLapse(_) | Body::CloneDecision(_) | Body::RemoveIdentity(_),
            Terms::State { .. } | Terms::Once { .. },
        ) => None,
    }
}

impl<'a> Given<'a> {
    pub(super) fn of(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut given = BTreeMap::new();
        for (subject, revision, keys) in entries.filter(|entry| entry.row.signed_at.is_some()).filter_map(keys) {
            let known = given.entry((subject, revision)).or_insert(Some(keys));
            *known = known.filter(|known| *known == keys);
        }
        Self(given)
    }

    pub(super) fn about(&self, entry: &Entry) -> Option<Label> {
        let Some((subject, revision, of)) = keys(entry) else { return about(&entry.body, None) };
        let before = self.0.range((subject, 0)..(subject, revision)).next_back();
        // Nothing was before the first one; before a later one there was one that is no longer kept.
        let first = SshKeys { account: of.account.clone(), keys: Vec::new() };
        match before {
            Some((_, before)) => about(&entry.body, *before),
            None => about(&entry.body, (revision == 1).then_some(&first)),
        }
    }
}
