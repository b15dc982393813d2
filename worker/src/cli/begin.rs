//! `init`.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use lucia_daemon::clock::now;
use lucia_daemon::exit::{self, Exit};
use lucia_proto::base::limits::CHAIN_PEM_MAX;
use zeroize::Zeroizing;

use super::at::{At, GivenFiles, say};
use super::hold::hold;
use super::user::become_owner;
use crate::config::{Config, DEFAULT_FILE, endpoint_names};
use crate::home::Home;
use crate::init::{self, Given};
use crate::retire::retire;

/// `init`, and the settings file with it when there is none and the names are given.
pub(super) fn begin(at: &At, names: &[String], given: &GivenFiles) -> Result<ExitCode, Exit> {
    let wanted = endpoint_names(names).map_err(Exit::config)?;
    if wanted.is_some() && !at.config.exists() {
        let list = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let text = DEFAULT_FILE.replace("#endpoint-names = []", &format!("endpoint-names = [{list}]"));
        // The settings hold nothing secret; that they can be used is checked next.
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&at.config)
            .and_then(|mut file| file.write_all(text.as_bytes()).and(Ok(file)))
            // Whatever root's umask is, the worker's user reads it.
            .and_then(|file| file.set_permissions(PermissionsExt::from_mode(0o644)))
            .map_err(|source| {
                Exit::said(
                    exit::CONFIG,
                    format!(
                        "cannot write {}: {source}; run `init` without --names, then edit the file",
                        at.config.display()
                    ),
                )
            })?;
        say(&format!("{}: written with these endpoint-names\n\n", at.config.display()));
    }
    let config = Config::load(&at.config).map_err(Exit::config)?;
    if wanted.is_some() && wanted != config.endpoint_names {
        return Err(Exit::said(
            exit::CONFIG,
            format!(
                "{} has other endpoint-names than --names; nothing was made: edit the file, then run `init` without --names",
                at.config.display()
            ),
        ));
    }
    let given = read_given(given)?;
    become_owner(&config)?;
    let made = match given {
        Some(given) => init::init_with(&config, &given, now()),
        None => init::init(&config, now()),
    };
    let made = made?;
    say(&init::next_steps(&made, &at.config));
    Ok(ExitCode::SUCCESS)
}

/// `retire-key`; gives what to print.
pub(super) fn retire_key(at: &At, root_key: &Path) -> Result<String, Exit> {
    let root_key = read(root_key)?;
    let config = at.enter()?;
    let home = Home::open(&config)?;
    // No command signs a roster meanwhile with the key that goes.
    let _held = hold(&home)?;
    let identity = home.identity(&config)?;
    let version = retire(&home, &identity, &root_key, now())?;
    Ok(format!(
        "bundle {version} names a new key alone; take the root's key offline again, then:\n  systemctl start \
         lucia-enrollment-worker\nNodes take bundle and roster with their next heartbeat. Until then they believe the former \
         key.\nWhoever had this host has the issuing CA's key as well, unless step-ca signs: what they made with it ends after \
         seven days.\n"
    ))
}

/// What `--root` and the others name; nothing where none is given.
fn read_given(files: &GivenFiles) -> Result<Option<Given>, Exit> {
    let GivenFiles { root: Some(root), root_key: Some(root_key), issuing: Some(issuing) } = files else {
        return Ok(None);
    };
    let text = |path: &Path| read(path).map(|text| text.to_string());
    Ok(Some(Given { root: text(root)?, root_key: read(root_key)?, issuing: text(issuing)? }))
}

fn read(path: &Path) -> Result<Zeroizing<String>, Exit> {
    let max = u64::try_from(CHAIN_PEM_MAX).unwrap_or(u64::MAX);
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)
        .and_then(|file| file.take(max).read_to_string(&mut text))
        .map_err(|error| Exit::refused(format!("cannot read {}: {error}; nothing was done", path.display())))?;
    Ok(text)
}
