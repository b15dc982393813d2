//! `make install`: everything lands where the units look for it, and a configuration that is there stays.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::path::Path;

use lucia_qualification::program::Program;
use lucia_qualification::skip::workspace;

fn install(binaries: &Path, destination: &Path) {
    let output = Program::Built(workspace().join("qualification/install.sh"))
        .command()
        .args([binaries, destination, Path::new("/usr/local")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

// spec: SD-15, SD-94
#[test]
fn install_lays_what_the_units_name_and_keeps_configurations() {
    let scratch = workspace().join(format!("target/install-test-{}", std::process::id()));
    let (binaries, destination) = (scratch.join("release"), scratch.join("dest"));
    fs::create_dir_all(&binaries).unwrap();
    for program in ["lucia-node-agent", "lucia-controller", "lucia-enrollment-worker", "luciactl"] {
        let page =
            format!("#!/bin/sh\nif [ \"$1\" = man ]; then echo page >\"$3/{program}.8\"; else echo \"$1 $2\"; fi\n");
        fs::write(binaries.join(program), page).unwrap();
    }
    let ctl = "#!/bin/sh\nif [ \"$1\" = man ]; then echo page >\"$3/luciactl.1\"; else echo \"$2\"; fi\n";
    fs::write(binaries.join("luciactl"), ctl).unwrap();
    install(&binaries, &destination);
    let policy = destination.join("etc/lucia/agent-policy.toml");
    assert_eq!(fs::read_to_string(&policy).unwrap(), "policy default\n");
    fs::write(destination.join("etc/lucia/agent.toml"), "mine").unwrap();
    fs::write(&policy, "mine").unwrap();
    install(&binaries, &destination);

    assert_eq!(fs::read_to_string(&policy).unwrap(), "mine");
    assert_eq!(fs::read_to_string(destination.join("etc/lucia/agent.toml")).unwrap(), "mine");
    for part in ["controller", "worker"] {
        let shipped = fs::read(workspace().join(part).join(format!("{part}.toml"))).unwrap();
        assert_eq!(fs::read(destination.join(format!("etc/lucia/{part}.toml"))).unwrap(), shipped);
    }
    assert!(destination.join("usr/local/bin/luciactl").exists());
    let share = destination.join("usr/local/share");
    assert_eq!(fs::read_to_string(share.join("man/man1/luciactl.1")).unwrap(), "page\n");
    assert_eq!(fs::read_to_string(share.join("bash-completion/completions/luciactl")).unwrap(), "bash\n");
    assert_eq!(fs::read_to_string(share.join("zsh/vendor-completions/_luciactl")).unwrap(), "zsh\n");
    assert_eq!(fs::read_to_string(share.join("fish/vendor_completions.d/luciactl.fish")).unwrap(), "fish\n");
    assert!(destination.join("usr/lib/sysusers.d/lucia.conf").exists());
    assert!(destination.join("usr/lib/tmpfiles.d/lucia.conf").exists());
    for unit in ["lucia-node-agent", "lucia-controller", "lucia-enrollment-worker"] {
        let text = fs::read_to_string(destination.join(format!("usr/lib/systemd/system/{unit}.service"))).unwrap();
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
        let program = start.split(' ').next().unwrap();
        assert!(destination.join(program).exists(), "{unit}: /{program}");
        let documents = text.lines().find_map(|line| line.strip_prefix("Documentation=man:")).unwrap();
        let (name, section) = documents.trim_end_matches(')').split_once('(').unwrap();
        let page = share.join(format!("man/man{section}/{name}.{section}"));
        assert_eq!(fs::read_to_string(page).unwrap(), "page\n", "{unit} names {documents}");
        let config = start.split_once("--config /").map(|(_, config)| config);
        assert!(config.is_none_or(|config| destination.join(config).exists()), "{unit}: {config:?}");
    }
    let of_a_user = destination.join("usr/lib/systemd/user/lucia-enrollment-worker.service");
    assert!(fs::read_to_string(of_a_user).unwrap().contains("\nExecStart=/usr/local/bin/lucia-enrollment-worker run "));
    fs::remove_dir_all(scratch).unwrap();
}
