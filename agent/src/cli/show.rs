//! What the agent tells a person: `status`, `why`, `inspect`.

use std::io::Write as _;
use std::time::Duration;

use lucia_daemon::clock::SystemClock;
use lucia_daemon::exit::Exit;
use lucia_proto::base::text::{counted, shown, span};
use lucia_proto::base::time::Clock as _;
use lucia_proto::node::heartbeat::{DirectoryReport, DirectoryState};
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::orders::Rule;

use super::health::{self, Cause, Facts, Health};
use crate::host::boot::{self, BootId};
use crate::host::root::Root;
use crate::host::state::State;
use crate::host::status::{self, OrderSeen, OtherName, OwnersStatus, Status};
use crate::inventory;
use crate::managed::keys::UNORDERED_CURE;

pub(super) fn print(text: &str) {
    // A closed pipe is how a reader says that it has enough.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}

pub(super) fn print_json<T: serde::Serialize>(value: &T) -> Result<(), Exit> {
    print(&lucia_proto::base::json::to_string(value)?);
    Ok(())
}

/// What there is to be seen of the agent.
struct Overview {
    status: Option<(Status, bool)>,
    holder: Option<String>,
    boot: Option<BootId>,
}

impl Overview {
    fn read(root: &Root) -> Result<Self, Exit> {
        // The lock first: a daemon that ends in between has written how.
        let holder = State::holder(root)?;
        let status = status::find(root).map_err(|message| Exit::said(1, message))?;
        Ok(Self { status, holder, boot: boot::boot_id(root).ok() })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            status: self.status.as_ref().map(|(status, _)| status),
            hot: self.status.as_ref().is_some_and(|(_, hot)| *hot),
            holder: self.holder.as_deref(),
            boot: self.boot.as_ref(),
            since_boot: SystemClock.since_boot(),
            now: SystemClock.now(),
        }
    }
}

/// The status as `--json` shows it.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    status: Option<&'a Status>,
    health: &'a Health,
}

