//! The SSH keys that nodes are given.

use lucia_proto::host_api::SshKeysView;

use crate::table::{Screen, Tone, table};

/// `keys`.
pub(crate) fn keys(view: &SshKeysView, screen: Screen) -> String {
    if view.keys.is_empty() {
        return "No keys yet. luciactl keys add ACCOUNT FILE --label TEXT adds one.\n".to_owned();
    }
    let plain = |text: String| (text, Tone::Plain);
    let rows: Vec<_> = view
        .keys
        .iter()
        .map(|key| {
            let kind = key.key.split(' ').next().unwrap_or_default();
            vec![
                plain(key.account.to_string()),
                plain(key.fingerprint.clone()),
                plain(kind.to_owned()),
                plain(key.label.to_string()),
                plain(key.added_at.to_string()),
                plain(key.added_by.to_string()),
            ]
        })
        .collect();
    table(&["ACCOUNT", "FINGERPRINT", "KIND", "LABEL", "SINCE", "BY"], &rows, screen)
}
