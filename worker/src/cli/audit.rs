//! The controller's audit, as far as this worker saw it: shown, held against an export, accepted anew.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_people::audit::AuditError;
use lucia_proto::base::limits::AUDIT_LINE_MAX;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};

use super::acts::typed;
use super::at::{At, say, to_json};
use super::hold::hold;
use crate::config::Config;
use crate::home::Home;
use crate::ledger::{Anchored, Entry, Ledger};
use crate::owner_queue::OwnerQueue;
use crate::{audit, chain};

/// Anchors that `audit anchors` shows without `--all`: each proves all that came before it.
const SHOWN: usize = 24;

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Show how far the controller's audit was seen, and when: `luciactl audit verify --anchor LINES:HASH` proves it that far.
    Anchors {
        #[command(flatten)]
        at: At,
        /// Show all that are remembered, and not the last ones alone.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Hold an export of the audit (`luciactl audit export`) against every anchor of the ledger.
    Verify {
        #[command(flatten)]
        at: At,
        /// The export; - is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take the controller's audit as it is, although it went back or was rewritten.
    Accept {
        #[command(flatten)]
        at: At,
        /// How many lines it has, instead of typing it when asked.
        #[arg(long, value_name = "N")]
        lines: Option<u64>,
    },
}

/// `audit anchors | verify | accept`.
pub(super) fn audit(command: AuditCommand) -> Result<String, Exit> {
    match command {
        AuditCommand::Anchors { at, all, json } => {
            let (_, ledger) = open(&at.enter()?)?;
            anchors(&ledger, all, json)
        }
        AuditCommand::Verify { at, file, json } => {
            let (_, ledger) = open(&at.enter()?)?;
            verify(&ledger, &file, json)
        }
        AuditCommand::Accept { at, lines } => accept(&at.enter()?, lines),
    }
}

fn open(config: &Config) -> Result<(Home, Ledger), Exit> {
    let home = Home::open(config)?;
    let ledger = Ledger::load(&home.dir)?;
    Ok((home, ledger))
}

fn anchors(ledger: &Ledger, all: bool, json: bool) -> Result<String, Exit> {
    let known: Vec<&Anchored> = ledger.records().anchors().iter().collect();
    let shown = known.get(known.len().saturating_sub(SHOWN)..).filter(|_| !all).unwrap_or(&known);
    if json {
        return to_json(&shown);
    }
    let Some(last) = shown.last() else {
        return Ok(
            "The controller never said how far its audit reaches; the worker takes note once an hour while it runs.\n"
                .to_owned(),
        );
    };
    let mut out = format!("{:<20} {:<8} HASH OF THE LAST LINE\n", "SEEN", "LINES");
    for Anchored { at, chain, accepted } in shown {
        let what = if *accepted { "  accepted here" } else { "" };
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{:<20} {:<8} {}{what}", at.to_string(), chain.entries, chain.head);
    }
    let AuditChain { entries, head } = last.chain;
    let _ = writeln!(out, "\nThe audit is proven up to line {entries} where this succeeds:");
    let _ = writeln!(out, "  luciactl audit verify --anchor {entries}:{head}");
    Ok(out)
}

/// What `audit verify` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    chain: AuditChain,
    /// Anchors it holds against.
    anchors: usize,
    /// The last line that an anchor proves.
    proven: u64,
}

fn verify(ledger: &Ledger, file: &Path, json: bool) -> Result<String, Exit> {
    let verified = if file == Path::new("-") {
        follow(ledger, io::stdin().lock())
    } else {
        let of = |error: io::Error| Exit::refused(format!("{}: {error}", shown(&file.to_string_lossy())));
        follow(ledger, BufReader::new(File::open(file).map_err(of)?))
    }?;
    if json {
        return to_json(&verified);
    }
    let Verified { chain: AuditChain { entries, head }, anchors, proven } = verified;
    let anchors = counted(u64::try_from(anchors).unwrap_or(u64::MAX), "anchor");
    let lines = counted(entries, "line");
    Ok(format!("{lines}, head {head}\nproven up to line {proven} by {anchors} of the ledger\n"))
}

/// Follows the lines and holds them against every anchor.
fn follow(ledger: &Ledger, mut lines: impl BufRead) -> Result<Verified, Exit> {
    let damaged = |error: &AuditError| {
        let text =
            format!("this is not the audit that was seen: {}; keep it and look for another export", chain(error));
        Exit::refused(text)
    };
    let mut anchors = ledger.records().anchors().iter().copied().peekable();
    let most = u64::try_from(AUDIT_LINE_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let (mut so_far, mut held, mut proven) = (AuditChain::default(), 0, 0);
    loop {
        let mut line = Vec::new();
        let read = lines.by_ref().take(most).read_until(b'\n', &mut line);
        if read? == 0 {
            break;
        }
        lucia_people::audit::follow(&mut so_far, &line).map_err(|error| damaged(&error))?;
        while let Some(anchor) = anchors.next_if(|anchor| anchor.chain.entries <= so_far.entries) {
            if anchor.chain != so_far {
                return Err(damaged(&AuditError::Chain { number: so_far.entries }));
            }
            (held, proven) = (held + 1, so_far.entries);
        }
    }
    match anchors.last() {
        Some(anchor) => Err(damaged(&AuditError::Short { found: so_far.entries, anchored: anchor.chain.entries })),
        None => Ok(Verified { chain: so_far, anchors: held, proven }),
    }
}

/// `audit accept`: takes the audit as the controller has it now, after its number of lines was typed.
fn accept(config: &Config, lines: Option<u64>) -> Result<String, Exit> {
    let (home, mut ledger) = open(config)?;
    let queue = OwnerQueue::open(config)?;
    let bytes = queue.map(|queue| queue.request(&OwnerFile::AuditHead)).transpose();
    let bytes = bytes?.flatten();
    let none = || Exit::refused("the controller does not say how far its audit reaches; start it, then try again");
    let says = AuditHeadFile::from_bytes(&bytes.ok_or_else(none)?)?.chain;
    let Err(error) = audit::next(ledger.records(), says, now()) else {
        return Ok(format!(
            "{} of the audit continue what was seen before; there is nothing to accept\n",
            counted(says.entries, "line")
        ));
    };
    say(&format!("{}\n", chain(&error)));
    let prompt = "Type how many lines it has now to accept it: ";
    match lines.map_or_else(|| typed(prompt), |given| Ok(given.to_string()))? {
        given if given == says.entries.to_string() => {}
        _ => return Err(Exit::refused(format!("that is not {}; nothing was accepted", says.entries))),
    }
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    transaction.add(now(), Entry::AuditAccepted(says))?;
    transaction.commit()?;
    Ok(format!("accepted {}; what came before is proven by nothing any more\n", counted(says.entries, "line")))
}