/// Prints, and ends with 1 unless all is well.
fn show(root: &Root, json: bool, text: impl FnOnce(&Facts<'_>, &Health) -> String) -> Result<(), Exit> {
    let seen = Overview::read(root)?;
    let facts = seen.facts();
    let health = facts.health();
    if json {
        print_json(&Shown { status: facts.status, health: &health })?;
    } else {
        print(&text(&facts, &health));
    }
    if health.healthy { Ok(()) } else { Err(Exit::silent(1)) }
}

pub(super) fn status(root: &Root, json: bool) -> Result<(), Exit> {
    show(root, json, table)
}

pub(super) fn why(root: &Root, json: bool) -> Result<(), Exit> {
    show(root, json, sentence)
}

pub(super) fn inspect(root: &Root, json: bool) -> Result<(), Exit> {
    let inventory = inventory::gather(root)?;
    if json {
        return print_json(&inventory);
    }
    print(&machine(&inventory));
    Ok(())
}

/// One line a field.
pub(super) fn rows(rows: &[(&str, Option<String>)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let row = |(name, value): &(&str, Option<String>)| {
        value.as_ref().map(|value| format!("{name:width$}  {}\n", shown(value)))
    };
    rows.iter().filter_map(row).collect()
}

fn text<T: ToString>(value: Option<&T>) -> Option<String> {
    value.map(ToString::to_string)
}

fn table(facts: &Facts<'_>, health: &Health) -> String {
    let Some(status) = facts.status else { return rows(&health_rows(health)) };
    let mut all = health_rows(health);
    all.extend([
        ("state", Some(status.line())),
        ("node", text(status.node_id.as_ref())),
        ("code", text(status.verification_code.as_ref())),
        ("hostname", text(status.hostname.as_ref())),
        ("name", status.other_name.as_ref().map(OtherName::sentence)),
        ("controller", status.controller.clone()),
        ("certificate until", text(status.certificate_until.as_ref())),
        ("last heartbeat", last_heartbeat(status, health)),
        ("start", text(status.start_id.as_ref())),
        ("directory", status.directory.as_ref().map(directory)),
        ("SSH keys", status.ssh_accounts.map(|count| format!("of {}", counted(count, "account")))),
        ("other keys", (status.ssh_unsigned > 0).then(|| unnamed(status.ssh_unsigned))),
        ("removed keys", removed(status)),
        ("frozen", status.frozen.then(|| status.frozen_words().to_owned())),
        ("clock difference", status.clock_offset_seconds.map(|secs| format!("{secs} s"))),
    ]);
    if let Some(owners) = &status.owners {
        all.extend(owners_rows(owners, facts));
        // The last orders, newest first.
        all.extend(owners.orders.iter().rev().map(|order| ("order", Some(order_line(order)))));
    }
    for last in health::refusals(status, facts.certificate_ended()) {
        let refused = format!("{}: {} (at {})", last.call, last.what, last.at);
        all.extend([("held up", Some(refused)), ("to cure it", Some(last.cure.clone()))]);
    }
    rows(&all)
}

fn health_rows(health: &Health) -> Vec<(&'static str, Option<String>)> {
    vec![("health", Some(health.message.clone())), ("to cure it", health.cure.clone())]
}

fn last_heartbeat(status: &Status, health: &Health) -> Option<String> {
    let age = health.heartbeat_age_seconds.map(|secs| format!("{} ago", span(Duration::from_secs(secs))));
    match (status.last_heartbeat, age) {
        (Some(at), Some(age)) => Some(format!("{at}, {age}")),
        (at, age) => at.map(|at| at.to_string()).or(age),
    }
}

fn unnamed(count: u64) -> String {
    let accounts = counted(count, "account");
    format!(
        "of {accounts}: orders were lost on this node, so they stay until an owner signs the account's keys again (`luciactl keys`)"
    )
}

/// Whose keys went because nobody had ordered them.
fn removed(status: &Status) -> Option<String> {
    let names: Vec<_> = status.ssh_removed.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| format!("of {}: no owner's order gave them; {UNORDERED_CURE}", names.join(", ")))
}

/// Who may order, how late it is for orders, and what may be ordered.
fn owners_rows(owners: &OwnersStatus, facts: &Facts<'_>) -> Vec<(&'static str, Option<String>)> {
    let names: Vec<_> = owners.owners.iter().map(ToString::to_string).collect();
    let roster = match (owners.roster_version, owners.believed) {
        (0, _) => "none: nobody can order anything".to_owned(),
        (version, false) => {
            format!(
                "{version}, which no worker of the bundle signed: nobody can order until the worker's next one is here"
            )
        }
        (version, true) if names.is_empty() => format!("{version}, without an owner"),
        (version, true) => format!("{version}; owners {}", names.join(", ")),
    };
    let now = facts.controllers_now();
    let answered = owners.answered_at.map(|at| format!("the worker answered at {at}, {} ago", span(now.since(at))));
    let taken = answered.map(|answered| match (facts.untimely(), owners.taken_until) {
        (Some(why), _) => format!("{answered}; {why}"),
        (None, Some(until)) => format!("{answered}; orders are taken until {until}"),
        (None, None) => answered,
    });
    let unknown = || facts.untimely().map(str::to_owned);
    let rules: Vec<_> =
        owners.rules.iter().map(|(kind, rule)| format!("{} {}", kind.as_str(), rule.as_str())).collect();
    let some = owners.rules.iter().any(|(_, rule)| *rule != Rule::Forbid);
    let policy = match &owners.policy_refused {
        Some(what) if some => format!("{}; {what}", rules.join(", ")),
        Some(what) => format!("everything is forbidden: {what}; {}", crate::owners::policy::CURE),
        None => rules.join(", "),
    };
    vec![("roster", Some(roster)), ("time for orders", taken.or_else(unknown)), ("policy", Some(policy))]
}

fn order_line(order: &OrderSeen) -> String {
    let kind = order.kind.map_or("unreadable", lucia_proto::orders::OrderKind::as_str);
    let became = match order.refused {
        None => "carried out".to_owned(),
        Some(code) => format!("refused, {}; to cure it: {}", code.as_str(), code.cure()),
    };
    format!("{} {kind} at {}: {became}", order.code, order.at)
}

/// Where the directory stands, and what is waited for or went wrong.
fn directory(report: &DirectoryReport) -> String {
    let state = match report.state {
        DirectoryState::Waiting => "waiting",
        DirectoryState::Ready => "ready",
        DirectoryState::Failed => "failed",
    };
    report.message.as_ref().map_or_else(|| state.to_owned(), |message| format!("{state}: {message}"))
}

/// What counts, what cures it, and beside it the last order and the clock.
fn sentence(facts: &Facts<'_>, health: &Health) -> String {
    let mut sentence = health.message.clone();
    if let Some(cure) = &health.cure {
        sentence.push_str(&format!("; to cure it: {cure}"));
    }
    let newest = facts.status.and_then(|status| status.owners.as_ref()?.orders.last());
    if let Some(order) = newest.filter(|order| order.refused.is_some()) {
        sentence.push_str(&format!("; the last order was not carried out: {}", order_line(order)));
    }
    if let Some(removed) = facts.status.and_then(removed) {
        sentence.push_str(&format!("; SSH keys were removed {removed}"));
    }
    if let Some(skew) = facts.skew().filter(|_| !matches!(health.cause, Cause::Clock | Cause::ClockSkew)) {
        sentence.push_str(&format!("; {skew} (timedatectl sets it)"));
    }
    shown(&format!("{}.", sentence.trim_end_matches('.')))
}

fn machine(inventory: &HardwareInventory) -> String {
    let mut out = rows(&[
        ("architecture", Some(inventory.architecture.to_string())),
        ("boot", Some(format!("{:?}", inventory.boot_mode))),
        ("secure boot", text(inventory.secure_boot.as_ref())),
        ("manufacturer", text(inventory.manufacturer.as_ref())),
        ("model", text(inventory.model.as_ref())),
        ("serial number", text(inventory.serial_number.as_ref())),
        ("hardware UUID", text(inventory.hardware_uuid.as_ref())),
        ("processor", text(inventory.cpu_model.as_ref())),
        ("logical processors", Some(inventory.logical_cpu_count.to_string())),
        ("memory", Some(format!("{} MiB", inventory.memory_bytes >> 20))),
    ]);
    for interface in &inventory.interfaces {
        let addresses: Vec<_> = interface.addresses.iter().map(ToString::to_string).collect();
        out.push_str(&format!("interface  {}  {}  {}\n", interface.name, interface.mac_address, addresses.join(" ")));
    }
    for disk in &inventory.disks {
        let kind = match (disk.is_removable, disk.is_read_only) {
            (false, false) => "",
            (true, _) => "  removable",
            (false, true) => "  read-only",
        };
        let model = disk.model.as_ref().map(|model| shown(model.as_str())).unwrap_or_default();
        out.push_str(&format!("disk  {}  {}  {} MiB  {model}{kind}\n", disk.id, disk.path, disk.size_bytes >> 20));
    }
    out
}

#[cfg(test)]
mod tests;
