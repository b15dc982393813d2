//! What the agent tells a person: `status`, `why`, `inspect`.

use std::io::Write as _;

use lucia_proto::heartbeat::{DirectoryReport, DirectoryState};
use lucia_proto::intent::Rule;
use lucia_proto::inventory::HardwareInventory;
use lucia_proto::text::{counted, shown};
use lucia_proto::time::{Clock as _, UnixTime};

use super::exit::Exit;
use crate::host::clock::SystemClock;
use crate::host::root::Root;
use crate::host::status::{self, Doing, OrderSeen, OtherName, OwnersStatus, Status};
use crate::inventory;

/// A clock that differs by more is worth a word.
const CLOCK_WORTH_A_WORD: u64 = 30;

fn print(text: &str) {
    // A closed pipe is how a reader says that it has enough.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}

fn print_json<T: serde::Serialize>(value: &T) -> Result<(), Exit> {
    print(&lucia_proto::json::to_string(value).map_err(Exit::failed)?);
    Ok(())
}

fn read(root: &Root) -> Result<Option<Status>, Exit> {
    status::read(root).map_err(|message| Exit::said(1, message))
}

pub(super) fn status(root: &Root, json: bool) -> Result<(), Exit> {
    let status = read(root)?;
    if json {
        return print_json(&status.unwrap_or_default());
    }
    print(&status.as_ref().map_or_else(|| NEVER_RAN.to_owned(), |status| table(status, SystemClock.now())));
    Ok(())
}

pub(super) fn why(root: &Root) -> Result<(), Exit> {
    print(&read(root)?.as_ref().map_or_else(|| NEVER_RAN.to_owned(), |status| sentence(status, SystemClock.now())));
    Ok(())
}

pub(super) fn inspect(root: &Root, json: bool) -> Result<(), Exit> {
    let inventory = inventory::gather(root).map_err(Exit::failed)?;
    if json {
        return print_json(&inventory);
    }
    print(&machine(&inventory));
    Ok(())
}

const NEVER_RAN: &str = "The agent has not run on this machine yet: run `lucia-node-agent discover` in the installer, or \
                         `systemctl start lucia-node-agent` on a node.";

/// One line a field.
fn rows(rows: &[(&str, Option<String>)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let row = |(name, value): &(&str, Option<String>)| {
        value.as_ref().map(|value| format!("{name:width$}  {}\n", shown(value)))
    };
    rows.iter().filter_map(row).collect()
}

fn text<T: ToString>(value: Option<&T>) -> Option<String> {
    value.map(ToString::to_string)
}

fn table(status: &Status, now: UnixTime) -> String {
    let mut all = vec![
        ("state", Some(status.line())),
        ("node", text(status.node_id.as_ref())),
        ("code", text(status.verification_code.as_ref())),
        ("hostname", text(status.hostname.as_ref())),
        ("name", status.other_name.as_ref().map(OtherName::sentence)),
        ("controller", status.controller.clone()),
        ("certificate until", text(status.certificate_until.as_ref())),
        ("last heartbeat", text(status.last_heartbeat.as_ref())),
        ("start", text(status.start_id.as_ref())),
        ("directory", status.directory.as_ref().map(directory)),
        ("SSH keys", status.ssh_accounts.map(|count| format!("of {}", counted(count, "account")))),
        ("unsigned keys", (status.ssh_unsigned > 0).then(|| unsigned(status.ssh_unsigned))),
        ("frozen", status.frozen.then(|| status::FROZEN.to_owned())),
        ("clock difference", status.clock_offset_seconds.map(|secs| format!("{secs} s"))),
    ];
    if let Some(owners) = &status.owners {
        all.extend(owners_rows(owners, status.clock_offset_seconds, now));
        // The last orders, newest first.
        all.extend(owners.orders.iter().rev().map(|order| ("order", Some(order_line(order)))));
    }
    for last in &status.refusals {
        let refused = format!("{}: {} (at {})", last.call, last.what, last.at);
        all.extend([("held up", Some(refused)), ("to cure it", Some(last.cure.clone()))]);
    }
    rows(&all)
}

fn unsigned(count: u64) -> String {
    let accounts = counted(count, "account");
    format!(
        "of {accounts}, from before owners decided; they stay until an owner signs what the account is to have (`luciactl keys`)"
    )
}

/// Who may order, how late it is for orders, and what may be ordered.
fn owners_rows(owners: &OwnersStatus, offset: Option<i64>, now: UnixTime) -> Vec<(&'static str, Option<String>)> {
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
    let now = controllers(now, offset);
    let answered = owners.answered_at.map(|at| {
        let minutes = now.since(at).as_secs() / 60;
        format!("the worker answered at {at}, {} h {} min ago", minutes / 60, minutes % 60)
    });
    let taken = answered.map(|answered| match (untimely(owners, now), owners.taken_until) {
        (Some(why), _) => format!("{answered}; {why}"),
        (None, Some(until)) => format!("{answered}; orders are taken until {until}"),
        (None, None) => answered,
    });
    let unknown = || untimely(owners, now).map(str::to_owned);
    let rule = |rule: Rule| match rule {
        Rule::Allow => "allow",
        Rule::TwoOwners => "two-owners",
        Rule::Forbid => "forbid",
    };
    let rules: Vec<_> = owners.rules.iter().map(|(kind, of)| format!("{} {}", kind.as_str(), rule(*of))).collect();
    let policy = match &owners.policy_refused {
        Some(what) => format!("everything is forbidden: {what}; {}", crate::owners::policy::CURE),
        None => rules.join(", "),
    };
    let signed = owners.decide.then(|| "owners alone: unsigned SSH keys are not taken".to_owned());
    vec![
        ("roster", Some(roster)),
        ("keys by", signed),
        ("time for orders", taken.or_else(unknown)),
        ("policy", Some(policy)),
    ]
}

/// This machine's time by the controller's clock, where that is known: its own may be wrong by years.
fn controllers(now: UnixTime, offset: Option<i64>) -> UnixTime {
    let ahead = std::time::Duration::from_secs(offset.unwrap_or_default().unsigned_abs());
    if offset.is_some_and(|secs| secs < 0) { now.minus(ahead) } else { now.plus(ahead) }
}

/// Why no order is taken for want of the worker's word how late it is; nothing where it gave it, or nobody orders.
fn untimely(owners: &OwnersStatus, now: UnixTime) -> Option<&'static str> {
    if owners.roster_version == 0 {
        return None;
    }
    match (owners.answered_at, owners.taken_until) {
        (None, _) => Some(
            "not known since the start, so no order is taken; it is asked with each heartbeat, and on the worker's host \
             `lucia-enrollment-worker status` says whether it runs",
        ),
        (Some(_), Some(until)) if until <= now => Some(
            "which is too long ago, so no order is taken; on the worker's host `lucia-enrollment-worker status` says whether it \
             runs, and if it does the controller withholds its word",
        ),
        (Some(_), Some(_) | None) => None,
    }
}

fn order_line(order: &OrderSeen) -> String {
    let kind = order.kind.map_or("unreadable", lucia_proto::intent::IntentKind::as_str);
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

/// What it waits for or was refused, what cures it, and the clock if it is off.
fn sentence(status: &Status, now: UnixTime) -> String {
    // While nothing is heard at all that is what to cure first.
    let timely = status.owners.as_ref().filter(|_| status.doing == Doing::Heartbeating && status.refusals.is_empty());
    let late = timely.and_then(|owners| untimely(owners, controllers(now, status.clock_offset_seconds)));
    let mut sentence = match (status.refusals.first(), status.doing) {
        (Some(last), _) => {
            let since = last.since.map(|at| format!(" since {at}")).unwrap_or_default();
            format!("{} is held up{since}: {}; to cure it: {}", last.call, last.what.trim_end_matches('.'), last.cure)
        }
        (None, Doing::Heartbeating) if status.frozen => {
            let mut chars = status::FROZEN.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase()).unwrap_or_default();
            format!("{first}{}", chars.as_str())
        }
        (None, Doing::Heartbeating) if status.other_name.is_some() => {
            let text = status.other_name.as_ref().map(OtherName::sentence).unwrap_or_default();
            text.strip_prefix("this").map(|rest| format!("This{rest}")).unwrap_or(text)
        }
        (None, Doing::Heartbeating) if late.is_some() => "Heartbeats are accepted".to_owned(),
        (None, Doing::Heartbeating) => "All is well: heartbeats are accepted and nothing is waited for".to_owned(),
        (None, _) => {
            let line = status.line();
            let mut chars = line.chars();
            let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            format!("{first}{}", chars.as_str())
        }
    };
    let newest = status.owners.as_ref().and_then(|owners| owners.orders.last());
    if let Some(order) = newest.filter(|order| order.refused.is_some()) {
        sentence.push_str(&format!("; the last order was not carried out: {}", order_line(order)));
    }
    if let Some(why) = late {
        sentence.push_str(&format!("; the worker's time for orders: {why}"));
    }
    if let Some(secs) = status.clock_offset_seconds
        && secs.unsigned_abs() > CLOCK_WORTH_A_WORD
    {
        let (side, secs) = (if secs > 0 { "behind" } else { "ahead of" }, secs.unsigned_abs());
        sentence.push_str(&format!("; this machine's clock is {secs} s {side} the controller's (timedatectl sets it)"));
    }
    sentence.push('.');
    shown(&sentence)
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
mod tests {
    use lucia_proto::time::UnixTime;

    use super::*;
    use crate::host::status::Refusal;

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    // spec: AG-10
    #[test]
    fn why_is_one_sentence_with_the_cure_and_the_clock() {
        let mut status = Status { doing: Doing::Heartbeating, heartbeats: 3, ..Status::default() };
        assert_eq!(sentence(&status, NOW), "All is well: heartbeats are accepted and nothing is waited for.");
        status.clock_offset_seconds = Some(-400);
        assert!(sentence(&status, NOW).contains("400 s ahead of the controller's"));
        status.clock_offset_seconds = Some(5);
        status.refusals.push(Refusal {
            at: UnixTime::EPOCH,
            since: Some(UnixTime::EPOCH),
            call: "heartbeat".into(),
            what: "something other than the controller answered (HTTP 502)".into(),
            cure: "look for a proxy".into(),
        });
        let text = sentence(&status, NOW);
        assert!(text.starts_with("heartbeat is held up since 1970-01-01T00:00:00Z: "), "{text}");
        assert!(text.contains("something other than the controller answered") && text.contains("look for a proxy"));
        assert!(!text.contains("clock") && !text.contains('\n') && text.ends_with('.'));
        let frozen = Status { doing: Doing::Heartbeating, frozen: true, ..Status::default() };
        let text = sentence(&frozen, NOW);
        assert!(text.starts_with("This identity is frozen: ") && text.contains("luciactl clone split"), "{text}");
        assert!(table(&frozen, UnixTime::EPOCH).contains("the identity is frozen"));
        let waiting = Status { doing: Doing::AwaitingCertificate, ..Status::default() };
        assert_eq!(sentence(&waiting, NOW), "Waiting for certificate.");
    }

    /// Whatever kind of row: its value begins where all others do.
    #[track_caller]
    fn assert_in_one_column(text: &str) {
        let value = |line: &str| line.find("  ").map(|end| line.len() - line[end..].trim_start().len());
        let columns: std::collections::BTreeSet<_> = text.lines().map(value).collect();
        assert_eq!(columns.len(), 1, "{text}");
    }

    // spec: AO-18
    // spec: AO-41
    // spec: AO-101
    #[test]
    fn status_and_why_say_who_may_order_and_what_became_of_it() {
        use lucia_proto::intent::{IntentCode, IntentId, IntentKind};

        let at = UnixTime::from_secs(1_795_982_400);
        let seen = |text: &str, refused| OrderSeen {
            code: IntentId::of(text).code(),
            kind: Some(IntentKind::SshKey),
            at,
            refused,
        };
        let mut owners = OwnersStatus {
            roster_version: 5,
            believed: true,
            owners: vec!["alice".parse().unwrap(), "bob".parse().unwrap()],
            decide: true,
            answered_at: Some(at),
            taken_until: Some(at.plus(std::time::Duration::from_secs(24 * 3600))),
            rules: vec![(IntentKind::SshKey, Rule::Allow), (IntentKind::RemoveIdentity, Rule::TwoOwners)],
            policy_refused: None,
            orders: vec![seen("a", None), seen("b", Some(IntentCode::NoFreshness))],
        };
        let status = |owners: &OwnersStatus| Status {
            doing: Doing::Heartbeating,
            owners: Some(owners.clone()),
            clock_offset_seconds: Some(-10),
            ssh_unsigned: 2,
            ..Status::default()
        };
        let now = at.plus(std::time::Duration::from_secs(3 * 3600 + 130));
        let text = table(&status(&owners), now);
        for part in [
            "5; owners alice, bob",
            "owners alone",
            "of 2 accounts, from before owners decided",
            "3 h 2 min ago",
            "ssh-key allow, remove-identity two-owners",
            &format!("{} ssh-key at {at}: carried out", IntentId::of("a").code()),
            &format!("{} ssh-key at {at}: refused, no_freshness; to cure it: wait", IntentId::of("b").code()),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_in_one_column(&text);
        let why = sentence(&status(&owners), NOW);
        assert!(why.contains("All is well") && why.contains("the last order was not carried out"), "{why}");
        owners.orders.pop();
        assert!(!sentence(&status(&owners), NOW).contains("order was"));
        // The day is over, by the controller's clock.
        let until = owners.taken_until.unwrap();
        assert!(table(&status(&owners), now).contains(&format!("orders are taken until {until}")));
        for (offset, over) in [(-10, false), (0, true), (3600, true), (-3600, false)] {
            let late = Status { clock_offset_seconds: Some(offset), ..status(&owners) };
            let (why, shown) = (sentence(&late, until), table(&late, until));
            assert_eq!((why.contains("too long ago"), shown.contains("too long ago")), (over, over), "{offset}: {why}");
        }
        (owners.policy_refused, owners.answered_at) = (Some("it is\u{1b}[2J a link".into()), None);
        let text = table(&status(&owners), now);
        assert!(text.contains("everything is forbidden") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("not known since the start"), "{text}");
        assert!(sentence(&status(&owners), NOW).contains("not known since the start"));
        let json = lucia_proto::json::to_string(&OwnersStatus { answered_at: Some(at), ..owners.clone() }).unwrap();
        assert!(json.contains("\"answeredAt\"") && json.contains("\"takenUntil\""), "{json}");
        owners.believed = false;
        assert!(table(&status(&owners), now).contains("no worker of the bundle signed"));
        owners.roster_version = 0;
        assert!(table(&status(&owners), now).contains("nobody can order anything"));
        for doing in [Doing::Stopped, Doing::Removed] {
            let ended = Status { doing, ..Status::default() };
            assert!(sentence(&ended, NOW).contains("lucia-node-agent"), "{doing:?}");
        }
    }

    #[test]
    fn the_table_leaves_out_what_is_not_known() {
        let text = table(&Status::default(), UnixTime::EPOCH);
        assert_eq!(text, "state              starting\n");
    }
}
