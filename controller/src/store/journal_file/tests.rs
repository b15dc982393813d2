//! A crash at each step of the first start and of a change.

use super::*;
use crate::parts::tests::bench::Scratch;
use lucia_durable::DirRules;
use lucia_durable::crash_point::{crash_at, record};

fn open(scratch: &Scratch) -> Result<(JournalFile, Journal), JournalFileError> {
    JournalFile::open(PrivateDir::open(scratch.path(), DirRules::private()).unwrap())
}

fn bytes(generation: u64) -> Vec<u8> {
    let mut journal = Journal::empty();
    journal.generation = generation;
    journal.to_bytes().unwrap()
}

// spec: JO-40
#[test]
fn f_2_a_first_start_cut_short_anywhere_is_made_good_by_the_next() {
    let steps = {
        let scratch = Scratch::new();
        let plan = record(scratch.path());
        open(&scratch).unwrap();
        plan.steps().len()
    };
    assert!(steps > 5, "{steps}");
    for at in 0..steps {
        let scratch = Scratch::new();
        let plan = crash_at(scratch.path(), at);
        assert!(open(&scratch).is_err(), "step {at}");
        drop(plan);
        let (file, journal) = open(&scratch).unwrap_or_else(|error| panic!("step {at}: {error:?}"));
        assert_eq!(journal, Journal::empty());
        drop(file);
        open(&scratch).unwrap();
    }
}

// spec: JO-41
#[test]
fn f_2_a_change_cut_short_anywhere_is_there_or_not() {
    let steps = {
        let scratch = Scratch::new();
        let (file, _) = open(&scratch).unwrap();
        let plan = record(scratch.path());
        file.write(&bytes(1), 1).unwrap();
        plan.steps().len()
    };
    // At the last number nothing is cut short.
    for at in 0..=steps {
        let scratch = Scratch::new();
        let (file, _) = open(&scratch).unwrap();
        let plan = crash_at(scratch.path(), at);
        let answer = file.write(&bytes(1), 1);
        assert!(at < steps || answer.is_ok());
        drop((plan, file));
        let (_, journal) = open(&scratch).unwrap();
        assert!(journal.generation == 1 || answer.is_err(), "step {at}: acknowledged and lost");
    }
}

// spec: JO-12
#[test]
fn what_came_from_elsewhere_is_refused_at_every_start() {
    for foreign in ["state.json", "state.json.1"] {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join(foreign), bytes(7)).unwrap();
        // systemd starts it again after two seconds, and again.
        for start in 0..3 {
            let refused = open(&scratch).map(drop);
            let right = match foreign {
                "state.json" => matches!(refused, Err(JournalFileError::Foreign { .. })),
                _ => matches!(refused, Err(JournalFileError::NotEmpty { .. })),
            };
            assert!(right, "{foreign}, start {start}: {refused:?}");
        }
    }
}
