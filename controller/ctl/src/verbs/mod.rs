//! Every verb, one noun to a file: its arguments, its call, its text and its problems.

mod agents;
mod approve;
mod audit;
mod clones;
mod contexts;
mod events;
mod hour;
mod keys;
mod login;
mod manual;
mod nodes;
mod onboarding;
mod orders;
mod owners;
mod passkeys;
mod sessions;
mod status;
mod tokens;
mod why;

use clap::Subcommand;

use crate::problem::Failure;
use crate::session::{At, Session};

/// The verbs in the order of the help: the arguments of each, and what does it. `at` marks those that need no session.
macro_rules! verbs {
    ($($(#[$meta:meta])* $name:ident($($asked:ident)::+) = $with:ident $($does:ident)::+;)+) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Verbs { $($(#[$meta])* $name($($asked)::+)),+ }

        impl Verbs {
            pub(crate) async fn run(self, at: &At) -> Result<(), Failure> {
                match self { $(Self::$name(asked) => $($does)::+(verbs!(@$with at), asked).await),+ }
            }
        }
    };
    (@at $at:ident) => { $at };
    (@session $at:ident) => { &Session::open($at).await? };
}

verbs! {
    Onboarding(onboarding::Onboarding) = session onboarding::onboarding;
    #[command(subcommand)] Window(onboarding::Window) = session onboarding::window;
    Approve(approve::Approve) = session approve::approve;
    Admit(approve::Admit) = session approve::admit;
    Reject(onboarding::Reject) = session onboarding::reject;
    Dismiss(onboarding::Dismiss) = session onboarding::dismiss;
    Restore(onboarding::Restore) = session onboarding::restore;
    Nodes(nodes::Nodes) = session nodes::list;
    Agents(agents::Agents) = session agents::list;
    Node(nodes::Node) = session nodes::show;
    Rename(nodes::Rename) = session nodes::rename;
    Remove(nodes::Remove) = session nodes::remove;
    ReleaseLapse(nodes::ReleaseLapse) = session nodes::release;
    #[command(subcommand)] Clone(clones::Clone) = session clones::clone;
    #[command(subcommand)] Keys(keys::Keys) = session keys::keys;
    Login(login::Login) = at login::login;
    Whoami(contexts::Whoami) = session contexts::whoami;
    #[command(subcommand)] Context(contexts::Context) = at contexts::context;
    Owners(owners::Owners) = session owners::list;
    Sign(orders::Sign) = session orders::sign;
    #[command(visible_alias = "orders")] Drafts(orders::Drafts) = session orders::list_all;
    Drop(orders::Drop) = session orders::discard;
    #[command(subcommand)] Passkey(passkeys::Passkey) = session passkeys::passkey;
    #[command(subcommand)] Session(sessions::Sessions) = session sessions::session;
    #[command(subcommand)] Token(tokens::Token) = session tokens::token;
    Why(why::Why) = session why::why;
    Audit(audit::Audit) = at audit::audit;
    Events(events::Events) = session events::events;
    Status(status::Status) = session status::status;
    Completions(manual::Completions) = at manual::completions;
    Man(manual::Man) = at manual::man;
}
