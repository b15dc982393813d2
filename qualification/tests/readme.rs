//! Every command of the README and of docs exists as it is written: its program, its verb and its options.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::path::{Path, PathBuf};

use lucia_qualification::program::Program;

/// Programs that a Debian host brings.
const HOST: &[&str] = &["curl", "install", "openssl", "shred", "systemctl", "systemd-sysusers", "systemd-tmpfiles"];
/// Programs of ours.
const OURS: &[&str] = &["lucia-controller", "lucia-enrollment-worker", "lucia-node-agent", "luciactl"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Where `cargo build --workspace --bins` put the programs.
fn built(program: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_lucia-qualification")).with_file_name(program)
}

/// The lines of every block of shell.
fn commands() -> Vec<String> {
    let mut files = vec![root().join("README.md")];
    files.extend(std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

fn help(program: &str, verb: &[&str]) -> String {
    let path = built(program);
    assert!(path.is_file(), "not built: {}", path.display());
    let output = Program::Built(path).command().args(verb).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} {} --help: {}", verb.join(" "), output.status);
    String::from_utf8(output.stdout).unwrap()
}

// spec: SD-16
#[test]
fn every_command_of_the_documents_exists() {
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let parts = |line: &String| line.split('#').next().unwrap().split("&&").map(str::to_owned).collect::<Vec<_>>();
    for line in commands.iter().flat_map(parts) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = match words.as_slice() {
            ["runuser", "-u", "lucia-worker" | "lucia-controller", "--", rest @ ..] => rest,
            all => all,
        };
        match words {
            [] => {}
            ["make", target, ..] => {
                assert!(makefile.contains(&format!("\n{target}: ")), "`{line}`: {target}");
            }
            [program, ..] if HOST.contains(program) => {}
            [program, rest @ ..] if OURS.contains(program) => {
                let sub = rest.iter().take_while(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
                let verb: Vec<&str> = sub.copied().take_while(|word| !word.starts_with("--")).collect();
                assert!(!verb.is_empty(), "`{line}`");
                let help = help(program, &verb);
                for option in rest.iter().filter(|word| word.starts_with("--")) {
                    assert!(help.contains(option), "`{line}`: {program} {} has no {option}", verb.join(" "));
                }
            }
            other => panic!("`{line}` starts with {:?}, which no test knows", other.first()),
        }
    }
}
