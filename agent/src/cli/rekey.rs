//! `rekey`: a new key on a person's word, typed or given as `--yes`.

use std::io::{BufRead, IsTerminal as _};

use lucia_daemon::exit::{Exit, USAGE};
use lucia_daemon::process::protect;
use lucia_durable::DirError;
use lucia_proto::base::ids::NodeId;

use crate::host::chain;
use crate::host::root::Root;
use crate::host::state::{State, StateError};
use crate::host::status::{Doing, Status, StatusFile};
use crate::identity::key::KeyError;
use crate::identity::rekey::{self, Former, Rekeyed};

/// Another verb of the agent runs.
const IN_USE: u8 = 40;
/// The person said something else.
const NOT_CONFIRMED: u8 = 41;
/// There is no key to replace.
const NO_KEY: u8 = 42;

pub(super) fn run(root: &Root, yes: bool) -> Result<(), Exit> {
    protect()?;
    let done = replace(root, |former| if yes { Ok(()) } else { ask_on_terminal(former) })?;
    let Rekeyed { former, aside, fingerprint } = done;
    let kept = aside.map_or_else(
        || "The former key was gone".to_owned(),
        |aside| {
            format!("The former key is kept in {}; destroy it once nobody needs it", root.state().join(aside).display())
        },
    );
    let of = former.map_or_else(String::new, |former| format!(" (it was the key of node {former})"));
    let [first, second] = fingerprint.rows();
    let text = format!(
        "{kept}{of}.\nThis machine has a new key, fingerprint\n  {first}\n  {second}\nNext: lucia-node-agent discover, approve \
         it, lucia-node-agent wait-install, lucia-node-agent rekey --finish"
    );
    super::show::print(&text);
    Ok(())
}

/// Everything but the words: `confirm` is asked with what goes.
fn replace(root: &Root, confirm: impl FnOnce(&Former) -> Result<(), Exit>) -> Result<Rekeyed, Exit> {
    if let Err(StateError::Dir(error @ DirError::Missing { .. })) = State::open(root) {
        return Err(Exit::said(NO_KEY, format!("there is no key to replace: {}", chain(&error))));
    }
    let mut state = State::hold(root, "rekey").map_err(|error| match &error {
        StateError::Lease(_) => {
            Exit::said(IN_USE, format!("{}; stop it first: systemctl stop lucia-node-agent", chain(&error)))
        }
        _ => Exit::from(error),
    })?;
    let former = rekey::former(&state).map_err(|error| match &error {
        KeyError::Removed | KeyError::None => Exit::with(NO_KEY, &error),
        _ => Exit::from(error),
    })?;
    confirm(&former)?;
    let done = rekey::rekey(&mut state)?;
    let status = Status {
        doing: Doing::Rekeyed,
        node_id: Some(done.fingerprint.node_id()),
        verification_code: Some(done.fingerprint.verification_code()),
        ..Status::default()
    };
    StatusFile::new(root).write(&state, &status);
    Ok(done)
}

fn ask_on_terminal(former: &Former) -> Result<(), Exit> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Exit::said(USAGE, "rekey asks, and there is no terminal to ask on: add --yes"));
    }
    let word = word(former);
    let node = former.node_id.as_ref().map_or_else(|| "the node it was".to_owned(), |id| format!("node {id}"));
    let key = if former.is_lost() {
        "The former key is gone; a copy of it in a backup is worth more."
    } else {
        "The former key is kept aside."
    };
    eprint!(
        "This makes a new key. This machine is then no longer {node}: its certificate is removed, and it must be discovered \
         and approved again. {key}\nType {word} to go on: "
    );
    confirmed(word, &mut stdin.lock())
}

/// What is typed: the node that goes, where it is known.
fn word(former: &Former) -> &str {
    former.node_id.as_ref().map_or("rekey", NodeId::as_str)
}

/// Whether the next line is this word.
fn confirmed(word: &str, input: &mut impl BufRead) -> Result<(), Exit> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    if line.trim_end_matches(['\r', '\n']) == word {
        Ok(())
    } else {
        Err(Exit::said(NOT_CONFIRMED, "not confirmed, nothing was done"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;
    use crate::host::state::StateFile;
    use crate::identity::key;

    // spec: AG-45
    #[test]
    fn rekey_refuses_while_another_verb_runs_without_a_key_and_without_the_word() {
        let scratch = Scratch::new();
        let root = scratch.root();
        let code = |answer: Result<Rekeyed, Exit>| answer.map(drop).map_err(|exit| exit.code);
        assert_eq!(code(replace(&root, |_| Ok(()))), Err(NO_KEY));
        assert!(!root.state().exists(), "nothing was made");
        let mut state = State::hold(&root, "managed-run").unwrap();
        assert_eq!(code(replace(&root, |_| unreachable!())), Err(IN_USE));
        let former = key::load_or_make(&mut state).unwrap().public().fingerprint().node_id();
        let before = state.read(StateFile::Key).unwrap();
        assert_eq!(code(replace(&root, |_| Ok(()))), Err(IN_USE));
        drop(state);
        for typed in ["", "yes\n", "0123456789abcdef0123456789abcdef\n"] {
            let answer = replace(&root, |former| confirmed(word(former), &mut typed.as_bytes()));
            assert_eq!(code(answer), Err(NOT_CONFIRMED), "{typed:?}");
        }
        assert_eq!(State::open(&root).unwrap().read(StateFile::Key).unwrap(), before);
        let done = replace(&root, |asked| {
            assert_eq!(asked.node_id.as_ref(), Some(&former));
            confirmed(word(asked), &mut format!("{former}\n").as_bytes())
        });
        assert_eq!(done.unwrap().former, Some(former));
        let told = crate::host::status::read(&root).unwrap().unwrap();
        assert!(told.line().contains("rekey --finish"), "{}", told.line());
    }

    // spec: AO-100
    #[test]
    fn after_an_owner_removed_the_identity_rekey_says_so_and_that_discover_begins_anew() {
        let scratch = Scratch::new();
        let root = scratch.root();
        let mut state = State::hold(&root, "test").unwrap();
        let said = |state: State| {
            drop(state);
            let refused = replace(&root, |_| unreachable!()).unwrap_err();
            assert_eq!(refused.code, NO_KEY);
            assert!(matches!(State::open(&root).unwrap().read(StateFile::Key), Ok(None)), "no key was made");
            refused.message
        };
        // A directory that never had a key has lost none.
        assert!(matches!(key::load(&state), Err(KeyError::None)));
        let none = said(state);
        state = State::hold(&root, "test").unwrap();
        StatusFile::new(&root).write(&state, &Status { doing: Doing::Removed, ..Status::default() });
        assert!(matches!(key::load(&state), Err(KeyError::Removed)));
        let removed = said(state);
        assert_ne!(none, removed);
        for text in [none, removed] {
            assert!(text.contains("lucia-node-agent discover") && !text.contains("backup"), "{text}");
        }
        // A key that went otherwise is a loss, whatever the status says: a person's word makes another.
        state = State::hold(&root, "test").unwrap();
        state.replace(StateFile::Installed, b"{}").unwrap();
        drop(state);
        let done = replace(&root, |former| {
            assert!(former.is_lost() && former.node_id.is_none());
            confirmed(word(former), &mut "rekey\n".as_bytes())
        });
        assert_eq!(done.unwrap().aside, None);
    }
}
