//! Who holds a frozen identity, and what each decision will do, in words.

use std::fmt::Write as _;

use lucia_people::host_api::NodeView;
use lucia_people::why::restored;
use lucia_proto::base::ids::StartId;
use lucia_proto::files::journal::Holder;

use super::line;

/// One holder in one line.
pub(super) fn holder(holder: &Holder) -> String {
    let start = holder.start_id.as_ref().map_or("not told", StartId::as_str);
    let boot = holder.boot_id.as_ref().map_or("not told", |boot| boot.as_str());
    let last = holder.last_seen_at.map(|at| format!(", last {at}")).unwrap_or_default();
    let lost = if holder.memory_lost { ", remembers no earlier start" } else { "" };
    format!("start {start}  {}  boot {boot}  first seen {}{last}{lost}", holder.address, holder.first_seen_at)
}

/// What `node` says of clones.
pub(super) fn clones(out: &mut String, view: &NodeView) {
    if let Some(frozen) = &view.frozen {
        line(out, "frozen", &format!("since {}: two machines hold this identity", frozen.at));
        for who in &frozen.holders {
            line(out, "held by", &holder(who));
        }
        if let Some(likely) = restored(&frozen.holders) {
            line(out, "likely", &likely);
        }
        let name = &view.node.hostname;
        line(out, "next", "on the console of each machine run `lucia-node-agent status`, and compare its start; then");
        let _ =
            writeln!(out, "{:15}luciactl clone keep {name} --start ID   if you know the other one is no danger", "");
        let _ = writeln!(out, "{:15}luciactl clone split {name}             if you do not", "");
    } else if let Some(present) = &view.holder {
        line(out, "held by", &holder(present));
    }
    if let Some(kept) = &view.kept {
        line(out, "kept", &format!("at {}: {}", kept.at, holder(&kept.holder)));
    }
    if let Some(refused) = &view.last_refused {
        line(out, "refused", &holder(refused));
    }
}

/// What `clone keep` will do.
pub(crate) fn keeping(view: &NodeView, start: &StartId) -> String {
    let holders = view.frozen.iter().flat_map(|frozen| &frozen.holders);
    let mut out = String::new();
    for who in holders {
        let stays = who.start_id.as_ref() == Some(start);
        let becomes = if stays { "goes on as before" } else { "is told that it is frozen, and gets nothing new" };
        let _ = writeln!(out, "{}\n  {becomes}", holder(who));
    }
    out.push_str(
        "The other machine still has the key, and with it can renew the certificate: run `lucia-node-agent rekey` on it, \
         or destroy its disk. If somebody else may have it, split instead.",
    );
    out
}

/// What `clone split` will do.
pub(crate) fn splitting(view: &NodeView) -> String {
    let mut out = String::new();
    for who in view.frozen.iter().flat_map(|frozen| &frozen.holders) {
        let _ = writeln!(out, "{}\n  is refused from its next call on", holder(who));
    }
    let _ = write!(
        out,
        "This removes {} ({}) for good. Each machine that is to be a node again needs `lucia-node-agent rekey` and a new \
         approval, under a name that is free.",
        view.node.certified_name(),
        view.node.node_id
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: CT-40
    #[test]
    fn each_decision_says_what_becomes_of_each_holder() {
        let start = |digit: char| digit.to_string().repeat(32);
        let holder = |digit, address| {
            format!(r#"{{"startId":"{}","address":"{address}","firstSeenAt":"2026-11-29T19:51:00Z"}}"#, start(digit))
        };
        let text = format!(
            r#"{{"serverTime":"2026-11-29T20:00:00Z","node":{{"nodeId":"{id}","hostname":"web-1",
            "verificationCode":"1a2b-3c4d-5e6f","state":"Online"}},"fingerprint":"{id}{id}",
            "taskId":"00000000-0000-4000-8000-000000000000","samples":[],
            "frozen":{{"at":"2026-11-29T19:59:00Z","holders":[{},{}]}}}}"#,
            holder('a', "192.0.2.1"),
            holder('b', "192.0.2.2"),
            id = "1a2b3c4d5e6f00000000000000000000",
        );
        let view: NodeView = lucia_proto::base::json::from_str(&text, 1 << 16, 24).unwrap();
        let becomes = |text: &str, digit| {
            let mut lines = text.lines().skip_while(|line| !line.contains(&start(digit)));
            lines.nth(1).map(str::to_owned).unwrap()
        };
        let [first, second] = ['a', 'b'].map(|digit| keeping(&view, &start(digit).parse().unwrap()));
        // Who stays is told so, whichever it is, and the other one something else.
        assert_eq!(becomes(&first, 'a'), becomes(&second, 'b'));
        assert_eq!(becomes(&first, 'b'), becomes(&second, 'a'));
        assert_ne!(becomes(&first, 'a'), becomes(&first, 'b'));
        let split = splitting(&view);
        assert_eq!(becomes(&split, 'a'), becomes(&split, 'b'));
        assert!(split.contains("rekey") && split.contains("web-1"), "{split}");
        expect_test::expect_file!["snapshots/clones.txt"].assert_eq(&format!("{second}\n\n{split}\n"));
    }
}
