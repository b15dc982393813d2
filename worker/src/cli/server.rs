//! `sign-directory`: the certificate of the directory's own server, for a key that its operator made there.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use lucia_daemon::clock::now;
use lucia_daemon::exit::{self, Exit};
use lucia_proto::base::limits::CSR_PEM_MAX;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;

use super::at::At;
use super::hold::hold;
use crate::ca::ServerCsr;
use crate::home::Home;
use crate::ledger::{Entry, Ledger, Records};
use crate::names::label;

/// Standard input, standard output.
const STANDARD: &str = "-";
/// How a certificate's file begins; nothing else is ever replaced.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// A certificate is no secret.
const MODE: u32 = 0o644;

/// What was signed: the chain where it goes to standard output, and the sentence to print.
pub(super) struct Signed {
    pub(super) chain: Option<String>,
    pub(super) said: String,
}

/// Signs a request for names of `[directory] names`, for as long as `certificate-days` says.
pub(super) fn sign_directory(at: &At, csr: &Path, out: &Path) -> Result<Signed, Exit> {
    let csr = read(csr)?;
    let config = at.enter()?;
    let server = config.directory_server.as_ref().ok_or_else(|| {
        Exit::said(
            exit::CONFIG,
            "no name may be signed; set names under [directory] in worker.toml to what nodes call the directory by"
                .to_owned(),
        )
    })?;
    let csr = ServerCsr::read(&csr, &server.names)?;
    may_replace(out)?;
    let home = Home::open(&config)?;
    let identity = home.identity(&config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let at = now();
    no_node(&csr, ledger.records(), at)?;
    let leaf = identity.ca.sign_server(&csr, server.lifetime, at)?;
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    // A node may have been let in meanwhile, by a worker with other settings.
    no_node(&csr, transaction.records(), at)?;
    let (serial, not_after, names) = (leaf.serial.clone(), leaf.not_after, csr.names().clone());
    let entry = Entry::DirectoryIssued { serial, not_after, names };
    transaction.add(at, entry).and_then(|()| transaction.commit())?;
    let names = csr.names().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let said = format!("signed for {names} until {not_after}, serial {}; sign it anew in time\n", leaf.serial);
    if out == Path::new(STANDARD) {
        return Ok(Signed { chain: Some(leaf.pem), said });
    }
    write(out, &leaf.pem)?;
    Ok(Signed { chain: None, said: format!("{}: {said}", out.display()) })
}

/// No node, present or past, has a name that this server would have, nor a leaf under it from before it was renamed:
/// each could then pass for the other.
fn no_node(csr: &ServerCsr, records: &Records, now: UnixTime) -> Result<(), Exit> {
    for name in csr.names().iter() {
        let Some(hostname) = label(name).and_then(|label| label.parse::<Hostname>().ok()) else { continue };
        if let Some(owner) = records.owner_of(&hostname) {
            return Err(Exit::refused(format!(
                "{name} is the name of node {} in the ledger; nothing was signed. Give the directory another name",
                owner.names.node_id
            )));
        }
        if let Some((owner, until)) = records.former_owner_of(&hostname, now) {
            return Err(Exit::refused(format!(
                "{name} was the name of node {owner}, whose certificate under it lasts until {until}; nothing was signed. \
                 Ask again after that, or give the directory another name"
            )));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Exit> {
    let max = u64::try_from(CSR_PEM_MAX).unwrap_or(u64::MAX);
    let mut text = String::new();
    let got = if path == Path::new(STANDARD) {
        std::io::stdin().take(max + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(max + 1).read_to_string(&mut text))
    };
    got.map_err(|error| Exit::refused(format!("cannot read the request {}: {error}", path.display())))?;
    Ok(text)
}

/// A slip of the pen must not cost a key.
fn may_replace(out: &Path) -> Result<(), Exit> {
    if out == Path::new(STANDARD) {
        return Ok(());
    }
    let mut begin = Vec::new();
    let wanted = u64::try_from(CERTIFICATE.len()).unwrap_or(u64::MAX);
    match std::fs::File::open(out).and_then(|file| file.take(wanted).read_to_end(&mut begin)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(_) if begin == CERTIFICATE.as_bytes() => Ok(()),
        Ok(_) => Err(Exit::refused(format!(
            "{} is there and is no certificate; nothing was signed. Name another file with --out",
            out.display()
        ))),
        Err(error) => Err(unwritable(out, &error)),
    }
}

/// Beside, then renamed: a server that starts meanwhile finds the former certificate or the new one.
fn write(out: &Path, pem: &str) -> Result<(), Exit> {
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = out.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(&beside)
        .and_then(|mut file| file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&beside, out));
    written.map_err(|error| {
        // What could not be written is of no use; that it cannot be removed either is told by the first error.
        let _ = std::fs::remove_file(&beside);
        unwritable(out, &error)
    })
}

fn unwritable(out: &Path, error: &std::io::Error) -> Exit {
    Exit::refused(format!(
        "cannot write {}: {error}; name a file that the worker's user can write, or --out - for standard output",
        out.display()
    ))
}
