//! The audit, read line by line: shown, written out, checked.
//!
//! Each line holds the hash of the one before, so what the controller sends is checked as it comes. What it could still do
//! is write all of it anew. Against that an owner's machine notes how far it saw the audit, and the worker does in its
//! ledger.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucia_people::audit::AuditError;
use lucia_people::audit::{AuditActor, AuditEntry, AuditView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{AUDIT_LINE_MAX, JSON_DEPTH_MAX};
use lucia_proto::base::text::{chain, shown};
use lucia_proto::files::audit_chain::AuditChain;
use thiserror::Error;

use crate::args::{Audit, AuditVerb};
use crate::client::{Client, Me};
use crate::failure::Failure;
use crate::files::{self, FileError, Secret, Turn};
use crate::names::Names;
use crate::patience::Progress;
use crate::show;
use crate::tell::{Out, in_json, write};

/// Between two looks for more.
const PAUSE: Duration = Duration::from_secs(5);
/// A step of the progress through a file.
const MIB: u64 = 1 << 20;
/// The note of a number and a hash.
const NOTE_MAX: u64 = 256;
/// What it is called, beside the key.
const NOTE: &str = "audit";

/// Why the audit is not believed.
#[derive(Debug, Error)]
pub(crate) enum AuditProblem {
    /// A line that is none, or not the next one.
    #[error("the audit is not what was written: {}; compare with an older export, and with what the worker's ledger says", shown(&chain(.0)))]
    Broken(AuditError),
    /// Lines that were seen are others now, or gone.
    #[error(
        "the audit was written anew: its line {0} is not the one that was there. Compare with an older export, and with \
         what the worker's ledger says"
    )]
    Anew(u64),
    /// Fewer lines than it says.
    #[error(
        "the controller says that there are {said} lines and sends no more than {sent}; try again, its log may say why"
    )]
    Short {
        /// As it says.
        said: u64,
        /// As it sent.
        sent: u64,
    },
    /// The file of an export.
    #[error("{}: {source}", shown(&file.to_string_lossy()))]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The note.
    #[error("how far the audit was seen cannot be noted: {0}")]
    Note(FileError),
    /// The note is none.
    #[error("{0} is no note of an audit; remove it if nobody but you can have changed it")]
    BadNote(String),
}

/// `audit verify FILE`, which needs no controller.
pub(crate) fn verify_file(out: Out, file: &Path, anchor: Option<AuditChain>) -> Result<(), Failure> {
    let failed = |source| AuditProblem::File { file: file.to_owned(), source };
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
    out.say(&chain, || show::verified(&chain, anchor.as_ref()))
}

/// Every other `audit`.
pub(crate) async fn audit(client: &Client, out: Out, args: Audit) -> Result<(), Failure> {
    match args.verb {
        None => watch(client, out, args.after, args.follow).await,
        Some(AuditVerb::Export) => {
            whole(client, &[], |line| write(line.as_bytes())).await?;
            Ok(())
        }
        Some(AuditVerb::Verify { anchor, .. }) => {
            let seen = client.me().map(seen).transpose()?.flatten();
            // Both have to be there, in one reading: to two a controller could show two audits.
            let anchors: Vec<AuditChain> = seen.into_iter().chain(anchor).collect();
            let chain = whole(client, &anchors, |_| Ok(())).await?;
            if let Some(me) = client.me() {
                note(me, &chain)?;
            }
            out.say(&chain, || show::verified(&chain, anchor.or(seen).as_ref()))
        }
    }
}

async fn watch(client: &Client, out: Out, mut after: u64, follow: bool) -> Result<(), Failure> {
    let begin = after;
    let (mut names, mut list) = (Names::default(), show::Happened::audit(out.wide));
    loop {
        let view: AuditView = client.audit(after).await?;
        if out.json {
            for entry in &view.entries {
                write(format!("{}\n", in_json(entry)?).as_bytes())?;
            }
        } else {
            names.learn(client, view.entries.iter().flat_map(ids), follow).await;
            write(list.more_audit(&view.entries, &names, out.screen).as_bytes())?;
        }
        after = view.entries.iter().map(|entry| entry.sequence).fold(after, u64::max);
        if after < view.last_sequence && !view.entries.is_empty() {
            continue;
        }
        write(list.cut().as_bytes())?;
        if !follow {
            if after == begin && !out.json {
                write(b"No lines yet.\n")?;
            }
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whom a line is about, and the node that did it.
fn ids(entry: &AuditEntry) -> impl Iterator<Item = &NodeId> {
    let by = match &entry.actor {
        AuditActor::Node(id) => Some(id),
        AuditActor::Operator(_)
        | AuditActor::Owner(..)
        | AuditActor::Applicant(..)
        | AuditActor::Worker
        | AuditActor::Controller => None,
    };
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
        let view: AuditView = client.audit(checked.chain.entries).await?;
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
            return Err(AuditProblem::Short { said: view.last_sequence, sent }.into());
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
    let text = match files::read(&file, NOTE_MAX, Secret::Yes) {
        Ok(text) => text,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(AuditProblem::Note(error)),
    };
    let most = usize::try_from(NOTE_MAX).unwrap_or(usize::MAX);
    let bad = |_| AuditProblem::BadNote(shown(&file.to_string_lossy()));
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
