//! What each order is about, in a few words; of a state's order that takes the one before it.

use std::collections::BTreeMap;

use lucia_proto::base::bounded::Label;
use lucia_proto::orders::{Body, OrderKind, Subject, Terms};

use super::progress::Entry;

/// The orders of states that were given, by kind, subject and revision; nothing where two of one revision say different things.
pub(super) struct Given<'a>(BTreeMap<(OrderKind, &'a Subject, u64), Option<&'a Body>>);

/// Subject and revision of a state's order.
const fn state(entry: &Entry) -> Option<(&Subject, u64)> {
    match &entry.intent.terms {
        Terms::State { subject, revision } => Some((subject, *revision)),
        Terms::Once { .. } => None,
    }
}

impl<'a> Given<'a> {
    pub(super) fn of(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut given = BTreeMap::new();
        for entry in entries.filter(|entry| entry.row.signed_at.is_some()) {
            let Some((subject, revision)) = state(entry) else { continue };
            let known = given.entry((entry.kind(), subject, revision)).or_insert(Some(&entry.body));
            *known = known.filter(|known| **known == entry.body);
        }
        Self(given)
    }

    pub(super) fn about(&self, entry: &Entry) -> Option<Label> {
        let Some((subject, revision)) = state(entry) else { return entry.body.about(None) };
        let kind = entry.kind();
        let before = self.0.range((kind, subject, 0)..(kind, subject, revision)).next_back();
        match before {
            Some((_, before)) => entry.body.about(*before),
            // Before a later one there was one that is no longer kept.
            None if revision == 1 => entry.body.about(entry.body.before_the_first().as_ref()),
            None => entry.body.about(None),
        }
    }
}
