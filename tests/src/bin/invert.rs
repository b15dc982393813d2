//! `make invert`: undoes one check after the other in a copy of the tree, and expects the test named beside it to
//! fail. Slow, so no part of `make test`.
//!
//! `invert DIR [PART...]`, in the project's root: DIR keeps the copy and its build between runs; with PARTs, only entries whose id, file,
//! crate or test holds one of them. `sample=150:7` as a PART takes 150 of them by chance, the same ones for the same seed (7).
//! Exit 0 when every inversion was caught.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use lucia_tests::inversions::{self, Inversion};
use lucia_tests::sim::Failure;
use sha2::Digest as _;
use tokio::time::Instant;

/// Longest time of one build and test; whatever hangs is ended and did not fail.
const LIMIT_SECONDS: &str = "600";

/// What became of an inversion.
enum Outcome {
    Caught,
    Survived(&'static str),
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "invert: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<bool, Failure> {
    let root = std::env::current_dir()?;
    let usage = "usage: invert DIR [PART...]";
    // A word that was meant as an option is no directory.
    let (dir, parts) = arguments.split_first().filter(|(dir, _)| !dir.starts_with('-')).ok_or(usage)?;
    let (samples, parts): (Vec<&String>, Vec<&String>) = parts.iter().partition(|part| part.starts_with("sample="));
    let mut checks = inversions::read(&root)?.checks;
    let wanted = |check: &Inversion| {
        parts.is_empty()
            || parts.iter().any(|part| {
                [&check.id, &check.file, &check.package, &check.test].iter().any(|text| text.contains(part.as_str()))
            })
    };
    checks.retain(wanted);
    for sample in samples {
        let numbers = sample.trim_start_matches("sample=").split_once(':').ok_or(usage)?;
        let (count, seed): (usize, u64) = (numbers.0.parse()?, numbers.1.parse()?);
        // The hash of seed and text is the order of the draw.
        checks.sort_by_cached_key(|check| sha2::Sha256::digest(format!("{seed} {check:?}")));
        checks.truncate(count);
    }
    // One crate after the other, so that each build is of one crate.
    checks.sort_by(|one, two| (&one.package, &one.binary, &one.file).cmp(&(&two.package, &two.binary, &two.file)));
    let dir = std::path::absolute(dir)?;
    let copy = Copy { tree: dir.join("tree"), target: dir.join("target") };
    copy.refresh(&root)?;
    copy.all_pass(&checks)?;

    let (mut caught, mut survived) = (0, 0);
    for check in &checks {
        let begun = Instant::now();
        let (word, why) = match copy.invert(check)? {
            Outcome::Caught => {
                caught += 1;
                ("caught  ", "")
            }
            Outcome::Survived(why) => {
                survived += 1;
                ("SURVIVED", why)
            }
        };
        let gist = check.original.lines().next().unwrap_or_default().trim();
        let seconds = begun.elapsed().as_secs();
        say(&format!("{word} {} {} `{gist}` {} ({seconds} s){why}", check.id, check.file, check.test))?;
    }
    say(&format!("inverted: {caught} caught, {survived} survived"))?;
    Ok(survived == 0)
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// The copy of the tree, and its build.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes the copy what the tree is, as git sees it. What is the same already is left alone, with its build.
    fn refresh(&self, root: &Path) -> Result<(), Failure> {
        let listed =
            command("git", root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
        if !listed.status.success() {
            return Err("git cannot list the files of this tree; run it in a git checkout".into());
        }
        let listed = String::from_utf8(listed.stdout)?;
        // Links stay links, whatever they lead to: the tests' file systems have some that lead nowhere.
        let files: BTreeSet<&str> =
            listed.split('\0').filter(|path| root.join(path).symlink_metadata().is_ok_and(|it| !it.is_dir())).collect();
        for file in &files {
            let (from, to) = (root.join(file), self.tree.join(file));
            if let Ok(goal) = fs::read_link(&from) {
                if fs::read_link(&to).ok().as_ref() != Some(&goal) {
                    fs::create_dir_all(to.parent().unwrap_or(&self.tree))?;
                    let _ = fs::remove_file(&to);
                    std::os::unix::fs::symlink(goal, &to)?;
                }
            } else if fs::read(&to).ok() != Some(fs::read(&from)?) {
                fs::create_dir_all(to.parent().unwrap_or(&self.tree))?;
                // Its time is now, so cargo sees that it changed.
                fs::copy(&from, &to)?;
            }
        }
        self.remove_others(&self.tree, &files)
    }

    fn remove_others(&self, dir: &Path, files: &BTreeSet<&str>) -> Result<(), Failure> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                if !path.ends_with(".git") {
                    self.remove_others(&path, files)?;
                }
            } else if !path.strip_prefix(&self.tree)?.to_str().is_some_and(|name| files.contains(name)) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Every test of the table has to pass first, or its failure would mean nothing.
    fn all_pass(&self, checks: &[Inversion]) -> Result<(), Failure> {
        let mut tests: BTreeMap<(&str, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
        for check in checks {
            tests.entry((&check.package, check.binary.as_deref())).or_default().insert(&check.test);
        }
        for ((package, binary), names) in tests {
            let output = self.test(package, binary, &names.iter().copied().collect::<Vec<_>>())?;
            let said = String::from_utf8_lossy(&output.stdout);
            let ran = format!("running {} test", names.len());
            if !output.status.success() || !said.contains(&ran) {
                let errors = String::from_utf8_lossy(&output.stderr);
                return Err(format!(
                    "{package}: {} tests of the table have to pass without any inversion:\n{said}\n{errors}",
                    names.len()
                )
                .into());
            }
        }
        Ok(())
    }

    fn invert(&self, check: &Inversion) -> Result<Outcome, Failure> {
        let path = self.tree.join(&check.file);
        let text = fs::read_to_string(&path)?;
        if text.matches(&check.original).count() != 1 {
            return Ok(Outcome::Survived(": its text does not stand in the file once; bring the table up to date"));
        }
        fs::write(&path, text.replacen(&check.original, &check.replaced, 1))?;
        let output = self.test(&check.package, check.binary.as_deref(), &[&check.test]);
        fs::write(&path, text)?;
        let output = output?;
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(if String::from_utf8_lossy(&output.stderr).contains("could not compile") {
            Outcome::Survived(": it does not compile so")
        } else if output.status.code() == Some(124) {
            Outcome::Survived(": its test hangs instead of failing")
        } else if !said.contains("running 1 test\n") {
            Outcome::Survived(": its test did not run, or others ran as well")
        } else if output.status.success() {
            Outcome::Survived("")
        } else {
            Outcome::Caught
        })
    }

    fn test(&self, package: &str, binary: Option<&str>, names: &[&str]) -> io::Result<Output> {
        if package == "lucia-tests" {
            // The stories start the built programs, which must be of the tree as it is now.
            let built = self.cargo(&["build", "--quiet", "--workspace", "--bins"]).output()?;
            if !built.status.success() {
                return Ok(built);
            }
        }
        let mut cargo = self.cargo(&["test", "--quiet", "--package", package]);
        match binary {
            // The one crate of ours without a library.
            None if package == "luciactl" => cargo.arg("--bins"),
            None => cargo.arg("--lib"),
            Some(binary) => cargo.args(["--test", binary]),
        };
        cargo.arg("--").args(names).output()
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = command("timeout", &self.tree);
        cargo.args([LIMIT_SECONDS, "cargo"]).args(arguments).stdin(Stdio::null());
        cargo.env("CARGO_TARGET_DIR", &self.target).env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_PROFILE_TEST_DEBUG", "0");
        cargo
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool of the tree's own that has to run cargo; nothing here is shipped"
)]
fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir);
    command
}
