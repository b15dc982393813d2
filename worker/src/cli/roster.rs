//! `roster`: what is asked of orders in the whole fleet, which only somebody with a shell on this host decides (design.md
//! O2, O3, O5).

use std::fmt::Write as _;
use std::str::FromStr;

use clap::Subcommand;
use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{PageOrigin, Role};
use lucia_proto::orders::roster::{Roster, VerifiedRoster};
use lucia_proto::orders::{LaterKind, OrderKind, OrderPolicy, PageKinds, Rule};
use serde::Serialize;

use super::acts::typed;
use super::at::{At, say, to_json};
use super::candidates::open;
use super::hold::hold;
use super::owner::{OwnerRow, list_table, look, rows};
use crate::config::Config;
use crate::ledger::Ledger;
use crate::{owners, roster as file};

#[derive(Debug, Subcommand)]
pub(super) enum RosterCommand {
    /// Show the roster in force, as nodes get it.
    Show {
        #[command(flatten)]
        at: At,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What is asked of each kind of order in the whole fleet.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Which kinds of order may be signed by a passkey on the page. Alone: show them.
    PageKinds {
        #[command(flatten)]
        at: At,
        /// Kinds, all that there are to be; or none.
        #[arg(value_name = "KIND")]
        kinds: Vec<String>,
        /// Where the page is: https://NAME or https://NAME:PORT. Kept where it is known.
        #[arg(long, value_name = "URL")]
        origin: Option<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Show it.
    Show {
        #[command(flatten)]
        at: At,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change it for the kinds that are named: a node's own policy may ask for more, and never for less.
    Set {
        #[command(flatten)]
        at: At,
        /// KIND=RULE: a kind, or `default` for kinds that are not named, and allow, two-owners or forbid.
        #[arg(value_name = "KIND=RULE", required = true)]
        rules: Vec<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// `roster ...`; gives what to print.
pub(super) fn roster(command: RosterCommand) -> Result<String, Exit> {
    match command {
        RosterCommand::Show { at, json } => show(&at.enter()?, json, Shown::table),
        RosterCommand::Policy(PolicyCommand::Show { at, json: false }) => {
            show(&at.enter()?, false, |shown| policy_table(&shown.policy))
        }
        RosterCommand::Policy(PolicyCommand::Show { at, json: true }) => {
            to_json(&look(&at.enter()?)?.map(|roster| roster.policy().clone()))
        }
        RosterCommand::Policy(PolicyCommand::Set { at, rules, yes }) => set(&at.enter()?, &rules, yes),
        RosterCommand::PageKinds { at, kinds, origin: None, .. } if kinds.is_empty() => {
            show(&at.enter()?, false, |shown| format!("{}\n", shown.page()))
        }
        RosterCommand::PageKinds { at, kinds, origin, yes } => page_kinds(&at.enter()?, &kinds, origin.as_deref(), yes),
    }
}

fn show(config: &Config, json: bool, table: impl FnOnce(&Shown) -> String) -> Result<String, Exit> {
    let shown = look(config)?.as_ref().map(Shown::of);
    match (json, shown) {
        (true, shown) => to_json(&shown),
        (false, None) => Ok(NO_ROSTER.to_owned()),
        (false, Some(shown)) => Ok(table(&shown)),
    }
}

const NO_ROSTER: &str =
    "There is no roster yet: nobody is an owner. On the person's machine: luciactl login; then here: owner pending\n";

/// The roster as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    version: u64,
    sha256: Digest,
    fleet: Digest,
    issued_at: UnixTime,
    owners: Vec<OwnerRow>,
    page_kinds: Vec<String>,
    page_origin: Option<String>,
    policy: OrderPolicy,
}

impl Shown {
    fn of(roster: &VerifiedRoster) -> Self {
        let (mark, content) = (roster.mark(), roster.roster());
        Self {
            version: mark.version,
            sha256: mark.sha256,
            fleet: content.fleet,
            issued_at: content.issued_at,
            owners: rows(Some(roster)),
            page_kinds: page_words_of(&content.page_kinds),
            page_origin: content.page_origin.as_ref().map(ToString::to_string),
            policy: content.policy.clone(),
        }
    }

    fn table(&self) -> String {
        let mut out = String::new();
        for (name, value) in [
            ("version", self.version.to_string()),
            ("sha256", self.sha256.to_string()),
            ("fleet", self.fleet.to_string()),
            ("made at", self.issued_at.to_string()),
            ("signed on the page", self.page()),
            ("page", self.page_origin.clone().unwrap_or_else(|| "-".to_owned())),
        ] {
            // Writing into a String cannot fail.
            let _ = writeln!(out, "{name:<19} {value}");
        }
        out.push('\n');
        out.push_str(&policy_table(&self.policy));
        out.push('\n');
        out.push_str(&list_table(&self.owners));
        out
    }

    fn page(&self) -> String {
        if self.page_kinds.is_empty() {
            "none: nothing may be signed on the page".to_owned()
        } else {
            self.page_kinds.join(" ")
        }
    }
}

/// Kinds by their words, those of a later version too.
fn page_words_of(kinds: &PageKinds) -> Vec<String> {
    let known = kinds.iter().map(|kind| kind.as_str());
    known.chain(kinds.later().iter().map(LaterKind::as_str)).map(str::to_owned).collect()
}

fn policy_table(policy: &OrderPolicy) -> String {
    let mut out = format!("{:<20} ASKED OF IT\n", "KIND OF ORDER");
    for kind in OrderKind::ALL {
        let _ = writeln!(out, "{:<20} {}", kind.as_str(), word(policy.rule(*kind)));
    }
    for kind in policy.later() {
        let _ = writeln!(out, "{:<20} unknown to this version, which forbids it", kind.as_str());
    }
    let _ = writeln!(out, "{:<20} {}", "what comes later", word(policy.default_rule()));
    out
}

const fn word(rule: Rule) -> &'static str {
    match rule {
        Rule::Allow => "one owner",
        Rule::TwoOwners => "two owners",
        Rule::Forbid => "forbidden",
    }
}

fn usage(text: String) -> Exit {
    Exit::usage(text)
}

fn kind(text: &str) -> Result<OrderKind, Exit> {
    let kinds = || OrderKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
    OrderKind::of_word(text).ok_or_else(|| usage(format!("{text:?} is no kind of order; there are {}", kinds())))
}

/// The policy with what was typed in it.
fn with_rules(policy: &OrderPolicy, rules: &[String]) -> Result<OrderPolicy, Exit> {
    rules.iter().try_fold(policy.clone(), |policy, text| {
        let (of, rule) = text.split_once('=').ok_or_else(|| usage(format!("{text:?} is not KIND=RULE")))?;
        let rule = match rule {
            "allow" => Rule::Allow,
            "two-owners" => Rule::TwoOwners,
            "forbid" => Rule::Forbid,
            _ => return Err(usage(format!("{rule:?} is no rule; there are allow, two-owners and forbid"))),
        };
        Ok(if of == "default" { policy.with_default(rule) } else { policy.with(kind(of)?, rule) })
    })
}

/// What becomes of one rule, if anything.
fn change(what: &str, before: Rule, after: Rule) -> Option<String> {
    let how = match (before.cmp(&after), after) {
        (std::cmp::Ordering::Equal, _) => return None,
        (std::cmp::Ordering::Greater, Rule::Allow) => "WIDER: one owner alone may order it",
        (std::cmp::Ordering::Greater, Rule::TwoOwners | Rule::Forbid) => "WIDER: two owners together may order it",
        (std::cmp::Ordering::Less, Rule::Forbid) => "narrower: nobody may order it",
        (std::cmp::Ordering::Less, Rule::TwoOwners | Rule::Allow) => "narrower: one owner alone orders it no more",
    };
    Some(format!("{what}: {} instead of {}; {how}\n", word(after), word(before)))
}

/// What a new policy means, in words; nothing where it changes nothing.
fn policy_words(former: &Roster, policy: &OrderPolicy) -> String {
    let rules = OrderKind::ALL.iter().map(|kind| (kind.as_str(), former.policy.rule(*kind), policy.rule(*kind)));
    let later = ("kinds that come with later versions", former.policy.default_rule(), policy.default_rule());
    let mut out: String =
        rules.chain([later]).filter_map(|(what, before, after)| change(what, before, after)).collect();
    let owners = former.owners.iter().filter(|owner| owner.role == Role::Owner).count();
    let is_asked = OrderKind::ALL.iter().any(|kind| policy.rule(*kind) == Rule::TwoOwners);
    if !out.is_empty() && is_asked && owners < 2 {
        out.push_str(
            "! The roster has fewer than two owners: what asks for two of them nobody can order before another is \
                      approved.\n",
        );
    }
    out
}

/// What other kinds on the page mean, in words; nothing where they change nothing.
fn page_words(former: &Roster, kinds: &[OrderKind], origin: Option<&PageOrigin>) -> String {
    let mut out = String::new();
    for kind in OrderKind::ALL {
        match (former.page_kinds.contains(kind), kinds.contains(kind)) {
            (false, true) => {
                let _ = writeln!(
                    out,
                    "{}: signed by a passkey on the page as well; WIDER: whoever has the controller can show one thing there \
                     and have another signed",
                    kind.as_str()
                );
            }
            (true, false) => {
                let _ = writeln!(out, "{}: signed on the page no more; narrower", kind.as_str());
            }
            (true, true) | (false, false) => {}
        }
    }
    for kind in former.page_kinds.later() {
        let _ = writeln!(
            out,
            "{}, which this version does not know: no longer signed on the page; narrower",
            kind.as_str()
        );
    }
    if former.page_origin.as_ref() != origin {
        let of = |origin: Option<&PageOrigin>| origin.map_or_else(|| "nowhere".to_owned(), ToString::to_string);
        let _ = writeln!(out, "the page is {} instead of {}", of(origin), of(former.page_origin.as_ref()));
    }
    out
}

fn set(config: &Config, rules: &[String], yes: bool) -> Result<String, Exit> {
    let words = |former: &Roster| {
        let policy = with_rules(&former.policy, rules)?;
        Ok((policy_words(former, &policy), Roster { policy, ..former.clone() }))
    };
    make(config, yes, words)
}

fn page_kinds(config: &Config, kinds: &[String], origin: Option<&str>, yes: bool) -> Result<String, Exit> {
    let mut wanted = match kinds {
        [none] if none == "none" => Vec::new(),
        [] => return Err(usage("name the kinds as well, or none".to_owned())),
        kinds => kinds.iter().map(|text| kind(text)).collect::<Result<Vec<_>, _>>()?,
    };
    wanted.sort();
    wanted.dedup();
    let origin = origin.map(PageOrigin::from_str).transpose();
    let origin = origin.map_err(|error| usage(format!("--origin is not {error}")))?;
    let words = |former: &Roster| {
        let origin = origin.clone().or_else(|| former.page_origin.clone()).filter(|_| !wanted.is_empty());
        if origin.is_none() && !wanted.is_empty() {
            return Err(usage("say where the page is: --origin https://NAME:PORT, as browsers show it".to_owned()));
        }
        let said = page_words(former, &wanted, origin.as_ref());
        Ok((said, Roster { page_kinds: wanted.clone().into(), page_origin: origin, ..former.clone() }))
    };
    make(config, yes, words)
}

/// Shows what the next roster changes, asks, and puts it in force.
fn make(config: &Config, yes: bool, words: impl Fn(&Roster) -> Result<(String, Roster), Exit>) -> Result<String, Exit> {
    // Asked before the ledger is taken, which a running worker waits for.
    let Some(seen) = look(config)? else { return Err(Exit::refused(NO_ROSTER.trim_end())) };
    let (said, _) = words(seen.roster())?;
    if said.is_empty() {
        return Ok(format!("roster version {} asks that already; nothing was written\n", seen.version()));
    }
    say(&said);
    if !yes && typed("Nodes take it with their next heartbeat. Type yes to sign it: ")? != "yes" {
        return Err(Exit::refused("that is not yes; nothing was written"));
    }
    let (home, identity) = open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let former = file::current(&home.dir, &identity, &transaction)?;
    let former = former.filter(|former| former.mark() == seen.mark()).ok_or_else(|| {
        Exit::refused("another command changed the roster meanwhile; nothing was written, look at it and try again")
    })?;
    let (_, next) = words(former.roster())?;
    let next = owners::ask(&home, &identity, transaction, (&former, |roster: &mut Roster| *roster = next), now());
    let next = next?;
    Ok(format!("roster version {} is in force\n", next.version()))
}
