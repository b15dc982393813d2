//! `rekey`: a new key on a person's word, typed or given as `--yes`.

use std::io::{BufRead, IsTerminal as _, Write as _};

use lucia_durable::DirError;
use lucia_proto::ids::NodeId;

use super::exit::{Exit, USAGE};
use crate::host::root::Root;
use crate::host::state::{State, StateError};
use crate::host::status::{Doing, Status, StatusFile};
use crate::host::{chain, secrets};
use crate::identity::key::{self, KeyError};
use crate::identity::rekey::{self, Rekeyed};

/// Another verb of the agent runs.
const IN_USE: u8 = 40;
/// The person said something else.
const NOT_CONFIRMED: u8 = 41;
/// There is no key to replace.
const NO_KEY: u8 = 42;

pub(super) fn run(root: &Root, yes: bool) -> Result<(), Exit> {
    secrets::protect().map_err(Exit::failed)?;
    let done = replace(root, |former| if yes { Ok(()) } else { ask_on_terminal(former) })?;
    let Rekeyed { former, aside, fingerprint } = done;
    let [first, second] = fingerprint.rows();
    let text = format!(
        "The key of node {former} is kept in {}; destroy it once nobody needs it.\nThis machine has a new key, \
         fingerprint\n  {first}\n  {second}\nNext: lucia-node-agent discover, approve it, lucia-node-agent wait-install, \
         lucia-node-agent rekey --finish",
        root.state().join(aside).display()
    );
    // A closed pipe is how a reader says that it has enough.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}

/// Everything but the words: `confirm` is asked with the node whose key goes.
fn replace(root: &Root, confirm: impl FnOnce(&NodeId) -> Result<(), Exit>) -> Result<Rekeyed, Exit> {
    if let Err(StateError::Dir(error @ DirError::Missing { .. })) = State::open(root) {
        return Err(Exit::said(NO_KEY, format!("there is no key to replace: {}", chain(&error))));
    }
    let mut state = State::hold(root, "rekey").map_err(|error| match &error {
        StateError::Lease(_) => {
            Exit::said(IN_USE, format!("{}; stop it first: systemctl stop lucia-node-agent", chain(&error)))
        }
        _ => Exit::failed(error),
    })?;
    let key = key::load(&state).map_err(|error| match &error {
        KeyError::Lost { .. } | KeyError::Removed | KeyError::None => Exit::with(NO_KEY, &error),
        _ => Exit::failed(error),
    })?;
    confirm(&key.public().fingerprint().node_id())?;
    let done = rekey::rekey(&mut state).map_err(Exit::failed)?;
    let status = Status {
        doing: Doing::Rekeyed,
        node_id: Some(done.fingerprint.node_id()),
        verification_code: Some(done.fingerprint.verification_code()),
        ..Status::default()
    };
    StatusFile::new(root).write(&state, &status);
    Ok(done)
}

fn ask_on_terminal(former: &NodeId) -> Result<(), Exit> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Exit::said(USAGE, "rekey asks, and there is no terminal to ask on: add --yes"));
    }
    eprint!(
        "This makes a new key. This machine is node {former} no longer: it has to be discovered and approved anew, and \
         its certificate is removed. The former key is kept aside.\nType {former} to go on: "
    );
    confirmed(former, &mut stdin.lock())
}

/// Whether the next line is the node id.
fn confirmed(former: &NodeId, input: &mut impl BufRead) -> Result<(), Exit> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(Exit::failed)?;
    if line.trim_end_matches(['\r', '\n']) == former.as_str() {
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
            let answer = replace(&root, |former| confirmed(former, &mut typed.as_bytes()));
            assert_eq!(code(answer), Err(NOT_CONFIRMED), "{typed:?}");
        }
        assert_eq!(State::open(&root).unwrap().read(StateFile::Key).unwrap(), before);
        let done = replace(&root, |asked| {
            assert_eq!(*asked, former);
            confirmed(asked, &mut format!("{former}\n").as_bytes())
        });
        assert_eq!(done.unwrap().former, former);
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
        let text = said(state);
        assert!(text.contains("no key yet") && !text.contains("backup"), "{text}");
        state = State::hold(&root, "test").unwrap();
        StatusFile::new(&root).write(&state, &Status { doing: Doing::Removed, ..Status::default() });
        let text = said(state);
        assert!(text.contains("an owner removed") && text.contains("lucia-node-agent discover"), "{text}");
        assert!(!text.contains("backup"), "{text}");
        // A key that went otherwise is a loss, whatever the status says.
        state = State::hold(&root, "test").unwrap();
        state.replace(StateFile::Installed, b"{}").unwrap();
        let text = said(state);
        assert!(text.contains("is gone") && text.contains("backup"), "{text}");
    }
}
