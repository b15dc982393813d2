//! `token`: made with the owner key, shown once.

use lucia_people::owner_api::OwnerEndpoint;
use lucia_people::token::{TokenForm, TokenMade, TokenScopes, TokenView, TokensView};

use crate::args::{AddToken, TokenVerb};
use crate::client::Client;
use crate::failure::Failure;
use crate::show;
use crate::tell::{Out, note};

/// Makes one; only an owner's client gets so far.
pub(crate) async fn add(client: &Client, out: Out, args: AddToken) -> Result<(), Failure> {
    let scopes = TokenScopes::try_from(args.scopes).map_err(|_| Failure::ScopesTwice)?;
    let form = TokenForm { name: args.name, scopes, days: args.days };
    let made: TokenMade = client.hand_in(OwnerEndpoint::MakeToken, &form).await?;
    // The token itself goes where the answer goes and nowhere else.
    out.say(&made, || format!("{}\n", made.secret.reveal()))?;
    note(&show::token_made(&made.token));
    Ok(())
}

/// Lists or removes.
pub(crate) async fn token(client: &Client, out: Out, verb: TokenVerb) -> Result<(), Failure> {
    let view: TokensView = match verb {
        TokenVerb::Add(args) => return add(client, out, args).await,
        TokenVerb::List => client.look(OwnerEndpoint::Tokens, None).await?,
        TokenVerb::Remove { name } => {
            let view: TokensView = client.look(OwnerEndpoint::Tokens, None).await?;
            let is_named = |token: &&TokenView| token.name.as_str() == name || token.code.as_str() == name;
            let mut found = view.tokens.iter().filter(is_named);
            match (found.next(), found.next()) {
                (Some(token), None) => client.look(OwnerEndpoint::RemoveToken, Some(&token.code)).await?,
                (None, _) => return Err(Failure::NoToken(name)),
                // Over the socket two owners may call theirs alike.
                (Some(_), Some(_)) => return Err(Failure::TokensAlike(name)),
            }
        }
    };
    out.say(&view, || show::tokens(&view, out.screen))
}
