//! What is said of automation tokens.

use clap::{Args as ClapArgs, Subcommand};
use lucia_people::token::{Days, TokenName, TokenScope};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Makes one with your owner key and shows it, this once.
    Add(AddToken),
    /// Shows your tokens; over the socket everybody's.
    #[command(after_help = "Example:\n  luciactl token list")]
    List,
    /// Removes one: it opens nothing from then on.
    #[command(after_help = "Example:\n  luciactl token remove prometheus")]
    Remove {
        /// Its name, or its code.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  luciactl token add prometheus --scope status,nodes --days 90
  luciactl --json token add nightly --scope audit --days 7
  curl --cacert root.pem -H @header https://controller.lucia.home.arpa:8443/api/host/nodes

where the file header holds: Authorization: Bearer t1.... A token looks, and orders or
changes nothing. It ends by itself, and at once when you are an owner no more.")]
pub(crate) struct AddToken {
    /// What you call it: a-z first, then a-z, 0-9, _, . and -.
    #[arg(value_name = "NAME")]
    pub(crate) name: TokenName,
    /// What it may look at, with commas between: nodes, onboarding, events, audit, orders, owners, status.
    #[arg(long = "scope", value_name = "SCOPE,...", value_delimiter = ',', required = true)]
    pub(crate) scopes: Vec<TokenScope>,
    /// How long it lives, 1 to 90 days.
    #[arg(long, value_name = "N")]
    pub(crate) days: Days,
}
