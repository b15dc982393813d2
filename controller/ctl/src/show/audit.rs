//! Lines of the audit and events, in the same columns and words, and what a check of the audit found.

use lucia_people::audit::{AuditActor, AuditEntry, AuditVia};
use lucia_people::host_api::EventLine;
use lucia_people::words;
use lucia_proto::base::code::Code;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::OrderCode;

use super::clones;
use crate::names::Names;
use crate::table::{Growing, LEFT_OUT, Row, Screen, Tone};

/// A list that grows: its heading once, then what comes.
pub(crate) struct Happened {
    table: Growing,
    begun: bool,
    told: bool,
    wide: bool,
}

impl Happened {
    /// The list of events. `wide` adds the ids.
    pub(crate) fn events(wide: bool) -> Self {
        Self::of(&["NUMBER", "AT", "WHAT", "BY", "NODE", "MORE"], &["NODE ID"], wide)
    }

    /// The list of the audit's lines. `wide` adds the ids, and the codes of refusals.
    pub(crate) fn audit(wide: bool) -> Self {
        let heading = ["NUMBER", "AT", "WHAT", "RESULT", "BY", "NODE", "ORDER", "FROM"];
        Self::of(&heading, &["NODE ID", "REFUSAL"], wide)
    }

    fn of(heading: &[&str], ids: &[&str], wide: bool) -> Self {
        let ids = if wide { ids } else { &[] };
        Self { table: Growing::new(&[heading, ids].concat()), begun: false, told: false, wide }
    }

    /// These events, each with what hangs under it.
    pub(crate) fn more_events(&mut self, events: &[EventLine], names: &Names, screen: Screen) -> String {
        let row = |line: &EventLine| {
            let names_of = line.names.as_ref();
            let mut cells = vec![
                plain(line.sequence.to_string()),
                plain(line.at.to_string()),
                plain(words::event_named(line.kind.as_str())),
                plain(words::actor(line.actor.as_str())),
                plain(line.device_id.as_ref().map(|id| names.of(id)).unwrap_or_default()),
                plain(names_of.map(|names| format!("{} -> {}", names.from, names.to)).unwrap_or_default()),
            ];
            if self.wide {
                cells.push(plain(line.device_id.as_ref().map(ToString::to_string).unwrap_or_default()));
            }
            cells
        };
        let rows: Vec<Row> = events.iter().map(row).collect();
        let under = |at: usize| {
            let holders = events.get(at).map(|event| event.holders.as_slice()).unwrap_or_default();
            holders.iter().map(|who| format!("        {}\n", clones::holder(who))).collect()
        };
        self.lines(&rows, under, screen)
    }

    /// These lines of the audit.
    pub(crate) fn more_audit(&mut self, entries: &[AuditEntry], names: &Names, screen: Screen) -> String {
        let row = |entry: &AuditEntry| {
            let mut cells = vec![
                plain(entry.sequence.to_string()),
                plain(entry.at.to_string()),
                plain(entry.action.words().to_owned()),
                result(entry),
                plain(who(entry, names)),
                plain(entry.node.as_ref().map(|id| names.of(id)).unwrap_or_default()),
                plain(entry.intent.map(|intent| intent.code().to_string()).unwrap_or_default()),
                plain(entry.from.map(|from| from.to_string()).unwrap_or_default()),
            ];
            if self.wide {
                cells.push(plain(entry.node.as_ref().map(ToString::to_string).unwrap_or_default()));
                cells.push(plain(code(entry).to_owned()));
            }
            cells
        };
        let rows: Vec<Row> = entries.iter().map(row).collect();
        self.lines(&rows, |_| String::new(), screen)
    }

    /// What is said once the list is caught up with, and only once: that something stands in a column that does not fit.
    pub(crate) fn cut(&mut self) -> &'static str {
        let first = self.table.lost && !self.told;
        self.told |= first;
        if first { LEFT_OUT } else { "" }
    }

    fn lines(&mut self, rows: &[Row], under: impl Fn(usize) -> String, screen: Screen) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let mut out = if self.begun { String::new() } else { self.table.head(rows, screen) };
        self.begun = true;
        self.table.grow(rows);
        for (at, row) in rows.iter().enumerate() {
            out.push_str(&self.table.row(row, screen));
            out.push_str(&under(at));
        }
        out
    }
}

