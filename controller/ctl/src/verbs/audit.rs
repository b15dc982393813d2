//! The audit, read line by line: shown, written out, checked.
//!
//! Each line holds the hash of the one before, so what the controller sends is checked as it comes. What it could still do
//! is write all of it anew. Against that an owner's machine notes how far it saw the audit, and the worker does in its
//! ledger.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use lucia_people::audit::{AuditActor, AuditEntry, AuditError, AuditVia, AuditView};
use lucia_people::calls::PeopleCall;
use lucia_people::words;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{AUDIT_LINE_MAX, JSON_DEPTH_MAX};
use lucia_proto::base::text::{chain, counted, shown};
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::OrderCode;

use crate::client::{Client, Me};
use crate::files::{self, FileError, Turn};
use crate::given;
use crate::happened::Happened;
use crate::names::Names;
use crate::patience::Progress;
use crate::problem::{FAILED, Failure, problems};
use crate::session::{At, Session};
use crate::table::{Row, Tone, plain};
use crate::tell::{Out, in_json, write};

/// Between two looks for more.
const PAUSE: Duration = Duration::from_secs(5);
/// A step of the progress through a file.
const MIB: u64 = 1 << 20;
/// The note of a number and a hash.
const NOTE_MAX: u64 = 256;
/// What it is called, beside the key.
const NOTE: &str = "audit";

problems! {
    /// Why the audit is not believed.
    pub(crate) enum AuditProblem {
        Broken(why: AuditError) = broken(why), FAILED, ["the audit is not what was written: {}", shown(&chain(why))],
            ["compare with an older export, and with what the worker's ledger says"];
        Anew(line: u64) = "audit_rewritten", FAILED,
            ["the audit was written anew: its line {line} is not the one that was there."],
            ["Compare with an older export, and with what the worker's ledger says"];
        Short(said: u64, sent: u64) = "audit_withheld", FAILED,
            ["the controller says that there are {said} lines and sends no more than {sent}"],
            ["try again, its log may say why"];
        Note(error: FileError) = "", FAILED, ["how far the audit was seen cannot be noted: {error}"], ["{}", error.cure()];
        BadNote(file: String) = "", FAILED, ["{file} is no note of an audit"], ["remove it if nobody but you can have changed it"];
    }
}

const fn broken(why: &AuditError) -> &'static str {
    match why {
        AuditError::Line { .. } => "audit_unreadable",
        AuditError::Form { .. } => "audit_edited",
        AuditError::Sequence { .. } => "audit_out_of_order",
        AuditError::Chain { .. } => "audit_chain_broken",
        AuditError::Cut { .. } => "audit_line_cut",
        AuditError::Short { .. } => "audit_shorter",
        AuditError::TooLong => "",
    }
}

/// Shows who changed or ordered what, from where, and what came of it.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  luciactl audit --follow
  luciactl audit export > audit.jsonl
  luciactl audit verify
  luciactl audit verify audit.jsonl --anchor 1234:HEX"
)]
pub(crate) struct Audit {
    /// Goes on showing lines as they come.
    #[arg(long, short)]
    follow: bool,
    /// Only lines after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    #[command(subcommand)]
    verb: Option<AuditVerb>,
}

#[derive(Debug, Subcommand)]
enum AuditVerb {
    /// Writes all of it as JSON Lines, as the controller keeps it, checked line by line.
    #[command(after_help = "Example:\n  luciactl audit export > audit.jsonl")]
    Export,
    /// Checks that no line was cut out, edited or put elsewhere: of the controller's, or of an exported file.
    ///
    /// As an owner this machine notes how far it saw the controller's, and finds a history that was written anew since.
    #[command(after_help = "Examples:\n  luciactl audit verify\n  luciactl audit verify audit.jsonl --anchor 1234:HEX")]
    Verify {
        /// An exported file; the controller's own audit, unless said.
        file: Option<PathBuf>,
        /// A line that is known to have been there: its number and the SHA-256 after it.
        #[arg(long, value_name = "N:HEX", value_parser = anchor)]
        anchor: Option<AuditChain>,
    },
}

