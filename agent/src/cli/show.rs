//! What the agent tells a person: `status`, `why`, `inspect`.

use std::io::Write as _;

use lucia_proto::inventory::HardwareInventory;
use lucia_proto::text::shown;

use super::exit::Exit;
use crate::host::root::Root;
use crate::host::status::{self, Doing, Status};
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
    print(&status.as_ref().map_or_else(|| NEVER_RAN.to_owned(), table));
    Ok(())
}

pub(super) fn why(root: &Root) -> Result<(), Exit> {
    print(&read(root)?.as_ref().map_or_else(|| NEVER_RAN.to_owned(), sentence));
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

fn table(status: &Status) -> String {
    let mut out = rows(&[
        ("state", Some(status.line())),
        ("node", text(status.node_id.as_ref())),
        ("code", text(status.verification_code.as_ref())),
        ("hostname", text(status.hostname.as_ref())),
        ("controller", status.controller.clone()),
        ("certificate until", text(status.certificate_until.as_ref())),
        ("last heartbeat", text(status.last_heartbeat.as_ref())),
        ("start", text(status.start_id.as_ref())),
        ("frozen", status.frozen.then(|| status::FROZEN.to_owned())),
        ("clock difference", status.clock_offset_seconds.map(|secs| format!("{secs} s"))),
    ]);
    for last in &status.refusals {
        let refused = format!("{}: {} (at {})", last.call, last.what, last.at);
        out.push_str(&rows(&[("held up", Some(refused)), ("to cure it", Some(last.cure.clone()))]));
    }
    out
}

/// What it waits for or was refused, what cures it, and the clock if it is off.
fn sentence(status: &Status) -> String {
    let mut sentence = match (status.refusals.first(), status.doing) {
        (Some(last), _) => format!("{} is held up: {}; to cure it: {}", last.call, last.what, last.cure),
        (None, Doing::Heartbeating) if status.frozen => {
            let mut chars = status::FROZEN.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase()).unwrap_or_default();
            format!("{first}{}", chars.as_str())
        }
        (None, Doing::Heartbeating) => "All is well: heartbeats are accepted and nothing is waited for".to_owned(),
        (None, _) => {
            let line = status.line();
            let mut chars = line.chars();
            let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            format!("{first}{}", chars.as_str())
        }
    };
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

    // spec: AG-10
    #[test]
    fn why_is_one_sentence_with_the_cure_and_the_clock() {
        let mut status = Status { doing: Doing::Heartbeating, heartbeats: 3, ..Status::default() };
        assert_eq!(sentence(&status), "All is well: heartbeats are accepted and nothing is waited for.");
        status.clock_offset_seconds = Some(-400);
        assert!(sentence(&status).contains("400 s ahead of the controller's"));
        status.clock_offset_seconds = Some(5);
        status.refusals.push(Refusal {
            at: UnixTime::EPOCH,
            call: "heartbeat".into(),
            what: "something other than the controller answered (HTTP 502)".into(),
            cure: "look for a proxy".into(),
        });
        let text = sentence(&status);
        assert!(text.contains("something other than the controller answered") && text.contains("look for a proxy"));
        assert!(!text.contains("clock") && !text.contains('\n') && text.ends_with('.'));
        let frozen = Status { doing: Doing::Heartbeating, frozen: true, ..Status::default() };
        let text = sentence(&frozen);
        assert!(text.starts_with("This identity is frozen: ") && text.contains("luciactl clone split"), "{text}");
        assert!(table(&frozen).contains("the identity is frozen"));
        let waiting = Status { doing: Doing::AwaitingCertificate, ..Status::default() };
        assert_eq!(sentence(&waiting), "Waiting for certificate.");
    }

    #[test]
    fn the_table_leaves_out_what_is_not_known() {
        let text = table(&Status::default());
        assert_eq!(text, "state              starting\n");
    }
}
