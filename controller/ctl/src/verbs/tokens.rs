//! Automation tokens: made with the owner key, shown once.

use clap::{Args, Subcommand};
use lucia_people::calls::PeopleCall;
use lucia_people::token::{Days, TokenForm, TokenMade, TokenName, TokenScope, TokenScopes, TokenView, TokensView};
use lucia_proto::base::text::shown;

use crate::problem::{FAILED, Failure, USAGE, problems};
use crate::session::Session;
use crate::table::{Screen, Tone, plain, table};
use crate::tell::note;

problems! {
    /// Why nothing became of a token.
    pub(crate) enum TokenError {
        NoToken(name: String) = "not_found", FAILED, ["you have no token {}", shown(name)],
            ["luciactl token list shows those there are"];
        TokensAlike(name: String) = "", FAILED, ["more than one token is {}", shown(name)],
            ["say the code that luciactl token list shows"];
        ScopesTwice = "", USAGE, ["--scope: each scope once"];
    }
}

/// Makes, lists and removes tokens by which a program looks that nobody sits at.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  luciactl token list\n  luciactl token add prometheus --scope status,nodes --days 90"
)]
pub(crate) enum Token {
    /// Makes one with your owner key and shows it, this once.
    Add(AddToken),
    /// Shows your tokens; over the socket everybody's.
    #[command(after_help = "Example:\n  luciactl token list")]
    List,
    /// Removes one: it opens nothing from then on.
    #[command(after_help = "Example:\n  luciactl token remove prometheus")]
    Remove {
        /// Its name, or its code.
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  luciactl token add prometheus --scope status,nodes --days 90
  luciactl --json token add nightly --scope audit --days 7
  curl --cacert root.pem -H @header https://controller.lucia.home.arpa:8443/api/host/nodes

where the file header holds: Authorization: Bearer t1.... A token looks, and orders or
changes nothing. It ends by itself, and at once when you are an owner no more.")]
pub(crate) struct AddToken {
    /// What you call it: a-z first, then a-z, 0-9, _, . and -.
    name: TokenName,
    /// What it may look at, with commas between: nodes, onboarding, events, audit, orders, owners, status.
    #[arg(long = "scope", value_name = "SCOPE,...", value_delimiter = ',', required = true)]
    scopes: Vec<TokenScope>,
    /// How long it lives, 1 to 90 days.
    #[arg(long, value_name = "N")]
    days: Days,
}

pub(super) async fn token(session: &Session, asked: Token) -> Result<(), Failure> {
    let (client, out) = (&session.client, session.out);
    let view: TokensView = match asked {
        Token::Add(args) => {
            session.owner("to make a token")?;
            let scopes = TokenScopes::try_from(args.scopes).map_err(|_| TokenError::ScopesTwice)?;
            let form = TokenForm { name: args.name, scopes, days: args.days };
            let made: TokenMade = client.post(PeopleCall::MakeToken, &"", &form).await?;
            // The token itself goes where the answer goes and nowhere else.
            out.say(&made, || format!("{}\n", made.secret.reveal()))?;
            note(&token_made(&made.token));
            return Ok(());
        }
        Token::List => client.call(PeopleCall::Tokens, &"").await?,
        Token::Remove { name } => {
            let view: TokensView = client.call(PeopleCall::Tokens, &"").await?;
            let is_named = |token: &&TokenView| token.name.as_str() == name || token.code.as_str() == name;
            let mut found = view.tokens.iter().filter(is_named);
            match (found.next(), found.next()) {
                (Some(token), None) => client.call(PeopleCall::RemoveToken, &token.code).await?,
                (None, _) => return Err(TokenError::NoToken(name).into()),
                // Over the socket two owners may call theirs alike.
                (Some(_), Some(_)) => return Err(TokenError::TokensAlike(name).into()),
            }
        }
    };
    out.say(&view, || tokens(&view, out.screen))
}

fn scopes(token: &TokenView) -> String {
    token.scopes.all().iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}

/// What is said beside a token that was made.
fn token_made(token: &TokenView) -> String {
    format!(
        "This is {}, shown this once: keep it where only its program reads it. It looks at {} until {}.",
        token.name,
        scopes(token),
        token.expires_at
    )
}

fn tokens(view: &TokensView, screen: Screen) -> String {
    if view.tokens.is_empty() {
        return "There is none. Make one with: luciactl token add NAME --scope SCOPE --days N\n".to_owned();
    }
    let row = |token: &TokenView| {
        let owner = token.owner.as_ref().map_or_else(|| "nobody of the roster".to_owned(), ToString::to_string);
        let tone = if token.owner.is_some() { Tone::Plain } else { Tone::Bad };
        let used = token.used_at.map_or_else(|| "not since the start".to_owned(), |at| at.to_string());
        vec![
            plain(&token.name),
            plain(&token.code),
            (owner, tone),
            plain(scopes(token)),
            plain(token.expires_at),
            plain(used),
        ]
    };
    let rows: Vec<_> = view.tokens.iter().map(row).collect();
    table(&["NAME", "CODE", "OF", "LOOKS AT", "UNTIL", "LAST USED"], &rows, screen)
}