fn anchor(text: &str) -> Result<AuditChain, String> {
    let parts = text.split_once(':').and_then(|(entries, head)| Some((entries.parse().ok()?, head.parse().ok()?)));
    let (entries, head) = parts.ok_or_else(|| "a number, a colon and 64 hex digits".to_owned())?;
    Ok(AuditChain { entries, head })
}

pub(super) async fn audit(at: &At, asked: Audit) -> Result<(), Failure> {
    if let Some(AuditVerb::Verify { file: Some(file), anchor }) = asked.verb {
        return verify_file(at.out, &file, anchor);
    }
    let session = Session::open(at).await?;
    let (client, out) = (&session.client, at.out);
    match asked.verb {
        None => watch(&session, asked.after, asked.follow).await,
        Some(AuditVerb::Export) => whole(client, &[], |line| Ok(write(line.as_bytes())?)).await.map(drop),
        Some(AuditVerb::Verify { anchor, .. }) => {
            let seen = client.me().map(seen).transpose()?.flatten();
            // Both have to be there, in one reading: to two a controller could show two audits.
            let anchors: Vec<AuditChain> = seen.into_iter().chain(anchor).collect();
            let chain = whole(client, &anchors, |_| Ok(())).await?;
            if let Some(me) = client.me() {
                note(me, &chain)?;
            }
            out.say(&chain, || verified(&chain, anchor.or(seen).as_ref()))
        }
    }
}

/// `audit verify FILE`, which needs no controller.
fn verify_file(out: Out, file: &Path, anchor: Option<AuditChain>) -> Result<(), Failure> {
    let failed = |source| given::bad(file, source);
    let file_of_lines = File::open(file).map_err(failed)?;
    let length = file_of_lines.metadata().map_or(0, |found| found.len());
    let mut progress = Progress::new("Checking the file, in MiB", usize::try_from(length / MIB).unwrap_or(0));
    let mut read = 0;
    let mut lines = BufReader::new(file_of_lines);
    let most = u64::try_from(AUDIT_LINE_MAX).unwrap_or(u64::MAX) + 1;
    let mut checked = Checked::new(anchor.as_slice());
    loop {
        let mut line = Vec::new();
        if lines.by_ref().take(most).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        checked.follow(&line)?;
        let before = read / MIB;
        read += u64::try_from(line.len()).unwrap_or(0);
        if read / MIB > before {
            progress.step();
        }
    }
    drop(progress);
    let chain = checked.end()?;
    out.say(&chain, || verified(&chain, anchor.as_ref()))
}

