//! What owners may order here: `/etc/lucia/agent-policy.toml`, read before each order (design.md O5). Staging lays it with each
//! kind of its version allowed to one owner, and nothing but a person widens it: a kind that an update brings is forbidden until
//! then. Where there is no file, as on nodes that 0.1 staged, the kinds of 0.1 are allowed.

pub mod edit;

use lucia_durable::{DirError, FileName};
use lucia_proto::node::agent::{BEFORE_FEATURES, carried};
use lucia_proto::orders::{LaterKind, OpenPolicy, OrderKind, OrderPolicy, Rule};
use serde::Serialize;
use thiserror::Error;

use crate::host::etc;
use crate::host::failed::Failed;
use crate::host::root::Root;

/// Its name.
pub const NAME: &str = "agent-policy.toml";
/// Longest file.
const MAX: u64 = 16 * 1024;
/// Widest mode: everybody may read it, root alone may write it.
const MODE: u32 = 0o644;

/// The policy cannot be used, and everything is forbidden.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// The file or its directory.
    #[error("/etc/lucia/{NAME} cannot be trusted")]
    Untrusted(#[source] Failed),
    /// What stands in it.
    #[error("/etc/lucia/{NAME} is no policy ({0})")]
    Form(String),
    /// It names kinds of a later agent. These are forbidden here, and what else it says counts.
    #[error("/etc/lucia/{NAME} names {}, which this agent does not know and therefore forbids", .0.join(", "))]
    Later(Vec<String>),
    /// The same, beside a default that would allow what its owner restricted.
    #[error("/etc/lucia/{NAME} names {}, which this agent does not know, and its default is not forbid", .0.join(", "))]
    LaterByDefault(Vec<String>),
}

/// What cures it.
pub const CURE: &str = "make /etc/lucia/agent-policy.toml a plain file of root's that nobody else can write to, with lines such as \
     `ssh-key = \"allow\"` (`lucia-node-agent policy default` prints a good one), or remove it for the default; it is read \
     before each order";

/// The policy in force, and why it forbids everything where it cannot be read.
#[derive(Debug)]
pub struct Policy {
    /// What is asked of orders.
    pub rules: OrderPolicy,
    /// Why it could not be read, or what of it is not known here.
    pub refused: Option<PolicyError>,
    /// Where rules for kinds that it does not name are from.
    rest: RuleSource,
}

/// Where a rule is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSource {
    /// The file names the kind.
    File,
    /// The file does not name it, and its default counts, or none and so `forbid`.
    Default,
    /// There is no file.
    BuiltIn,
    /// The file cannot be used.
    Unusable,
}

/// What owners may order of one kind, before the roster has its say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RuleInForce {
    /// The kind.
    pub kind: OrderKind,
    /// What is asked of it.
    pub rule: Rule,
    /// Why.
    pub from: RuleSource,
}

impl Policy {
    fn unusable(error: PolicyError) -> Self {
        Self { rules: OrderPolicy::forbid_all(), refused: Some(error), rest: RuleSource::Unusable }
    }

    /// The rule in force for each kind that a node carries out.
    pub fn in_force(&self) -> impl Iterator<Item = RuleInForce> {
        carried().map(|kind| RuleInForce {
            kind,
            rule: self.rules.rule(kind),
            from: match (self.rest, self.rules.named(kind)) {
                (RuleSource::Default, Some(_)) => RuleSource::File,
                (rest, _) => rest,
            },
        })
    }
}

/// Reads it.
#[must_use]
pub fn read(root: &Root) -> Policy {
    match text(root) {
        Ok(None) => Policy { rules: built_in(), refused: None, rest: RuleSource::BuiltIn },
        Ok(Some(text)) => parse(&text).map_or_else(Policy::unusable, known),
        Err(error) => Policy::unusable(error),
    }
}

/// What counts where there is no file.
fn built_in() -> OrderPolicy {
    BEFORE_FEATURES.iter().fold(OrderPolicy::forbid_all(), |policy, kind| policy.with(*kind, Rule::Allow))
}