fn plain(text: String) -> (String, Tone) {
    (text, Tone::Plain)
}

/// The code of a refusal, as programs know it.
fn code(entry: &AuditEntry) -> &'static str {
    let refused = entry.refused.map(Code::as_str);
    refused.or_else(|| entry.intent_refused.map(OrderCode::as_str)).unwrap_or_default()
}

/// What came of it.
fn result(entry: &AuditEntry) -> (String, Tone) {
    let refused = entry.refused.map(words::call_refused);
    let refused = refused.or_else(|| entry.intent_refused.map(words::order_refused));
    let more = entry.more.map(|more| format!(", and {} more of that minute", counted(more, "call")));
    match refused {
        Some(why) => (format!("refused: {why}{}", more.unwrap_or_default()), Tone::Bad),
        None => plain(format!("done{}", more.unwrap_or_default())),
    }
}

/// Who did it, and whether a session of the page or a token was enough for it.
fn who(entry: &AuditEntry, names: &Names) -> String {
    let who = match &entry.actor {
        AuditActor::Node(id) => format!("node {}", names.of(id)),
        // By the words of the events, which have the same people.
        AuditActor::Operator(uid) => words::actor(&format!("operator:{uid}")),
        AuditActor::Worker => words::actor("worker"),
        AuditActor::Controller => words::actor("controller"),
        // What an applicant does is to ask, which stands beside it.
        AuditActor::Owner(_, name) | AuditActor::Applicant(_, name) => shown(name.as_str()),
    };
    let by = match (entry.via, &entry.token) {
        (_, Some(token)) => format!(", token {}", shown(token.as_str())),
        (Some(AuditVia::Session), None) => ", on the page".to_owned(),
        (Some(AuditVia::Key) | None, None) => String::new(),
    };
    format!("{who}{by}")
}

/// `audit verify`.
pub(crate) fn verified(chain: &AuditChain, anchor: Option<&AuditChain>) -> String {
    let known = match anchor {
        Some(anchor) => format!("Up to line {} it is what was known before.", anchor.entries),
        None => {
            "Nothing was known of it before: what is missing at its end, or was written anew, is not seen.".to_owned()
        }
    };
    format!(
        "{}, each following from the one before.\n{known}\nAnchor for the next time: {}:{}\n",
        counted(chain.entries, "line"),
        chain.entries,
        chain.head
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-94
    #[test]
    fn whoever_did_something_is_called_alike_in_both() {
        let entry = |actor: &str, more: &str| {
            let text = format!(
                r#"{{"sequence":1,"prev":"{}","at":"2026-11-30T20:00:00Z","actor":{actor},"action":"window-opened"{more}}}"#,
                "0".repeat(64)
            );
            lucia_proto::base::json::from_str::<AuditEntry>(&text, 4096, 8).unwrap()
        };
        let id = "1a2b3c4d5e6f00000000000000000000";
        for (actor, event) in [
            (r#"{"kind":"operator","uid":1000}"#, words::actor("operator:1000")),
            (r#"{"kind":"worker"}"#, words::actor("worker")),
            (r#"{"kind":"controller"}"#, words::actor("controller")),
            (&format!(r#"{{"kind":"node","nodeId":"{id}"}}"#), "node 1a2b-3c4d-5e6f".to_owned()),
            (&format!(r#"{{"kind":"applicant","ownerId":"{id}","name":"bob"}}"#), words::actor("owner:bob")),
            (&format!(r#"{{"kind":"owner","ownerId":"{id}","name":"alice"}}"#), words::actor("owner:alice")),
        ] {
            assert_eq!(who(&entry(actor, ""), &Names::default()), event);
        }
        let session = entry(r#"{"kind":"worker"}"#, r#","via":"session""#);
        // What a session did is told from what a key did.
        let by_key = entry(r#"{"kind":"worker"}"#, "");
        assert_ne!(who(&session, &Names::default()), who(&by_key, &Names::default()));
    }
}