async fn watch(session: &Session, mut after: u64, follow: bool) -> Result<(), Failure> {
    let (begin, wide) = (after, session.out.wide);
    let heading = ["NUMBER", "AT", "WHAT", "RESULT", "BY", "NODE", "ORDER", "FROM"];
    let mut list = Happened::new(&heading, &["NODE ID", "REFUSAL"], wide);
    loop {
        let view: AuditView = session.client.after(PeopleCall::Audit, &after).await?;
        let line = |entry: &AuditEntry, names: &Names| (row(entry, names, wide), String::new());
        list.write(session, &view.entries, follow, ids, line).await?;
        after = view.entries.iter().map(|entry| entry.sequence).fold(after, u64::max);
        if after < view.last_sequence && !view.entries.is_empty() {
            continue;
        }
        list.cut()?;
        if !follow {
            if after == begin && !session.out.json {
                write(b"No lines yet.\n")?;
            }
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whom a line is about, and the node that did it.
fn ids(entry: &AuditEntry) -> impl Iterator<Item = &NodeId> {
    let by = if let AuditActor::Node(id) = &entry.actor { Some(id) } else { None };
    entry.node.as_ref().into_iter().chain(by)
}

/// Reads all of it, checks it, and gives each line to `each`.
async fn whole(
    client: &Client,
    anchors: &[AuditChain],
    mut each: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<AuditChain, Failure> {
    let mut checked = Checked::new(anchors);
    let mut progress = None;
    loop {
        let view: AuditView = client.after(PeopleCall::Audit, &checked.chain.entries).await?;
        let all = usize::try_from(view.last_sequence).unwrap_or(usize::MAX);
        let progress = progress.get_or_insert_with(|| Progress::new("Reading the audit, line", all));
        for entry in &view.entries {
            each(&checked.entry(entry)?)?;
            progress.step();
        }
        let sent = checked.chain.entries;
        if sent >= view.last_sequence {
            // More may have come since; then its head is of a later line.
            if sent == view.last_sequence && checked.chain.head != view.head {
                return Err(AuditProblem::Anew(sent).into());
            }
            return Ok(checked.end()?);
        }
        if view.entries.is_empty() {
            return Err(AuditProblem::Short(view.last_sequence, sent).into());
        }
    }
}

/// How far it was followed, and the lines it has to come by.
struct Checked<'a> {
    chain: AuditChain,
    anchors: &'a [AuditChain],
}

impl<'a> Checked<'a> {
    fn new(anchors: &'a [AuditChain]) -> Self {
        Self { chain: AuditChain::default(), anchors }
    }

    fn follow(&mut self, line: &[u8]) -> Result<(), AuditProblem> {
        lucia_people::audit::follow(&mut self.chain, line).map_err(AuditProblem::Broken)?;
        let is_other = |anchor: &&AuditChain| anchor.entries == self.chain.entries && anchor.head != self.chain.head;
        match self.anchors.iter().find(is_other) {
            Some(anchor) => Err(AuditProblem::Anew(anchor.entries)),
            None => Ok(()),
        }
    }

    fn entry(&mut self, entry: &AuditEntry) -> Result<String, AuditProblem> {
        let number = self.chain.entries.saturating_add(1);
        let line = entry.to_line().map_err(|source| AuditProblem::Broken(AuditError::Line { number, source }))?;
        self.follow(line.as_bytes())?;
        Ok(line)
    }

    fn end(self) -> Result<AuditChain, AuditProblem> {
        match self.anchors.iter().find(|anchor| anchor.entries > self.chain.entries) {
            Some(anchor) => {
                Err(AuditProblem::Broken(AuditError::Short { found: self.chain.entries, anchored: anchor.entries }))
            }
            None => Ok(self.chain),
        }
    }
}

/// How far this machine saw it.
fn seen(me: &Me) -> Result<Option<AuditChain>, AuditProblem> {
    let file = me.note(NOTE);
    let Some(text) = files::find(&file, NOTE_MAX).map_err(AuditProblem::Note)? else { return Ok(None) };
    let most = usize::try_from(NOTE_MAX).unwrap_or(usize::MAX);
    let bad = |_| AuditProblem::BadNote(files::name(&file));
    json::from_str(&text, most, JSON_DEPTH_MAX).map(Some).map_err(bad)
}

/// Notes how far it was seen, unless another run saw more of it meanwhile.
fn note(me: &Me, chain: &AuditChain) -> Result<(), Failure> {
    let file = me.note(NOTE);
    let turn = Turn::beside(&file).map_err(AuditProblem::Note)?;
    if seen(me)?.is_some_and(|seen| seen.entries > chain.entries) {
        return Ok(());
    }
    turn.replace(&file, &in_json(chain)?).map_err(|error| AuditProblem::Note(error).into())
}

fn row(entry: &AuditEntry, names: &Names, wide: bool) -> Row {
    let mut cells = vec![
        plain(entry.sequence),
        plain(entry.at),
        plain(entry.action.words()),
        result(entry),
        plain(who(entry, names)),
        plain(entry.node.as_ref().map(|id| names.of(id)).unwrap_or_default()),
        plain(entry.intent.map(|intent| intent.code().to_string()).unwrap_or_default()),
        plain(entry.from.map(|from| from.to_string()).unwrap_or_default()),
    ];
    if wide {
        cells.push(plain(entry.node.as_ref().map(ToString::to_string).unwrap_or_default()));
        cells.push(plain(code(entry)));
    }
    cells
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

fn verified(chain: &AuditChain, anchor: Option<&AuditChain>) -> String {
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
            json::from_str::<AuditEntry>(&text, 4096, 8).unwrap()
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
