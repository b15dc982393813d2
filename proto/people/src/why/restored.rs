//! What two holders of one identity most likely are, where what they sent tells.

use lucia_proto::files::journal::Holder;

/// A holder that remembers no earlier start lost its memory, or is a second machine; two at one address within one boot are
/// hardly two machines. Nothing where neither is so.
#[must_use]
pub fn restored(holders: &[Holder]) -> Option<String> {
    let (first, others) = holders.split_first()?;
    if let Some(lost) = others.iter().find(|holder| holder.memory_lost) {
        let start = lost.start_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let likelier = if lost.address == first.address {
            ". Both have the address of one machine, so the first is likelier"
        } else {
            ""
        };
        return Some(format!(
            "start {start} remembers no earlier start: its machine lost /var/lib/lucia/agent/starts.json and rebooted since, or a \
             second machine has the key without that file{likelier}"
        ));
    }
    let is_same = |other: &Holder| other.address == first.address && other.boot_id == first.boot_id;
    if others.is_empty() || first.boot_id.is_none() || !others.iter().all(is_same) {
        return None;
    }
    let last = holders.iter().max_by_key(|holder| holder.last_seen_at.unwrap_or(holder.first_seen_at))?;
    let start =
        last.start_id.as_ref().map_or_else(|| "the one without a start".to_owned(), |start| format!("start {start}"));
    Some(format!(
        "all holders have the address {} and the same boot: most likely this is one machine whose state was restored from a \
         copy. The holder that spoke last is {start}, at {}",
        last.address,
        last.last_seen_at.unwrap_or(last.first_seen_at)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(start: &str, address: &str, boot: &str, last: u8) -> Holder {
        let text = format!(
            r#"{{"startId":"{}","bootId":"0f0f0f0f-0000-4000-8000-00000000000{boot}","address":"{address}",
            "firstSeenAt":"2026-11-29T19:00:00Z","lastSeenAt":"2026-11-29T19:5{last}:00Z"}}"#,
            start.repeat(32)
        );
        lucia_proto::base::json::from_str(&text, 4096, 8).unwrap()
    }

    // spec: CL-282
    #[test]
    fn a_holder_that_lost_its_memory_is_named_and_two_that_remember_are_not_taken_for_one() {
        let one = holder("a", "192.0.2.1", "1", 2);
        for (address, likelier) in [("192.0.2.1", true), ("192.0.2.2", false)] {
            let two = holder("b", address, "2", 3);
            assert_eq!(restored(&[one.clone(), two.clone()]), None);
            let said = restored(&[one.clone(), Holder { memory_lost: true, ..two }]).unwrap();
            assert!(said.contains(&"b".repeat(32)) && said.contains("starts.json"), "{said}");
            assert_eq!(said.contains("likelier"), likelier, "{said}");
        }
    }

    // spec: CL-340
    #[test]
    fn holders_of_one_address_and_one_boot_are_most_likely_one_machine_and_the_last_is_named() {
        let one = holder("a", "192.0.2.1", "1", 2);
        let said = restored(&[one.clone(), holder("b", "192.0.2.1", "1", 1)]).unwrap();
        assert!(said.contains(&"a".repeat(32)) && !said.contains(&"b".repeat(32)), "{said}");
        let said = restored(&[one.clone(), holder("b", "192.0.2.1", "1", 3)]).unwrap();
        assert!(said.contains(&"b".repeat(32)), "{said}");
        // Another address, another boot, or one alone: nothing is guessed.
        for others in [vec![holder("b", "192.0.2.2", "1", 3)], vec![holder("b", "192.0.2.1", "2", 3)], vec![]] {
            assert_eq!(restored(&[vec![one.clone()], others].concat()), None);
        }
    }
}
