//! Sessions of the page.

use clap::Subcommand;
use lucia_people::calls::PeopleCall;
use lucia_people::sign_in::{SessionView, SessionsView};
use lucia_proto::base::text::span;
use lucia_proto::pki::key::VerificationCode;

use crate::problem::Failure;
use crate::session::Session;
use crate::table::{Screen, plain, table};
use crate::tell::ask;

/// Lists the sessions of the page, and ends them.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  luciactl session list\n  luciactl session end --all")]
pub(crate) enum Sessions {
    /// Shows your own that have not ended; the operator sees all.
    #[command(after_help = "Example:\n  luciactl session list")]
    List,
    /// Ends one, or all of yours.
    #[command(after_help = "Examples:\n  luciactl session end 1a2b-3c4d-5e6f\n  luciactl session end --all")]
    End {
        /// Which, as the list shows it.
        #[arg(value_name = "CODE", required_unless_present = "all")]
        code: Option<VerificationCode>,
        /// All of them.
        #[arg(long, conflicts_with = "code")]
        all: bool,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn session(session: &Session, asked: Sessions) -> Result<(), Failure> {
    let (client, out) = (&session.client, session.out);
    let view: SessionsView = match asked {
        Sessions::List => client.call(PeopleCall::Sessions, &"").await?,
        Sessions::End { code, yes, .. } => {
            let whose = if client.me().is_some() { "your session" } else { "session" };
            if let Some(code) = code {
                ask(&format!("This ends {whose} {code}: that browser has to sign in again."), "yes", yes)?;
                client.call(PeopleCall::EndSession, &code).await?
            } else {
                ask(&format!("This ends every {whose} of the page: each browser has to sign in again."), "yes", yes)?;
                client.call(PeopleCall::EndSessions, &"").await?
            }
        }
    };
    out.say(&view, || sessions(&view, out.screen))
}

fn sessions(view: &SessionsView, screen: Screen) -> String {
    if view.sessions.is_empty() {
        return "Nobody is signed in to the page.\n".to_owned();
    }
    let now = view.server_time;
    let row = |session: &SessionView| {
        vec![
            plain(&session.code),
            plain(&session.owner),
            plain(session.address),
            plain(format!("{} ago", span(now.since(session.used_at)))),
            plain(format!("in {}", span(session.expires_at.since(now)))),
            plain(&session.passkey),
        ]
    };
    let rows: Vec<_> = view.sessions.iter().map(row).collect();
    table(&["CODE", "OWNER", "FROM", "USED", "ENDS", "PASSKEY"], &rows, screen)
}
