//! What an owner says: contexts, the key, orders and signatures.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use lucia_proto::base::names::Hostname;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::owner::{OwnerName, PageOrigin};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use super::fingerprint;
use crate::context::ContextName;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  luciactl login --controller https://controller.lucia.home.arpa:8443 --root root.pem --name alice

The root comes from whoever runs the worker, by a way you trust: it decides who is
believed. The key never leaves this machine. Run the same command again to ask once
more with the same key.")]
pub(crate) struct Login {
    /// Where the controller is, by the name in its certificate: https://NAME or https://NAME:PORT.
    #[arg(long, value_name = "URL", value_parser = origin)]
    pub(crate) controller: PageOrigin,
    /// The fleet's root certificate, PEM. It is copied beside the contexts.
    #[arg(long, value_name = "FILE")]
    pub(crate) root: PathBuf,
    /// What people are to call you.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: OwnerName,
    /// Keeps the key without a passphrase: whoever reads its file is you.
    #[arg(long, conflicts_with = "passphrase_file")]
    pub(crate) no_passphrase: bool,
    /// Does not wait until the key is approved.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextVerb {
    /// Shows every context; * is the one in use.
    #[command(after_help = "Example:\n  luciactl context list")]
    List,
    /// Uses this one from now on.
    #[command(after_help = "Example:\n  luciactl context use home")]
    Use {
        /// Which.
        #[arg(value_name = "NAME")]
        name: ContextName,
    },
    /// Shows one: the one in use, unless named.
    #[command(after_help = "Examples:\n  luciactl context show\n  luciactl context show home")]
    Show {
        /// Which.
        #[arg(value_name = "NAME")]
        name: Option<ContextName>,
    },
    /// Forgets one. The files of its key and root stay.
    #[command(after_help = "Example:\n  luciactl context remove home")]
    Remove {
        /// Which.
        #[arg(value_name = "NAME")]
        name: ContextName,
    },
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  luciactl sign --list\n  luciactl sign 1a2b-3c4d-5e6f")]
pub(crate) struct Sign {
    /// The order's code, as the page or `luciactl drafts` shows it.
    #[arg(value_name = "CODE", required_unless_present = "list")]
    pub(crate) code: Option<VerificationCode>,
    /// Shows the orders that wait for a signature, and signs none.
    #[arg(long, conflicts_with_all = ["code", "yes"])]
    pub(crate) list: bool,
    /// Does not ask: signs whatever has this code. For orders that you drafted yourself: a code is short enough for a
    /// rich enemy to make another order of the same code, which only who reads it sees. An admission is never signed so.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  luciactl admit 1a2b-3c4d-5e6f --fingerprint HEX")]
pub(crate) struct Admit {
    /// The verification code, as the machine shows it.
    #[arg(value_name = "CODE")]
    pub(crate) code: VerificationCode,
    /// The whole fingerprint as the machine's own screen shows it. Without it you are asked to type it.
    #[arg(long, value_name = "HEX", value_parser = fingerprint)]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The name it gets; the approved one, unless said. With --yes it has to be said.
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname: Option<Hostname>,
    /// The node that had this name: its key is barred for good. By hostname, node id or verification code. Where the
    /// machine was approved in another's place, it has to be said.
    #[arg(long, value_name = "NODE")]
    pub(crate) replaces: Option<String>,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  luciactl release-lapse web-1")]
pub(crate) struct ReleaseLapse {
    /// Its hostname, node id or verification code.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  luciactl audit --follow
  luciactl audit export > audit.jsonl
  luciactl audit verify
  luciactl audit verify audit.jsonl --anchor 1234:HEX"
)]
pub(crate) struct Audit {
    /// Goes on showing lines as they come.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only lines after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) after: u64,
    #[command(subcommand)]
    pub(crate) verb: Option<AuditVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditVerb {
    /// Writes all of it as JSON Lines, as the controller keeps it, checked line by line.
    #[command(after_help = "Example:\n  luciactl audit export > audit.jsonl")]
    Export,
    /// Checks that no line was cut out, edited or put elsewhere: of the controller's, or of an exported file.
    ///
    /// As an owner this machine notes how far it saw the controller's, and finds a history that was written anew since.
    #[command(after_help = "Examples:\n  luciactl audit verify\n  luciactl audit verify audit.jsonl --anchor 1234:HEX")]
    Verify {
        /// An exported file; the controller's own audit, unless said.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// A line that is known to have been there: its number and the SHA-256 after it.
        #[arg(long, value_name = "N:HEX", value_parser = anchor)]
        anchor: Option<AuditChain>,
    },
}

fn anchor(text: &str) -> Result<AuditChain, String> {
    let parts = text.split_once(':').and_then(|(entries, head)| Some((entries.parse().ok()?, head.parse().ok()?)));
    let (entries, head) = parts.ok_or_else(|| "a number, a colon and 64 hex digits".to_owned())?;
    Ok(AuditChain { entries, head })
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Example:
  luciactl passkey approve 1a2b-3c4d-5e6f

Make the passkey on the page, under Passkeys; it shows the code. One that signs in
signs no order, and one for orders signs nobody in.")]
pub(crate) enum PasskeyVerb {
    /// Confirms the passkey of this code: whoever holds it signs in under your name from now on.
    #[command(after_help = "Example:\n  luciactl passkey approve 1a2b-3c4d-5e6f")]
    Approve {
        /// The code that your own browser shows.
        #[arg(value_name = "CODE")]
        code: VerificationCode,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Asks for a passkey that signs orders on the page, of the kinds that the roster's page-kinds names. It is confirmed with
    /// your owner key, approved on the worker's host, and never signs in.
    #[command(after_help = "Examples:\n  luciactl passkey orders passkey.json\n  luciactl passkey orders -")]
    Orders {
        /// What the page showed when you made it there, in a file; - is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Shows your passkeys; over the socket everybody's.
    #[command(after_help = "Example:\n  luciactl passkey list")]
    List,
    /// Removes one, and ends its sessions; an owner also dismisses so one that waits to be confirmed.
    #[command(after_help = "Example:\n  luciactl passkey remove 1a2b-3c4d-5e6f")]
    Remove {
        /// Its code.
        #[arg(value_name = "CODE")]
        code: VerificationCode,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
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

/// Where an account's keys are set, and how often they were before. For owners.
#[derive(Debug, ClapArgs)]
pub(crate) struct NodesWanted {
    /// As an owner: the nodes it is for, by hostname, node id or verification code, with commas between. Those of the
    /// last order about this account, unless said.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// As an owner: every node there is now; they are listed before you sign.
    #[arg(long, conflicts_with = "nodes")]
    pub(crate) all: bool,
    /// As an owner: the number of this order about the account; one more than the last, unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) revision: Option<u64>,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// As a person types it: a slash at its end, and 443, mean nothing.
fn origin(text: &str) -> Result<PageOrigin, String> {
    let plain = text.strip_suffix('/').unwrap_or(text);
    let plain = plain.strip_suffix(":443").unwrap_or(plain);
    plain
        .parse()
        .map_err(|_| "https:// and a lower-case name, such as https://controller.lucia.home.arpa:8443".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_name_over_https() {
        for (text, want) in [
            ("https://controller.test", Some("https://controller.test")),
            ("https://controller.test/", Some("https://controller.test")),
            ("https://controller.test:443", Some("https://controller.test")),
            ("https://controller.test:8443/", Some("https://controller.test:8443")),
            ("http://controller.test", None),
            ("https://a@controller.test", None),
            ("https://controller.test/path", None),
            ("controller.test", None),
        ] {
            assert_eq!(origin(text).ok().as_ref().map(PageOrigin::as_str), want, "{text}");
        }
    }
}
