//! Every verb, one noun to a file: its arguments, its call, its text and its problems.

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
use crate::verb::{At, Verb};

/// The verbs in the order of the help.
macro_rules! verbs {
    ($($(#[$meta:meta])* $name:ident($verb:ty);)+) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Verbs { $($(#[$meta])* $name($verb)),+ }

        impl Verbs {
            pub(crate) async fn run(self, at: &At) -> Result<(), Failure> {
                match self { $(Self::$name(verb) => verb.run(at).await),+ }
            }
        }
    };
}

verbs! {
    Onboarding(onboarding::Onboarding);
    #[command(subcommand)] Window(onboarding::Window);
    Approve(approve::Approve);
    Admit(approve::Admit);
    Reject(onboarding::Reject);
    Dismiss(onboarding::Dismiss);
    Restore(onboarding::Restore);
    Nodes(nodes::Nodes);
    Node(nodes::Node);
    Rename(nodes::Rename);
    Remove(nodes::Remove);
    ReleaseLapse(nodes::ReleaseLapse);
    #[command(subcommand)] Clone(clones::Clone);
    #[command(subcommand)] Keys(keys::Keys);
    Login(login::Login);
    Whoami(contexts::Whoami);
    #[command(subcommand)] Context(contexts::Context);
    Owners(owners::Owners);
    Sign(orders::Sign);
    #[command(visible_alias = "orders")] Drafts(orders::Drafts);
    Drop(orders::Drop);
    #[command(subcommand)] Passkey(passkeys::Passkey);
    #[command(subcommand)] Session(sessions::Sessions);
    #[command(subcommand)] Token(tokens::Token);
    Why(why::Why);
    Audit(audit::Audit);
    Events(events::Events);
    Status(status::Status);
    Completions(manual::Completions);
    Man(manual::Man);
}
