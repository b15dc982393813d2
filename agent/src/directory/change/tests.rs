use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::rc::Rc;

use lucia_durable::crash_point::crash_at;

use super::*;
use crate::directory::ldap::tests::{FakeDirectory, reader};
use crate::directory::sssd;
use crate::host::etc::EtcDir;
use crate::host::scratch::Scratch;
use crate::units::fake::{FakeQuestion, FakeRunner, Said};

const SHOWN: &str = "port 22\n\
authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/lucia-authorized-keys/%u\nusepam yes\n";
const ALL: [&str; 6] =
    ["sshd-show", "sshd-check", "sshd-show", "restart sssd.service", "getent-group", "reload ssh.service"];

/// A node's disk, on which nothing of a directory was ever set up.
struct Node {
    scratch: Scratch,
    state: State,
}

/// Files as they are rendered, told apart by a password.
fn wanted(password: &str) -> Wanted {
    Wanted {
        sssd: Some(Zeroizing::new(format!("{}\n\n[sssd]\nldap_default_authtok = {password}\n", sssd::MARK))),
        sshd: Some(sshd::DROP_IN.to_owned()),
    }
}

fn well(asked: &FakeQuestion) -> Said {
    match asked {
        FakeQuestion::Run(Program::ShowSshd) => Said::Ends(0, SHOWN),
        FakeQuestion::Run(Program::LookUpGroup(_)) => Said::Ends(0, "lucia-owners:*:20000:alice\n"),
        FakeQuestion::Run(Program::CheckSshd) | FakeQuestion::ServiceAct(_) => Said::Ends(0, ""),
        asked => panic!("{asked:?} was not scripted"),
    }
}

impl Node {
    fn new() -> Self {
        let scratch = Scratch::new();
        for dir in EtcDir::ALL {
            fs::create_dir_all(scratch.root().join(&dir.path())).unwrap();
        }
        let state = State::hold(&scratch.root(), "test").unwrap();
        Self { scratch, state }
    }

    /// On which this worked before.
    async fn with(password: &str) -> Self {
        let node = Self::new();
        assert!(node.apply(&FakeRunner::new(well), &wanted(password)).await.unwrap());
        node
    }

    async fn apply(&self, runner: &FakeRunner, wanted: &Wanted) -> Result<bool, ChangeError> {
        self.apply_at(&FakeDirectory(|_: &Reader| Ok(())), runner, wanted).await
    }

    async fn apply_at(
        &self,
        directory: &impl Directory,
        runner: &FakeRunner,
        wanted: &Wanted,
    ) -> Result<bool, ChangeError> {
        let reader = wanted.sssd.is_some().then(|| reader("any"));
        let root = self.scratch.root();
        Ground { root: &root, state: &self.state, runner, directory }.apply(wanted, reader.as_ref()).await
    }

    fn path(&self, file: SetUpFile) -> std::path::PathBuf {
        self.scratch.root().join(&file.path())
    }

    /// Both files' texts.
    fn texts(&self) -> [Option<String>; 2] {
        SetUpFile::ALL.map(|file| fs::read_to_string(self.path(file)).ok())
    }
}

fn texts(wanted: &Wanted) -> [Option<String>; 2] {
    SetUpFile::ALL.map(|file| wanted.text(file).map(str::to_owned))
}

