//! A site whose CA is step-ca: the real one, under a user of its own, with a root and an intermediate that openssl made.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::DemoError;
use super::daemon::{Daemon, ran};
use super::directory::{ADDRESS, lay, new_key};
use super::place::{Place, STEP_CA, WORKER};
use crate::program::Program;

/// Where it listens, at the site's own address.
pub(super) const PORT: u16 = 9443;
/// Its JWK provisioner, and that provisioner's key.
pub(super) const PROVISIONER: &str = "nodes";
/// What openssl is told of both certificates.
const EXTENSIONS: &str = "[req]\ndistinguished_name = dn\n[dn]\n\
     [root]\nbasicConstraints = critical,CA:TRUE,pathlen:1\nkeyUsage = critical,keyCertSign,cRLSign\nsubjectKeyIdentifier = hash\n\
     [issuing]\nbasicConstraints = critical,CA:TRUE,pathlen:0\nkeyUsage = critical,keyCertSign,cRLSign\n\
     subjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\n";

/// What the operator of a step-ca has before there is a fleet.
pub(super) struct StepCa {
    dir: PathBuf,
    /// The provisioner's key, as JSON.
    jwk: String,
}

impl StepCa {
    /// Root, intermediate and provisioner, and a configuration that signs for a week.
    pub(super) fn make(place: &Place, program: &Path) -> Result<Self, DemoError> {
        let dir = place.path("state/step-ca");
        let failed = |err| DemoError::Place { path: dir.clone(), err };
        fs::create_dir(&dir).map_err(failed)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).map_err(failed)?;
        fs::write(dir.join("openssl.cnf"), EXTENSIONS).map_err(failed)?;
        for line in [
            "req -config openssl.cnf -extensions root -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -subj /CN=demo-root -days 3650 -keyout root.key -out root.pem",
            "req -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -subj /CN=demo-issuing -keyout issuing.key -out issuing.csr",
            "x509 -req -in issuing.csr -CA root.pem -CAkey root.key -CAcreateserial -extfile openssl.cnf -extensions issuing \
             -days 700 -out issuing.pem",
        ] {
            ran(Program::Openssl.command().args(line.split_whitespace()).current_dir(&dir))?;
        }
        for (name, owner) in [("root.key", WORKER), ("issuing.key", STEP_CA)] {
            chown(dir.join(name), Some(owner), Some(owner)).map_err(failed)?;
        }
        for name in ["root.pem", "issuing.pem"] {
            fs::set_permissions(dir.join(name), Permissions::from_mode(0o644)).map_err(failed)?;
        }
        let (public, jwk) = provisioner().map_err(failed)?;
        let at = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let config = json!({
            "root": at("root.pem"), "crt": at("issuing.pem"), "key": at("issuing.key"),
            "address": format!("{ADDRESS}:{PORT}"), "dnsNames": [ADDRESS],
            "authority": {"disableIssuedAtCheck": true, "provisioners": [{
                "type": "JWK", "name": PROVISIONER, "key": public,
                "claims": {"maxTLSCertDuration": "168h", "defaultTLSCertDuration": "24h"},
            }]},
        });
        lay(&dir.join("ca.json"), &config.to_string(), STEP_CA).map_err(failed)?;
        fs::copy(program, place.path("bin/step-ca")).map_err(failed)?;
        Ok(Self { dir, jwk })
    }

    /// What `lucia-enrollment-worker init` is given.
    pub(super) fn given(&self) -> Vec<String> {
        let given = [("--root", "root.pem"), ("--root-key", "root.key"), ("--issuing", "issuing.pem")];
        let at = |name| self.dir.join(name).to_string_lossy().into_owned();
        given.into_iter().flat_map(|(option, name)| [option.to_owned(), at(name)]).collect()
    }

    /// Once the fleet has begun: the worker gets the provisioner's key, the root's key goes, and step-ca runs.
    pub(super) fn start(&self, place: &Place, holder: u32) -> Result<Daemon, DemoError> {
        let failed = |err| DemoError::Place { path: self.dir.clone(), err };
        lay(&place.path("state/worker/ca/provisioner.jwk"), &self.jwk, WORKER).map_err(failed)?;
        fs::remove_file(self.dir.join("root.key")).map_err(failed)?;
        let config = self.dir.join("ca.json").to_string_lossy().into_owned();
        // It does not start without a home, though it needs nothing there.
        let home = format!("HOME={}", self.dir.display());
        let program = place.path("bin/step-ca").to_string_lossy().into_owned();
        let arguments = [home.as_str(), &program, &config];
        Daemon::start(place, &place.step_ca_seat(holder), "step-ca", Path::new("/usr/bin/env"), &arguments)
    }
}

/// A new key for the provisioner: its public half for step-ca, all of it for the worker.
fn provisioner() -> io::Result<(serde_json::Value, String)> {
    let (key, secret) = new_key()?;
    let der = key.public().der();
    // The last 64 bytes of a P-256 public key are its point.
    let (x, y) = der.split_at_checked(der.len().saturating_sub(64)).unwrap_or_default().1.split_at(32);
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let public = json!({
        "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y), "use": "sig", "alg": "ES256", "kid": PROVISIONER,
    });
    let mut whole = public.clone();
    if let Some(whole) = whole.as_object_mut() {
        whole.insert("d".to_owned(), text(secret.as_ref()).into());
    }
    Ok((public, whole.to_string()))
}
