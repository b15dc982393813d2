//! First contact: shows the machine to the controller, and its code to whoever stands before it.

use std::fmt::Write as _;

use lucia_proto::calls::Endpoint;
use lucia_proto::node::first_contact::Discovered;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::report::{Discover, Purpose};
use lucia_proto::pki::key::Fingerprint;

use crate::client::transport::Transport;
use crate::client::{CallError, Client};

/// Sends key and inventory, and whether an installed system sends them. Saying the same twice gets the same answer.
///
/// # Errors
/// Any [`CallError`]; `admission_closed` while no discovery window is open.
pub async fn discover<T: Transport>(
    client: &mut Client<T>,
    inventory: &HardwareInventory,
    running: bool,
) -> Result<Discovered, CallError> {
    let node_id = client.node_id().clone();
    let report = Discover { node_id, purpose: Purpose::Discover, inventory: inventory.clone(), running };
    client.call(Endpoint::Discover, &report, None).await?.json()
}

/// What the console shows: code and fingerprint made from the key itself, never from what the controller answered.
#[must_use]
pub fn console_box(fingerprint: &Fingerprint) -> String {
    let [first, second] = fingerprint.rows();
    let lines = [
        format!("Verification code:  {}", fingerprint.verification_code()),
        format!("Fingerprint:        {first}"),
        format!("                    {second}"),
        String::new(),
        "Compare both with `luciactl onboarding` on the controller before you approve.".to_owned(),
        "If a single digit differs, it is not this machine: reject it.".to_owned(),
    ];
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let rule = "-".repeat(width + 2);
    let mut text = format!("+{rule}+\n");
    for line in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {line:width$} |");
    }
    text.push_str(&format!("+{rule}+\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AG-9, AO-94
    #[test]
    fn the_box_has_code_fingerprint_and_advice_in_straight_lines() {
        let fingerprint: Fingerprint = format!("{}{}", "ab".repeat(16), "cd".repeat(16)).parse().unwrap();
        let text = console_box(&fingerprint);
        let row = |group: &str| [group; 8].join(" ");
        assert!(text.contains("abab-abab-abab") && text.contains(&format!(" {} ", row("abab"))), "{text}");
        assert!(text.contains(&format!("|                     {} ", row("cdcd"))), "{text}");
        assert!(text.contains("luciactl onboarding"));
        let widths: std::collections::BTreeSet<_> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 1, "{text}");
    }
}