/// What the file says, where there is one that can be trusted.
///
/// # Errors
/// [`PolicyError`].
pub fn text(root: &Root) -> Result<Option<String>, PolicyError> {
    let dir = match etc::settings(root) {
        Ok(dir) => dir,
        Err(DirError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(PolicyError::Untrusted(error.into())),
    };
    let form = |line: &str| PolicyError::Form(line.to_owned());
    let name = FileName::new(NAME).map_err(|_| form("no file name"))?;
    let bytes = etc::read(&dir, &name, MAX, MODE).map_err(|error| PolicyError::Untrusted(error.into()))?;
    bytes.map(|bytes| String::from_utf8(bytes).map_err(|_| form("not UTF-8"))).transpose()
}

/// What counts of it here. The order that brings a later agent back must not be refused for a kind of that agent's.
fn known(rules: OrderPolicy) -> Policy {
    let kinds: Vec<String> = rules.later().map(LaterKind::to_string).collect();
    if rules.default_rule() != Rule::Forbid && !kinds.is_empty() {
        return Policy::unusable(PolicyError::LaterByDefault(kinds));
    }
    let refused = (!kinds.is_empty()).then_some(PolicyError::Later(kinds));
    Policy { rules, refused, rest: RuleSource::Default }
}

fn parse(text: &str) -> Result<OrderPolicy, PolicyError> {
    // What is longer is not read back.
    if text.len() as u64 > MAX {
        return Err(PolicyError::Form(format!("over {MAX} bytes")));
    }
    toml::from_str(text).map(|OpenPolicy(rules)| rules).map_err(|error| PolicyError::Form(first_line(error.message())))
}

fn first_line(text: &str) -> String {
    lucia_proto::base::text::shown(text.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use lucia_proto::orders::{OrderKind, Rule};

    use super::*;
    use crate::host::scratch::Scratch;

    const PATH: &str = "etc/lucia/agent-policy.toml";

    // spec: AO-1
    #[test]
    fn without_a_file_the_kinds_of_the_first_version_are_allowed_and_no_later_one() {
        let scratch = Scratch::new();
        for step in ["no directory", "no file"] {
            let Policy { rules, refused, .. } = read(&scratch.root());
            assert!(refused.is_none(), "{step}");
            for kind in OrderKind::ALL {
                let ours = BEFORE_FEATURES.contains(kind);
                assert_eq!(rules.rule(*kind), if ours { Rule::Allow } else { Rule::Forbid }, "{step}: {kind:?}");
            }
            scratch.put("etc/lucia/agent.toml", "");
        }
        scratch.put(PATH, "ssh-key = \"two-owners\"\n");
        let Policy { rules, refused, .. } = read(&scratch.root());
        assert!(refused.is_none());
        assert_eq!(rules.rule(OrderKind::SshKey), Rule::TwoOwners);
        assert_eq!(rules.rule(OrderKind::RemoveIdentity), Rule::Forbid);
    }

    // spec: AO-1
    #[test]
    fn a_policy_that_others_could_have_written_or_that_is_none_forbids_everything() {
        let good = "default = \"allow\"\n";
        type Spoil = fn(&std::path::Path);
        let cases: &[(&str, &str, Spoil)] = &[
            ("group-writable", good, |at| std::fs::set_permissions(at, Permissions::from_mode(0o664)).unwrap()),
            ("world-writable", good, |at| std::fs::set_permissions(at, Permissions::from_mode(0o646)).unwrap()),
            ("its directory is open", good, |at| {
                std::fs::set_permissions(at.parent().unwrap(), Permissions::from_mode(0o775)).unwrap();
            }),
            ("another user's", good, |at| {
                if nix::unistd::geteuid().is_root() {
                    std::os::unix::fs::chown(at, Some(1000), None).unwrap();
                } else {
                    std::fs::write(at, "?").unwrap();
                }
            }),
            ("a link", good, |at| {
                std::fs::rename(at, at.with_extension("real")).unwrap();
                symlink(at.with_extension("real"), at).unwrap();
            }),
            ("a directory", good, |at| {
                std::fs::remove_file(at).unwrap();
                std::fs::create_dir(at).unwrap();
            }),
            ("no TOML", "ssh-key: allow", |_| ()),
            ("an unknown kind", "default = \"allow\"\nexecute = \"allow\"\n", |_| ()),
            ("an unknown rule", "ssh-key = \"yes\"\n", |_| ()),
            ("not text", good, |at| std::fs::write(at, [0xff, 0xfe]).unwrap()),
            ("too long", good, |at| std::fs::write(at, " ".repeat(16 * 1024 + 1)).unwrap()),
        ];
        for (name, text, spoil) in cases {
            let scratch = Scratch::new();
            scratch.put(PATH, text);
            let at = scratch.root().join(PATH);
            std::fs::set_permissions(&at, Permissions::from_mode(0o644)).unwrap();
            spoil(&at);
            let Policy { rules, refused, .. } = read(&scratch.root());
            let said = refused.unwrap_or_else(|| panic!("{name} is taken"));
            assert!(!crate::host::chain(&said).contains('\n'), "{name}");
            assert!(OrderKind::ALL.iter().all(|kind| rules.rule(*kind) == Rule::Forbid), "{name}");
        }
    }

    // spec: AG-440
    #[test]
    fn each_rule_in_force_says_where_it_is_from() {
        let scratch = Scratch::new();
        let from = |policy: &Policy| -> Vec<RuleInForce> { policy.in_force().collect() };
        let all = |rule, from| -> Vec<_> { carried().map(|kind| RuleInForce { kind, rule, from }).collect() };
        for one in read(&scratch.root()).in_force() {
            let rule = if BEFORE_FEATURES.contains(&one.kind) { Rule::Allow } else { Rule::Forbid };
            assert_eq!((one.rule, one.from), (rule, RuleSource::BuiltIn), "{:?}", one.kind);
        }
        for (text, rest) in [("", Rule::Forbid), ("default = \"two-owners\"\n", Rule::TwoOwners)] {
            scratch.put(PATH, &format!("{text}ssh-key = \"allow\"\n"));
            std::fs::set_permissions(scratch.root().join(PATH), Permissions::from_mode(0o644)).unwrap();
            for one in read(&scratch.root()).in_force() {
                let named = one.kind == OrderKind::SshKey;
                let want = if named { (Rule::Allow, RuleSource::File) } else { (rest, RuleSource::Default) };
                assert_eq!((one.rule, one.from), want, "{:?}", one.kind);
            }
        }
        for bad in ["ssh-key = 1\n", "default = \"allow\"\nexec = \"allow\"\n"] {
            scratch.put(PATH, bad);
            assert_eq!(from(&read(&scratch.root())), all(Rule::Forbid, RuleSource::Unusable), "{bad}");
        }
    }

    // spec: AO-410
    #[test]
    fn a_kind_of_a_later_agent_is_forbidden_and_forbids_nothing_else() {
        let scratch = Scratch::new();
        let read = |text: &str| {
            scratch.put(PATH, text);
            std::fs::set_permissions(scratch.root().join(PATH), Permissions::from_mode(0o644)).unwrap();
            read(&scratch.root())
        };
        for default in ["", "default = \"forbid\"\n"] {
            let Policy { rules, refused, .. } = read(&format!("{default}exec = \"allow\"\nssh-key = \"two-owners\"\n"));
            assert!(matches!(refused, Some(PolicyError::Later(kinds)) if kinds == ["exec"]));
            for kind in OrderKind::ALL {
                let want = if *kind == OrderKind::SshKey { Rule::TwoOwners } else { Rule::Forbid };
                assert_eq!(rules.rule(*kind), want, "{kind:?}");
            }
        }
        for default in ["allow", "two-owners"] {
            let Policy { rules, refused, .. } = read(&format!("default = \"{default}\"\nexec = \"forbid\"\n"));
            assert!(matches!(refused, Some(PolicyError::LaterByDefault { .. })));
            assert!(OrderKind::ALL.iter().all(|kind| rules.rule(*kind) == Rule::Forbid), "{default}");
        }
        let Policy { rules, refused, .. } = read("ssh-key = \"allow\"\nEXEC = \"allow\"\n");
        assert!(matches!(refused, Some(PolicyError::Form { .. })));
        assert_eq!(rules.rule(OrderKind::SshKey), Rule::Forbid, "a word that is no kind");
    }
}
