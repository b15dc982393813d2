//! `policy`: what owners may order this node to do, shown and changed.

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser as _, ValueParser};
use lucia_daemon::exit::{CONFIG, Exit};
use lucia_proto::base::json;
use lucia_proto::node::agent::carried;
use lucia_proto::orders::{OrderKind, Rule};
use serde::Serialize;

use super::show::{print, rows};
use crate::host::chain;
use crate::host::root::Root;
use crate::owners::policy::{self, PolicyError, RuleInForce, RuleSource, edit};

const EXAMPLES: &str = "\
Example:
  lucia-node-agent policy show
  lucia-node-agent policy two-owners ssh-key
  lucia-node-agent policy forbid remove-identity

A change holds from the next order on; nothing needs a restart. The roster has a
policy for the whole fleet as well, and of the two the stricter counts.";

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Verb {
    /// Show the rule for each kind of order and where it is from; exit 78 if the file cannot be used
    Show {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Let one owner order a kind
    Allow(Kind),
    /// Require the signatures of two owners for a kind
    TwoOwners(Kind),
    /// Let nobody order a kind
    Forbid(Kind),
    /// Print the policy that staging lays where none is given
    Default,
}

#[derive(Debug, clap::Args)]
pub(super) struct Kind {
    /// A kind of order that a node carries out
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: OrderKind,
}

fn kinds() -> ValueParser {
    let words = PossibleValuesParser::new(carried().map(OrderKind::as_str));
    words.try_map(|word| OrderKind::of_word(&word).ok_or("not a kind of order")).into()
}

/// The rules as `--json` shows them.
#[derive(Serialize)]
struct Shown {
    rules: Vec<RuleInForce>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

pub(super) fn run(root: &Root, verb: Verb) -> Result<(), Exit> {
    match verb {
        Verb::Show { json } => show(root, json),
        Verb::Allow(Kind { kind }) => set(root, kind, Rule::Allow),
        Verb::TwoOwners(Kind { kind }) => set(root, kind, Rule::TwoOwners),
        Verb::Forbid(Kind { kind }) => set(root, kind, Rule::Forbid),
        Verb::Default => {
            print(&edit::default_text());
            Ok(())
        }
    }
}

fn show(root: &Root, json: bool) -> Result<(), Exit> {
    let policy = policy::read(root);
    // Only root can check that the agent would trust the file, so nobody else is shown rules.
    if let Some(error @ PolicyError::Untrusted(_)) = &policy.refused
        && !nix::unistd::geteuid().is_root()
    {
        return Err(Exit::refused(format!("run this as root: {}", chain(error))));
    }
    let rules: Vec<_> = policy.in_force().collect();
    let refused = policy.refused.as_ref().map(|error| chain(error));
    if json {
        print(&json::to_string(&Shown { rules, refused })?);
    } else {
        let line =
            |one: &RuleInForce| (one.kind.as_str(), Some(format!("{:<10}  {}", one.rule.as_str(), from(one.from))));
        print(&rows(&rules.iter().map(line).collect::<Vec<_>>()));
    }
    match policy.refused {
        None => Ok(()),
        Some(error @ PolicyError::Later { .. }) => {
            eprintln!("lucia-node-agent: {error}");
            Ok(())
        }
        Some(error) => Err(Exit::said(CONFIG, format!("{}; {}", chain(&error), policy::CURE))),
    }
}

const fn from(source: RuleSource) -> &'static str {
    match source {
        RuleSource::File => "/etc/lucia/agent-policy.toml",
        RuleSource::Default => "the default of /etc/lucia/agent-policy.toml",
        RuleSource::BuiltIn => "built in; there is no /etc/lucia/agent-policy.toml",
        RuleSource::Unusable => "/etc/lucia/agent-policy.toml cannot be used",
    }
}

fn set(root: &Root, kind: OrderKind, rule: Rule) -> Result<(), Exit> {
    edit::set(root, kind, rule).map_err(|error| match error {
        edit::EditError::Policy(_) => Exit::said(CONFIG, format!("{}; {}", chain(&error), policy::CURE)),
        error => Exit::from(error),
    })?;
    print(&format!("{} = {}, from the next order on", kind.as_str(), rule.as_str()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    // spec: AG-443
    #[test]
    fn the_verbs_change_the_policy_and_refuse_with_78_where_it_cannot_be_used() {
        let scratch = Scratch::new();
        let root = scratch.root();
        let code = |verb| run(&root, verb).map_err(|exit| exit.code);
        let kind = || Kind { kind: OrderKind::SshKey };
        assert_eq!(code(Verb::Show { json: true }), Ok(()));
        scratch.put("etc/lucia/agent-policy.toml", &edit::default_text());
        for (verb, rule) in [
            (Verb::Forbid(kind()), Rule::Forbid),
            (Verb::TwoOwners(kind()), Rule::TwoOwners),
            (Verb::Allow(kind()), Rule::Allow),
        ] {
            assert_eq!(code(verb), Ok(()));
            assert_eq!(policy::read(&root).rules.rule(OrderKind::SshKey), rule);
        }
        scratch.put("etc/lucia/agent-policy.toml", "exec = \"allow\"\n");
        assert_eq!(code(Verb::Show { json: false }), Ok(()), "a later kind is forbidden, and the rest counts");
        scratch.put("etc/lucia/agent-policy.toml", "exec: allow\n");
        assert_eq!(code(Verb::Show { json: false }), Err(CONFIG));
        assert_eq!(code(Verb::Allow(kind())), Err(CONFIG));
    }

    // spec: AG-443
    #[test]
    fn what_json_shows_names_each_kind_with_its_rule_and_where_that_is_from() {
        let rule = RuleInForce { kind: OrderKind::SshKey, rule: Rule::TwoOwners, from: RuleSource::BuiltIn };
        let shown = json::to_string(&Shown { rules: vec![rule], refused: None }).unwrap();
        assert_eq!(shown, r#"{"rules":[{"kind":"ssh-key","rule":"two-owners","from":"built-in"}]}"#);
    }
}
