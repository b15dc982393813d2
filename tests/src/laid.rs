//! A fleet of thousands, laid as files. Taking each node from discovery to its certificate writes the journal five times
//! a node: what the figures ask about a large fleet is not how it came to be.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucia_proto::base::bounded::PemText;
use lucia_proto::base::ids::{RequestId, TaskId};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, GrantRow, Journal, TaskRow};
use lucia_proto::node::enrollment::IdentityRecord;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::pki::csr;
use lucia_worker::ca::{Ca as _, Embedded};

use crate::programs::Site;
use crate::sim::{Failure, hostname_of, inventory, key_of};

/// How long a node's certificate lives from the time it is laid.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600 - 600);
/// What a managed node's discovery and installation had.
const HOUR: Duration = Duration::from_secs(3600);

/// Puts `count` managed nodes into the state of a controller that is not running; gives their certificates in order.
///
/// # Errors
/// When a file cannot be read or written.
pub fn lay(site: &Site, count: u32) -> Result<Vec<String>, Failure> {
    let dir = site.dir.path();
    let state = dir.join("controller/onboarding/state.json");
    let pem = |name: &str| fs::read_to_string(dir.join("worker/ca").join(name));
    let ca = Embedded::open(&pem("issuing.pem")?, &pem("issuing.key")?)?;
    let now = now()?;
    let mut journal = Journal::from_bytes(&fs::read(&state)?)?;
    journal.generation += 1;
    let identities = dir.join("controller/nodes/identities");
    let mut certificates = Vec::new();
    for number in 0..count {
        let (key, hostname) = (key_of(number)?, hostname_of(number)?);
        let fingerprint = key.public().fingerprint();
        let id = fingerprint.node_id();
        let request = csr::check(&csr::build(&id, &hostname, &key), &id, &hostname, &fingerprint)?;
        let chain = ca.sign_node(&request, &hostname, &id, now)?;
        let certificate = format!("{}{}", chain.leaf, chain.issuers);
        let (device, task) = rows(number, now)?;
        let record = IdentityRecord {
            node_id: id.clone(),
            task_id: task.task_id.clone(),
            hostname,
            public_key_fingerprint: fingerprint,
            certificate_pem: PemText::try_from(certificate.clone())?,
            certificate_expires_at: now.plus(LIFETIME),
            last_seen_at: None,
            address: None,
            last_heartbeat: None,
            lineage: None,
        };
        write(&identities.join(format!("{id}.json")), &record.to_bytes()?, 0o600)?;
        journal.devices.push(device);
        journal.tasks.push(task);
        certificates.push(certificate);
    }
    write(&state, &journal.to_bytes()?, 0o640)?;
    Ok(certificates)
}

fn rows(number: u32, now: UnixTime) -> Result<(DeviceRow, TaskRow), Failure> {
    let (key, hostname) = (key_of(number)?, hostname_of(number)?);
    let fingerprint = key.public().fingerprint();
    let mut random = [3; 16];
    random[12..].copy_from_slice(&number.to_be_bytes());
    let task_id = TaskId::from_random(random);
    let inventory = inventory()?;
    let hash = inventory.inventory_hash();
    let device = DeviceRow {
        device_id: fingerprint.node_id(),
        fingerprint,
        public_key_pem: PemText::try_from(key.public().to_pem())?,
        phase: DevicePhase::Managed,
        hostname: Some(hostname.clone()),
        former_hostname: None,
        inventory,
        running: false,
        inventory_hash: hash,
        inventory_revision: 1,
        verification_code: fingerprint.verification_code(),
        discovered_at: now,
        expires_at: now.plus(HOUR),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        message: None,
        task_id: Some(task_id.clone()),
        frozen: None,
        kept: None,
    };
    let task = TaskRow {
        task_id,
        device_id: fingerprint.node_id(),
        hostname,
        disk_id: Some("sim-disk".parse()?),
        fingerprint,
        inventory_hash: hash,
        inventory_revision: 1,
        phase: TaskPhase::Managed,
        approved_at: now,
        authority_expires_at: now.plus(HOUR),
        grant: Some(GrantRow {
            request_id: RequestId::from_random(random),
            granted_at: now,
            progress_expires_at: now.plus(HOUR),
        }),
        replaces: None,
    };
    Ok((device, task))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

#[expect(clippy::disallowed_methods, reason = "the certificates must be valid on this machine's clock")]
fn now() -> Result<UnixTime, Failure> {
    Ok(UnixTime::from_secs(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()))
}
