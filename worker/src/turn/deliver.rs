//! How answers leave. Their place is shared with the controller: what lies in the way of one holds up no other, and does
//! not end the worker. A disk that fails does.

use lucia_durable::{FileName, PrivateDir, WriteError};

use super::error::TurnError;
use crate::chain;
use crate::queue::ANSWER_MODE;

/// Answers that could not leave and are named in one turn.
const LEFT_MAX: usize = 8;

/// Puts answers where the controller takes them; adds to `left` what could not be put there.
pub(super) fn deliver(
    dir: &PrivateDir,
    answers: &[(FileName, Vec<u8>)],
    left: &mut Vec<String>,
) -> Result<(), TurnError> {
    match dir.replace_all(answers, ANSWER_MODE) {
        Err(error) if error.is_in_the_way() => {}
        other => return other.map_err(TurnError::Write),
    }
    for (name, bytes) in answers {
        report(dir.replace(name, bytes, ANSWER_MODE), left)?;
    }
    Ok(())
}

/// Takes an answer away again.
pub(super) fn withdraw(dir: &PrivateDir, name: &FileName, left: &mut Vec<String>) -> Result<(), TurnError> {
    report(dir.remove(name).map(drop), left)
}

fn report(written: Result<(), WriteError>, left: &mut Vec<String>) -> Result<(), TurnError> {
    match written {
        // The controller can make up as many as it likes; the first ones say what is wrong.
        Err(error) if error.is_in_the_way() => {
            if left.len() < LEFT_MAX {
                left.push(chain(&error));
            }
            Ok(())
        }
        other => other.map_err(TurnError::Write),
    }
}
