//! Automation tokens, without the tokens.

use lucia_people::token::{TokenView, TokensView};

use crate::table::{Screen, Tone, table};

fn scopes(token: &TokenView) -> String {
    token.scopes.all().iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}

/// What is said beside a token that was made.
pub(crate) fn token_made(token: &TokenView) -> String {
    format!(
        "This is {}, shown this once: keep it where only its program reads it. It looks at {} until {}.",
        token.name,
        scopes(token),
        token.expires_at
    )
}

/// `token list`.
pub(crate) fn tokens(view: &TokensView, screen: Screen) -> String {
    if view.tokens.is_empty() {
        return "There is none. Make one with: luciactl token add NAME --scope SCOPE --days N\n".to_owned();
    }
    let plain = |text: String| (text, Tone::Plain);
    let row = |token: &TokenView| {
        let owner = token.owner.as_ref().map_or_else(|| "nobody of the roster".to_owned(), ToString::to_string);
        let tone = if token.owner.is_some() { Tone::Plain } else { Tone::Bad };
        let used = token.used_at.map_or_else(|| "not since the start".to_owned(), |at| at.to_string());
        vec![
            plain(token.name.to_string()),
            plain(token.code.to_string()),
            (owner, tone),
            plain(scopes(token)),
            plain(token.expires_at.to_string()),
            plain(used),
        ]
    };
    let rows: Vec<_> = view.tokens.iter().map(row).collect();
    table(&["NAME", "CODE", "OF", "LOOKS AT", "UNTIL", "LAST USED"], &rows, screen)
}
