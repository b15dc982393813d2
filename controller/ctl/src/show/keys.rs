//! The SSH keys that owners ordered.

use lucia_proto::base::text::counted;

use crate::ssh_keys::Ordered;
use crate::table::{Screen, Tone, table};

/// `keys list`.
pub(crate) fn ordered(all: &[Ordered], screen: Screen) -> String {
    if all.is_empty() {
        return "No owner ordered SSH keys yet. luciactl keys add ACCOUNT FILE --label TEXT --all orders one.\n"
            .to_owned();
    }
    let plain = |text: String| (text, Tone::Plain);
    let mut rows = Vec::new();
    for order in all {
        let nodes = counted(u64::try_from(order.nodes.len()).unwrap_or(u64::MAX), "node");
        let mut row = |fingerprint: String, label: String| {
            rows.push(vec![
                plain(order.account.to_string()),
                plain(fingerprint),
                plain(label),
                plain(nodes.clone()),
                plain(order.revision.to_string()),
                plain(order.order.to_string()),
                plain(order.at.to_string()),
            ]);
        };
        if order.keys.is_empty() {
            row("none".to_owned(), "-".to_owned());
        }
        for key in &order.keys {
            row(key.key.key().fingerprint(), key.label.to_string());
        }
    }
    table(&["ACCOUNT", "FINGERPRINT", "LABEL", "FOR", "REVISION", "ORDER", "SINCE"], &rows, screen)
}
