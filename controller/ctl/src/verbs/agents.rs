//! The nodes' agents: version, and what they will not carry out.

use clap::Args;
use lucia_people::agents::AgentLine;
use lucia_proto::base::text::shown;

use crate::problem::Failure;
use crate::session::Session;
use crate::table::{Screen, Tone, plain, table};

/// Show each node's agent: its version, and which orders it does not carry out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl agents\n  luciactl agents --json")]
pub(crate) struct Agents;

pub(super) async fn list(session: &Session, _: Agents) -> Result<(), Failure> {
    let agents = session.client.agents().await?;
    session.out.say(&agents, || rows(&agents, session.out.screen))
}

fn rows(agents: &[AgentLine], screen: Screen) -> String {
    if agents.is_empty() {
        return "No node has sent a heartbeat yet, or the controller is of version 0.1, which does not tell.\n"
            .to_owned();
    }
    let row = |agent: &AgentLine| {
        let obstacles = agent.obstacles();
        let (words, tone) =
            if obstacles.is_empty() { ("-".to_owned(), Tone::Plain) } else { (obstacles.join(". "), Tone::Attention) };
        vec![plain(&agent.hostname), plain(shown(&agent.version_words())), (words, tone)]
    };
    table(&["HOSTNAME", "AGENT", "NOT CARRIED OUT"], &agents.iter().map(row).collect::<Vec<_>>(), screen)
}
