//! Policies that are written: the one that staging lays, and one changed rule in a file that somebody wrote.

use std::fs::File;

use lucia_durable::FileName;
use lucia_proto::node::agent::{BEFORE_FEATURES, carried};
use lucia_proto::orders::{OrderKind, Rule};
use thiserror::Error;

use super::{MODE, NAME, PolicyError, PolicyError::Later};
use crate::host::etc;
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::root::Root;

/// What stands before the rules.
const HEAD: &str = "\
# What owners may order this node to do, /etc/lucia/agent-policy.toml. Each order is signed by an owner on their own machine
# and checked here; the controller only carries it. The roster has a policy for the whole fleet, and the stricter counts.
#
#   \"allow\"       one owner's signature is enough
#   \"two-owners\"  two owners have to sign; two keys of one owner are one owner
#   \"forbid\"      nobody may order it
#
# A kind that is not named here goes by `default`, and without one it is forbidden. A file that cannot be read, is not
# root's, or that others may write to forbids everything; without any file the kinds of version 0.1 are allowed. It is
# read before each order, so nothing needs to be restarted. `lucia-node-agent policy` shows and changes it.
";

const UNCHANGED: &str = "/etc/lucia/agent-policy.toml was not changed";

/// The policy was not changed.
#[derive(Debug, Error)]
pub enum EditError {
    /// What is there cannot be used.
    #[error("{UNCHANGED}")]
    Policy(#[from] PolicyError),
    /// It cannot be changed.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// The policy that staging lays where none was given: each kind of this version that a node carries out is allowed.
#[must_use]
pub fn default_text() -> String {
    allowing(carried())
}

fn allowing(kinds: impl Iterator<Item = OrderKind>) -> String {
    kinds.fold(HEAD.to_owned(), |text, kind| format!("{text}\n# {}\n{}\n", kind.title(), line(kind, Rule::Allow)))
}

/// Checks a policy that is to be laid on a node of this version.
///
/// # Errors
/// [`PolicyError`]; a kind that this version does not know is a slip of the pen.
pub fn check(text: &str) -> Result<(), PolicyError> {
    super::known(super::parse(text)?).refused.map_or(Ok(()), Err)
}

/// Changes the rule for one kind and leaves the rest of the file as it is, comments too. It holds from the next order on.
///
/// # Errors
/// Any [`EditError`]; the file is then as it was.
pub fn set(root: &Root, kind: OrderKind, rule: Rule) -> Result<(), EditError> {
    rewrite(root, |held| {
        let text = held.unwrap_or_else(|| allowing(BEFORE_FEATURES.into_iter()));
        let before = super::parse(&text)?;
        match super::known(before.clone()).refused {
            // What it says of kinds of a later agent stays as it is.
            None | Some(Later { .. }) => {}
            Some(error) => return Err(error.into()),
        }
        let edited = edit(&text, kind, rule);
        if super::parse(&edited).ok() != Some(before.with(kind, rule)) {
            let what = format!("/etc/lucia/{NAME} has no plain line for {}; edit it by hand", kind.as_str());
            return Err(Failed::new(what).into());
        }
        Ok(Some(edited))
    })
}

/// Lays the policy of this version on a machine that joins as it runs, unless it has one.
///
/// # Errors
/// Any [`EditError`]; nothing is laid then.
pub fn lay(root: &Root) -> Result<(), EditError> {
    rewrite(root, |held| Ok(held.is_none().then(default_text)))
}

/// Replaces the file by what `to` makes of it, while nobody else of the agent writes it.
fn rewrite(root: &Root, to: impl FnOnce(Option<String>) -> Result<Option<String>, EditError>) -> Result<(), EditError> {
    let dir = etc::settings(root).or_failed(UNCHANGED)?;
    let lock = File::open(dir.path()).or_failed(UNCHANGED)?;
    lock.lock().or_failed(UNCHANGED)?;
    let Some(text) = to(super::text(root)?)? else { return Ok(()) };
    let name = FileName::new(NAME).or_failed(UNCHANGED)?;
    Ok(dir.replace(&name, text.as_bytes(), MODE).or_failed(UNCHANGED)?)
}

/// The text with the line of `kind` changed, or one more at its end.
fn edit(text: &str, kind: OrderKind, rule: Rule) -> String {
    let mut found = false;
    let mut out = String::new();
    for old in text.lines() {
        let value = old.split_once('=').filter(|(key, _)| key.trim().trim_matches('"') == kind.as_str());
        match value {
            Some((_, value)) => {
                found = true;
                let comment = value.find('#').and_then(|at| value.get(at..)).map(|comment| format!(" {comment}"));
                out.push_str(&line(kind, rule));
                out.push_str(&comment.unwrap_or_default());
            }
            None => out.push_str(old),
        }
        out.push('\n');
    }
    if !found {
        out.push_str(&format!("{}\n", line(kind, rule)));
    }
    out
}

fn line(kind: OrderKind, rule: Rule) -> String {
    format!("{} = \"{}\"", kind.as_str(), rule.as_str())
}

#[cfg(test)]
mod tests {
    use lucia_durable::crash_point::{crash_at, record};

    use super::super::{RuleSource, read};
    use super::*;
    use crate::host::scratch::Scratch;

    const PATH: &str = "etc/lucia/agent-policy.toml";

    fn text(scratch: &Scratch) -> String {
        std::fs::read_to_string(scratch.root().join(PATH)).unwrap()
    }

    // spec: AG-441
    #[test]
    fn the_policy_that_staging_lays_allows_each_kind_of_its_version() {
        let scratch = Scratch::new();
        scratch.put(PATH, &default_text());
        let laid = read(&scratch.root());
        assert!(laid.refused.is_none());
        assert!(laid.in_force().all(|one| one.rule == Rule::Allow && one.from == RuleSource::File));
        assert!(check(&default_text()).is_ok());
        // A machine that joins as it runs gets the same, and keeps what it has.
        std::fs::remove_file(scratch.root().join(PATH)).unwrap();
        lay(&scratch.root()).unwrap();
        assert_eq!(text(&scratch), default_text());
        scratch.put(PATH, "ssh-key = \"forbid\"\n");
        lay(&scratch.root()).unwrap();
        assert_eq!(text(&scratch), "ssh-key = \"forbid\"\n");
        for bad in
            ["ssh-key = 1", "exec = \"forbid\"", "default = \"allow\"\nexec = \"allow\"", &"#".repeat(16 * 1024 + 1)]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    // spec: AG-442
    #[test]
    fn one_rule_is_changed_and_the_rest_of_the_file_stays_byte_for_byte() {
        let scratch = Scratch::new();
        let before = "# mine\ndefault = \"forbid\"\n\"ssh-key\"=\"allow\"   # why \"ada\" may\n# ssh-key = \"forbid\"\nexec = \"allow\"";
        scratch.put(PATH, before);
        set(&scratch.root(), OrderKind::SshKey, Rule::TwoOwners).unwrap();
        let after = "# mine\ndefault = \"forbid\"\nssh-key = \"two-owners\" # why \"ada\" may\n# ssh-key = \"forbid\"\nexec = \"allow\"\n";
        assert_eq!(text(&scratch), after);
        set(&scratch.root(), OrderKind::CloneDecision, Rule::Allow).unwrap();
        assert_eq!(text(&scratch), format!("{after}clone-decision = \"allow\"\n"));
        // Without a file the built-in rules hold, and go on to hold for what is not changed.
        std::fs::remove_file(scratch.root().join(PATH)).unwrap();
        set(&scratch.root(), OrderKind::SshKey, Rule::Forbid).unwrap();
        for kind in carried() {
            let held = BEFORE_FEATURES.contains(&kind) && kind != OrderKind::SshKey;
            let want = if held { Rule::Allow } else { Rule::Forbid };
            assert_eq!(read(&scratch.root()).rules.rule(kind), want, "{kind:?}");
        }
    }

    // spec: AG-442
    #[test]
    fn a_file_that_is_no_policy_or_cannot_be_changed_by_its_lines_stays_as_it_is() {
        let long = format!("{}\n", "#".repeat(16 * 1024 - 5));
        for bad in [
            "ssh-key = yes\n",
            "default = \"allow\"\nexec = \"forbid\"\n",
            "\"ssh\\u002dkey\" = \"allow\"\n",
            "ssh-key = \"\"\"\nallow\"\"\"\n",
            &long,
        ] {
            let scratch = Scratch::new();
            scratch.put(PATH, bad);
            assert!(set(&scratch.root(), OrderKind::SshKey, Rule::Forbid).is_err(), "{bad}");
            assert_eq!(text(&scratch), bad);
        }
        let scratch = Scratch::new();
        assert!(matches!(set(&scratch.root(), OrderKind::SshKey, Rule::Forbid), Err(EditError::Failed(_))));
    }

    // spec: AG-442
    #[test]
    fn a_crash_at_any_step_of_a_change_leaves_the_former_policy_or_the_new_one() {
        let scratch = Scratch::new();
        scratch.put(PATH, &default_text());
        let armed = record(scratch.root().path());
        set(&scratch.root(), OrderKind::SshKey, Rule::Forbid).unwrap();
        let (steps, after) = (armed.steps().len(), text(&scratch));
        drop(armed);
        assert!(steps > 5 && after != default_text());
        for nth in 0..steps {
            let scratch = Scratch::new();
            scratch.put(PATH, &default_text());
            let armed = crash_at(scratch.root().path(), nth);
            assert!(set(&scratch.root(), OrderKind::SshKey, Rule::Forbid).is_err(), "{nth}");
            drop(armed);
            assert!([default_text(), after.clone()].contains(&text(&scratch)), "{nth}");
            set(&scratch.root(), OrderKind::SshKey, Rule::Forbid).unwrap();
            assert_eq!(text(&scratch), after, "{nth}");
        }
    }
}