// spec: DI-4
#[tokio::test(start_paused = true)]
async fn a_change_is_made_proven_and_not_made_again() {
    let node = Node::new();
    let runner = FakeRunner::new(well);
    assert!(node.apply(&runner, &wanted("one")).await.unwrap());
    assert_eq!(runner.take(), ALL);
    assert_eq!(node.texts(), texts(&wanted("one")));
    for (file, mode) in [(SetUpFile::Sssd, 0o600), (SetUpFile::Sshd, 0o644)] {
        assert_eq!(fs::metadata(node.path(file)).unwrap().permissions().mode() & 0o7777, mode, "{file:?}");
    }
    assert_eq!(files::kept(&node.state), Some(wanted("one")));
    // The same once more: a question, and nothing else.
    assert!(!node.apply(&runner, &wanted("one")).await.unwrap());
    assert_eq!(runner.take(), ["sshd-show", "getent-group"]);
    // sssd gives its group a read bit; that is no change.
    fs::set_permissions(node.path(SetUpFile::Sssd), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(!node.apply(&runner, &wanted("one")).await.unwrap());
    // A new password is sssd's business alone.
    runner.take();
    assert!(node.apply(&runner, &wanted("two")).await.unwrap());
    assert_eq!(runner.take(), ["restart sssd.service", "getent-group"]);
    assert_eq!(node.texts(), texts(&wanted("two")));
    // Somebody edited the drop-in below its first line.
    let edited = format!("{}\nAuthorizedKeysFile none\n", sshd::MARK);
    fs::write(node.path(SetUpFile::Sshd), edited).unwrap();
    runner.take();
    assert!(node.apply(&runner, &wanted("two")).await.unwrap());
    assert_eq!(runner.take(), ["sshd-check", "sshd-show", "getent-group", "reload ssh.service"]);
    assert_eq!(node.texts(), texts(&wanted("two")));
}

/// threats.md D-8, D-9: which answer is wrong, what is asked until then, and on the way back; both for a node that never
/// had a directory and for one that had.
// spec: DI-5
#[tokio::test(start_paused = true)]
async fn a_failure_of_each_step_brings_back_what_was_there() {
    use ChangeError::{Chosen, Silent, Sshd, Unit};
    use UnitError::{Failed, Job};
    type IsWhy = fn(&ChangeError) -> bool;
    type Case = (&'static str, fn() -> Said, &'static [&'static str], &'static [&'static str], IsWhy);
    let is_away: IsWhy = |why| matches!(why, Unit(Failed(_)));
    let is_silent: IsWhy = |why| matches!(why, Silent { group, said } if group == "lucia-owners" && !said.is_empty());
    let cases: [Case; 10] = [
        (
            "sshd-check",
            || Said::Ends(255, "line 3: Bad option\r\n"),
            &ALL[..2],
            &[],
            |why| matches!(why, Sshd(said) if said == "line 3: Bad option"),
        ),
        ("sshd-check", || Said::Away, &ALL[..2], &[], is_away),
        (
            "sshd-show",
            || Said::Ends(0, "authorizedkeysfile none\n"),
            &ALL[..1],
            &[],
            |why| matches!(why, Chosen(value) if value == "none"),
        ),
        ("sshd-show", || Said::Ends(1, ""), &ALL[..1], &[], |why| matches!(why, Sshd(said) if !said.is_empty())),
        (
            "restart sssd.service",
            || Said::Ends(1, ""),
            &ALL[..4],
            &ALL[3..4],
            |why| matches!(why, Unit(Job { doing, .. }) if *doing == "restart sssd.service"),
        ),
        ("restart sssd.service", || Said::Away, &ALL[..4], &ALL[3..4], is_away),
        ("getent-group", || Said::Ends(2, ""), &ALL[..5], &ALL[3..4], is_silent),
        ("getent-group", || Said::Ends(0, "lucia-owners-old:*:1:\n"), &ALL[..5], &ALL[3..4], is_silent),
        ("getent-group", || Said::Away, &ALL[..5], &ALL[3..4], is_away),
        (
            "reload ssh.service",
            || Said::Ends(1, ""),
            &ALL,
            &ALL,
            |why| matches!(why, Unit(Job { doing, .. }) if *doing == "reload ssh.service"),
        ),
    ];
    for (step, answer, forth, back, is_why) in cases {
        for before in [None, Some("one")] {
            let node = match before {
                None => Node::new(),
                Some(password) => Node::with(password).await,
            };
            // Both files are to change.
            if before.is_some() {
                fs::remove_file(node.path(SetUpFile::Sshd)).unwrap();
            }
            let former = before.map(wanted).unwrap_or_default();
            let failed = Rc::new(Cell::new(false));
            let seen = Rc::clone(&failed);
            let runner = FakeRunner::new(move |asked| {
                let word = match asked {
                    FakeQuestion::Run(program) => program.invocation().word,
                    FakeQuestion::ServiceAct(act) => act.words(),
                };
                // A question is asked again, anything else is tried once.
                if word == step && (step == "getent-group" || !seen.replace(true)) { answer() } else { well(asked) }
            });
            let error = node.apply(&runner, &wanted("two")).await.unwrap_err();
            // Not `NotRestored`: all of it came back.
            assert!(is_why(&error), "{step}: {error:?}");
            assert!(!error.cure().is_empty() && !crate::host::chain(&error).contains('\n'));
            let mut asked = runner.take();
            asked.dedup();
            // With nothing to go by sshd is only checked.
            let back: Vec<_> = back.iter().filter(|word| **word != "getent-group").copied().collect();
            let mut expected: Vec<&str> = forth.iter().copied().chain(sorted_back(&back, before.is_some())).collect();
            expected.dedup();
            assert_eq!(asked, expected, "{step}");
            assert_eq!(node.texts(), texts(&former), "{step} {before:?}");
            assert_eq!(files::kept(&node.state), before.map(wanted), "{step}");
            // Cured: the next try succeeds.
            assert!(node.apply(&FakeRunner::new(well), &wanted("two")).await.unwrap(), "{step}");
            assert_eq!(node.texts(), texts(&wanted("two")));
        }
    }
}

/// On the way back sssd comes first, and sshd is told only of what it takes.
fn sorted_back<'a>(words: &[&'a str], had_drop_in: bool) -> Vec<&'a str> {
    let order = ["restart sssd.service", "sshd-check", "sshd-show", "reload ssh.service"];
    let words = order.iter().filter_map(|wanted| words.iter().find(|word| *word == wanted)).copied();
    words.filter(|word| had_drop_in || *word != "sshd-show").collect()
}

// spec: DI-5
#[tokio::test(start_paused = true)]
async fn what_cannot_be_brought_back_is_told() {
    let node = Node::with("one").await;
    let runner = FakeRunner::new(|asked| match asked {
        FakeQuestion::ServiceAct(ServiceAct::RestartSssd) => Said::Ends(1, ""),
        asked => well(asked),
    });
    let error = node.apply(&runner, &wanted("two")).await.unwrap_err();
    let ChangeError::NotRestored { why, cure, source } = &error else { panic!("{error:?}") };
    assert!(why.contains("restart sssd.service") && !cure.is_empty());
    assert!(matches!(**source, ChangeError::Unit(UnitError::Job { .. })), "{source:?}");
    assert_eq!(node.texts(), texts(&wanted("one")), "the files are back all the same");
}

// spec: DI-6
#[tokio::test(start_paused = true)]
async fn a_configuration_that_somebody_else_wrote_is_left_alone() {
    for file in SetUpFile::ALL {
        for text in ["[sssd]\ndomains = work\n", "", "# Written by hand\n", "\u{0}"] {
            let node = Node::new();
            fs::write(node.path(file), text).unwrap();
            fs::set_permissions(node.path(file), fs::Permissions::from_mode(0o600)).unwrap();
            let error = node.apply(&FakeRunner::nobody(), &wanted("one")).await.unwrap_err();
            assert!(matches!(error, ChangeError::Files(FilesError::Foreign { .. })), "{text:?}");
            assert!(error.cure().contains(&format!("mv {0} {0}.old", file.path())), "{}", error.cure());
            assert_eq!(fs::read_to_string(node.path(file)).unwrap(), text);
            // A fleet without a directory has no business with it either.
            assert!(!node.apply(&FakeRunner::nobody(), &Wanted::default()).await.unwrap());
            assert_eq!(fs::read_to_string(node.path(file)).unwrap(), text);
        }
    }
}

/// threats.md D-7: what lies where a file is to be written.
// spec: DI-7
#[tokio::test(start_paused = true)]
async fn links_and_other_things_in_a_files_place_are_refused() {
    type Lay = fn(&std::path::Path, &std::path::Path);
    let things: [(&str, Lay); 6] = [
        ("symlink", |at, outside| symlink(outside, at).unwrap()),
        ("dangling symlink", |at, _| symlink("/nowhere/at/all", at).unwrap()),
        ("hard link", |at, outside| fs::hard_link(outside, at).unwrap()),
        ("FIFO", |at, _| nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap()),
        ("directory", |at, _| fs::create_dir(at).unwrap()),
        ("writable by all", |at, _| {
            fs::write(at, "").unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ];
    for file in SetUpFile::ALL {
        for (what, lay) in things {
            let node = Node::new();
            let outside = node.scratch.root().join("outside");
            // The agent's own first line makes no difference.
            fs::write(&outside, format!("{}\n", sssd::MARK)).unwrap();
            lay(&node.path(file), &outside);
            let error = node.apply(&FakeRunner::nobody(), &wanted("one")).await.unwrap_err();
            assert!(matches!(error, ChangeError::Files(FilesError::Read { .. })), "{file:?} {what}: {error:?}");
            assert_eq!(fs::read_to_string(&outside).unwrap(), format!("{}\n", sssd::MARK), "{what}");
            assert!(node.path(file).symlink_metadata().is_ok(), "{what} is still there");
        }
    }
}

// spec: DI-8
#[tokio::test(start_paused = true)]
async fn a_fleet_that_has_no_directory_any_more_leaves_no_files() {
    let node = Node::with("one").await;
    let runner = FakeRunner::new(well);
    assert!(node.apply(&runner, &Wanted::default()).await.unwrap());
    assert_eq!(runner.take(), ["sshd-check", "restart sssd.service", "reload ssh.service"]);
    assert_eq!(node.texts(), [None, None]);
    assert!(!node.apply(&FakeRunner::nobody(), &Wanted::default()).await.unwrap());
    // Where the packages are missing there is nothing to remove.
    let bare = Node::new();
    fs::remove_dir_all(bare.scratch.root().join("etc/sssd")).unwrap();
    assert!(!bare.apply(&FakeRunner::nobody(), &Wanted::default()).await.unwrap());
    let error = bare.apply(&FakeRunner::nobody(), &wanted("one")).await.unwrap_err();
    assert!(error.cure().contains("sssd-ldap"), "{}", error.cure());
}

/// The agent dies at each of its steps in turn; the next start ends where it would have without.
// spec: DI-9
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_is_made_good_by_the_next_start() {
    for fails in [false, true] {
        for nth in 0.. {
            let node = Node::with("one").await;
            fs::remove_file(node.path(SetUpFile::Sshd)).unwrap();
            let script = move |asked: &FakeQuestion| match asked {
                FakeQuestion::Run(Program::LookUpGroup(_)) if fails => Said::Ends(2, ""),
                asked => well(asked),
            };
            let plan = crash_at(node.scratch.root().path(), nth);
            let ended = node.apply(&FakeRunner::new(script), &wanted("two")).await;
            let crashed = plan.crashed();
            drop(plan);
            // Whatever it died at, each file is whole: the one or the other.
            for (at, text) in node.texts().into_iter().enumerate() {
                let whole = [None, texts(&wanted("one"))[at].clone(), texts(&wanted("two"))[at].clone()];
                assert!(whole.contains(&text), "{crashed:?}: {text:?}");
            }
            let after = node.apply(&FakeRunner::new(script), &wanted("two")).await;
            assert_eq!(after.is_err(), fails, "{crashed:?}");
            let end = if fails { wanted("one") } else { wanted("two") };
            assert_eq!(node.texts(), texts(&end), "{crashed:?}");
            assert_eq!(files::kept(&node.state), Some(end));
            if crashed.is_none() {
                assert_eq!(ended.is_err(), fails);
                assert!(nth > 10, "only {nth} steps");
                break;
            }
        }
    }
}

/// sssd would answer from its cache; the directory's own word comes first, and nothing is changed without it.
// spec: DI-12
#[tokio::test(start_paused = true)]
async fn a_directory_that_refuses_the_reader_changes_nothing() {
    for before in [None, Some("one")] {
        let node = match before {
            None => Node::new(),
            Some(password) => Node::with(password).await,
        };
        for code in [49, 32] {
            let refuses = FakeDirectory(move |_: &Reader| match code {
                49 => Err(LdapError::Bind(code)),
                _ => Err(LdapError::Group(code)),
            });
            let error = node.apply_at(&refuses, &FakeRunner::nobody(), &wanted("two")).await.unwrap_err();
            let ChangeError::Directory(_, LdapError::Bind(told) | LdapError::Group(told)) = &error else {
                panic!("{error:?}")
            };
            assert!(*told == code && error.cure().contains("lucia-enrollment-worker status"), "{error:?}");
            assert_eq!(node.texts(), texts(&before.map(wanted).unwrap_or_default()));
        }
        // The same at a look where nothing is to be changed.
        let away = FakeDirectory(|_: &Reader| Err(LdapError::Timeout));
        let same = before.map_or_else(|| wanted("two"), wanted);
        assert!(node.apply_at(&away, &FakeRunner::nobody(), &same).await.is_err());
    }
}

// spec: DI-4
#[tokio::test(start_paused = true)]
async fn a_drop_in_that_comes_before_ours_later_is_told_of() {
    let node = Node::with("one").await;
    let runner = FakeRunner::new(|asked| match asked {
        FakeQuestion::Run(Program::ShowSshd) => Said::Ends(0, "authorizedkeysfile none\nusepam yes\n"),
        asked => well(asked),
    });
    let error = node.apply(&runner, &wanted("one")).await.unwrap_err();
    assert!(matches!(error, ChangeError::NotInForce));
    assert!(error.cure().contains("10-lucia.conf"), "{}", error.cure());
    assert_eq!((runner.take(), node.texts()), (vec!["sshd-show".to_owned()], texts(&wanted("one"))));
}

// spec: DI-13
#[tokio::test(start_paused = true)]
async fn an_sshd_that_asks_no_pam_gets_no_place_for_keys() {
    let node = Node::new();
    let runner = FakeRunner::new(|asked| match asked {
        FakeQuestion::Run(Program::ShowSshd) => Said::Says(SHOWN.replace("usepam yes", "usepam no")),
        asked => well(asked),
    });
    let error = node.apply(&runner, &wanted("one")).await.unwrap_err();
    assert!(matches!(error, ChangeError::NoPam), "{error}");
    assert_eq!((runner.take(), node.texts()), (ALL[..3].iter().map(ToString::to_string).collect(), [None, None]));
}
