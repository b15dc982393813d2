//! One value of every type that people send or are sent, with every member it may have.

use lucia_people::agents::AgentsView;
use lucia_people::audit::AuditView;
use lucia_people::host_api::{
    ApproveForm, EventsView, KeepForm, NodeView, NodesView, OnboardingView, OpenWindow, RenameForm, StatusView,
};
use lucia_people::owner_api::{Applied, DraftForm, DraftView, DraftsView, NamesView, RosterView};
use lucia_people::sign_in::{PasskeyAsked, PasskeyForm, PasskeyView, PasskeysView, SessionsView, SignIn, SignedIn};
use lucia_people::token::{TokenForm, TokenMade, TokensView};
use lucia_proto::base::code::ErrorBody;
use lucia_proto::node::challenge::Challenge;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::{Draft, OrderSignature};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A value with every member there is, and how the programs read it.
pub(super) struct Sample {
    /// The schema's name.
    pub(super) name: &'static str,
    pub(super) value: Value,
    pub(super) read: fn(&str) -> Option<Value>,
}

impl Sample {
    pub(super) fn new<T: DeserializeOwned + Serialize>(name: &'static str, value: Value) -> Self {
        Self { name, value, read: read::<T> }
    }
}

/// As the programs read it, and write it again.
fn read<T: DeserializeOwned + Serialize>(text: &str) -> Option<Value> {
    lucia_proto::base::json::from_str::<T>(text, 1 << 20, 24).ok().map(|read| serde_json::to_value(&read).unwrap())
}

const AT: &str = "2026-11-30T12:00:00Z";
const ID: &str = "0123456789abcdef0123456789abcdef";
const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";
const CODE: &str = "1a2b-3c4d-5e6f";
const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(super) fn all() -> Vec<Sample> {
    let mut all = forms();
    all.extend(looks());
    all.extend(people());
    all
}

fn signature() -> String {
    format!("{}==", "A".repeat(86))
}

fn assertion() -> Value {
    json!({"authenticatorData": "AAAA", "clientDataJson": "{}", "signature": "AAAA"})
}

fn forms() -> Vec<Sample> {
    vec![
        Sample::new::<OpenWindow>("OpenWindow", json!({"minutes": 60})),
        Sample::new::<ApproveForm>(
            "ApproveForm",
            json!({"hostname": "web-1", "diskId": "ata-1", "confirmation": "ERASE", "replaces": ID}),
        ),
        Sample::new::<RenameForm>("RenameForm", json!({"hostname": "web-2"})),
        Sample::new::<KeepForm>("KeepForm", json!({"startId": ID})),
        Sample::new::<Application>(
            "Application",
            json!({
                "name": "alice", "publicKeyPem": "-----BEGIN PUBLIC KEY-----", "fleet": HASH, "askedAt": AT,
                "signature": signature(),
                "passkey": {"owner": ID, "confirmedBy": HASH, "credentialId": "AA=="},
            }),
        ),
        Sample::new::<DraftForm>(
            "DraftForm",
            json!({"kind": "ssh-key", "nodes": [ID], "body": "{}", "subject": "alice", "revision": 1}),
        ),
        Sample::new::<Draft>("Draft", json!({"intentJson": "{}", "body": "{}"})),
        Sample::new::<OrderSignature>("OrderSignature", json!({"owner": ID, "key": HASH, "signature": signature()})),
        Sample::new::<OrderSignature>("OrderSignature", json!({"owner": ID, "key": HASH, "assertion": assertion()})),
        Sample::new::<TokenForm>("TokenForm", json!({"name": "prometheus", "scopes": ["nodes"], "days": 90})),
        Sample::new::<SignIn>(
            "SignIn",
            json!({
                "challengeId": "01234567-89ab-7def-8123-456789abcdef", "credentialId": "AA==", "assertion": assertion(),
            }),
        ),
        Sample::new::<PasskeyForm>(
            "PasskeyForm",
            json!({"label": "phone", "credentialId": "AA==", "publicKey": "AAAA"}),
        ),
    ]
}

fn holder() -> Value {
    json!({"startId": ID, "bootId": UUID, "address": "192.0.2.1", "firstSeenAt": AT, "lastSeenAt": AT, "memoryLost": true})
}

fn line() -> Value {
    json!({
        "nodeId": ID, "hostname": "web-1", "newHostname": "web-2", "formerHostname": "web-0", "renameStep": "worker",
        "refused": "why", "verificationCode": CODE, "state": "Online", "address": "2001:db8::1", "lastSeenAt": AT, "certificateExpiresAt": AT, "frozen": true,
        "directory": "Ready",
    })
}

fn looks() -> Vec<Sample> {
    let names = json!({"from": "web-1", "to": "web-2"});
    let inventory = json!({
        "architecture": "x86_64", "bootMode": "Uefi", "secureBoot": true, "manufacturer": "M", "model": "m",
        "serialNumber": "1", "hardwareUuid": "u", "cpuModel": "c", "logicalCpuCount": 4, "memoryBytes": 1024,
        "interfaces": [{"name": "eth0", "macAddress": "52:54:00:12:34:56", "addresses": ["192.0.2.1"]}],
        "disks": [{
            "id": "ata-1", "path": "/dev/sda", "model": "d", "serial": "s", "sizeBytes": 1024, "isRemovable": false,
            "isReadOnly": false,
        }],
    });
    let task = json!({
        "taskId": UUID, "phase": "Approved", "hostname": "web-1", "diskId": "ata-1", "replaces": ID,
        "authorityExpiresAt": AT, "progressExpiresAt": AT, "enrollmentPendingSince": AT,
        "refused": "why",
    });
    let sample = json!({
        "at": AT, "loadAverage": 0.5, "cpuPercent": 1.5, "cpuTemperatureCelsius": 40.5, "gpuPercent": 1.5,
        "gpuTemperatureCelsius": 40.5, "memoryTotalBytes": 2, "memoryAvailableBytes": 1, "storageTotalBytes": 2,
        "storageAvailableBytes": 1,
    });
    vec![
        Sample::new::<OnboardingView>(
            "OnboardingView",
            json!({
                "serverTime": AT, "windowExpiresAt": AT,
                "worker": {"ready": false, "checkedAt": AT, "message": "why"},
                "devices": [{
                    "deviceId": ID, "fingerprint": HASH, "verificationCode": CODE, "phase": "Approved",
                    "address": "192.0.2.1", "discoveredAt": AT, "expiresAt": AT, "inventoryRevision": 1,
                    "running": true, "inventory": inventory, "task": task, "message": "why", "barred": true,
                }],
            }),
        ),
        Sample::new::<NodesView>("NodesView", json!({"serverTime": AT, "nodes": [line()], "next": "web-1"})),
        Sample::new::<AgentsView>(
            "AgentsView",
            json!({
                "serverTime": AT, "next": "web-1",
                "agents": [{
                    "nodeId": ID, "hostname": "web-1", "version": "0.2.0",
                    "kinds": [{"kind": "ssh-key", "carried": true, "rule": "two-owners"}],
                }],
            }),
        ),
        Sample::new::<NodeView>(
            "NodeView",
            json!({
                "serverTime": AT, "node": line(), "fingerprint": HASH, "taskId": UUID, "osVersion": "Debian",
                "uptimeSeconds": 1, "directory": {"state": "Failed", "message": "why"},
                "gpus": [{
                    "vendor": "nvidia", "model": "m", "memoryBytes": 1, "computeCapability": "9.0", "uuid": "GPU-1",
                }],
                "samples": [sample], "holder": holder(), "frozen": {"at": AT, "holders": [holder()]},
                "kept": {"at": AT, "holder": holder(), "refused": [ID]}, "lastRefused": holder(),
                "renames": [{"at": AT, "actor": "owner:alice", "names": names}],
                "orders": {
                    "bundleVersion": 1, "rosterVersion": 1, "rosterNewest": 1, "asks": true, "answeredAt": AT,
                    "waiting": [CODE],
                },
            }),
        ),
        Sample::new::<EventsView>(
            "EventsView",
            json!({"lastSequence": 1, "events": [{
                "sequence": 1, "at": AT, "kind": "Discovered", "actor": "device", "deviceId": ID, "taskId": UUID,
                "holders": [holder()], "names": names, "hostname": "web-1",
            }]}),
        ),
        Sample::new::<StatusView>(
            "StatusView",
            json!({
                "version": "0.1.0", "startedAt": AT, "certificateExpiresAt": AT, "workerAvailable": true,
                "auditBytes": 1,
                "counters": {
                    "publicKeyOperations": 1, "heartbeats": 1, "usedChallenges": 1, "refusals": {"actor_required": 1},
                },
            }),
        ),
        Sample::new::<ErrorBody>(
            "ErrorBody",
            json!({"error": {"code": "not_found", "message": "why", "type": "invalid_request_error"}}),
        ),
    ]
}

fn people() -> Vec<Sample> {
    let signed = json!({"payload": "AAAA", "signature": "AAAA"});
    let token = json!({
        "code": CODE, "name": "prometheus", "owner": "alice", "scopes": ["nodes", "status"], "addedAt": AT,
        "expiresAt": AT, "usedAt": AT,
    });
    let passkey = json!({"code": CODE, "owner": "alice", "label": "phone", "addedAt": AT});
    let entry = |actor: Value| {
        json!({
            "sequence": 1, "at": AT, "actor": actor, "from": "192.0.2.1", "via": "session", "action": "draft-added", "node": ID,
            "intent": HASH, "refused": "not_found", "intentRefused": "expired", "token": "prometheus", "more": 7,
            "prev": HASH,
        })
    };
    vec![
        Sample::new::<Challenge>(
            "Challenge",
            json!({
                "challengeId": "01234567-89ab-7def-8123-456789abcdef", "nonce": format!("{}=", "A".repeat(43)),
                "expiresAt": AT,
            }),
        ),
        Sample::new::<Applied>("Applied", json!({"verificationCode": CODE, "expiresAt": AT})),
        Sample::new::<RosterView>("RosterView", json!({"roster": signed, "bundle": signed})),
        Sample::new::<NamesView>("NamesView", json!({"names": signed, "bundle": signed})),
        Sample::new::<DraftsView>(
            "DraftsView",
            json!({"serverTime": AT, "drafts": [{
                "code": CODE, "intent": HASH, "kind": "ssh-key", "about": "alice: +laptop", "owner": ID, "signers": [ID], "state": "signed", "at": AT,
                "draftedBy": "owner:alice", "handedOut": true, "outcomes": [{"nodeId": ID, "at": AT, "refused": "expired"}],
                "gone": [{"nodeId": ID, "hostname": "web-1", "removedAt": AT}],
            }]}),
        ),
        Sample::new::<DraftView>(
            "DraftView",
            json!({
                "draft": {"intentJson": "{}", "body": "{}"},
                "signatures": [{"owner": ID, "key": HASH, "signature": signature()}],
            }),
        ),
        Sample::new::<SignedIn>("SignedIn", json!({"name": "alice", "role": "owner", "expiresAt": AT})),
        Sample::new::<PasskeyAsked>("PasskeyAsked", json!({"code": CODE, "expiresAt": AT})),
        Sample::new::<PasskeyView>("PasskeyView", passkey.clone()),
        Sample::new::<PasskeysView>("PasskeysView", json!({"passkeys": [passkey]})),
        Sample::new::<SessionsView>(
            "SessionsView",
            json!({"serverTime": AT, "sessions": [{
                "code": CODE, "owner": "alice", "role": "viewer", "passkey": CODE, "address": "192.0.2.1", "since": AT,
                "usedAt": AT, "expiresAt": AT, "current": false,
            }]}),
        ),
        Sample::new::<TokensView>("TokensView", json!({"serverTime": AT, "tokens": [token]})),
        Sample::new::<TokenMade>("TokenMade", json!({"token": token, "secret": format!("t1.{}", "A".repeat(43))})),
        Sample::new::<AuditView>(
            "AuditView",
            json!({"lastSequence": 6, "head": HASH, "entries": [
                entry(json!({"kind": "operator", "uid": 0})),
                entry(json!({"kind": "owner", "ownerId": ID, "name": "alice"})),
                entry(json!({"kind": "applicant", "ownerId": ID, "name": "alice"})),
                entry(json!({"kind": "node", "nodeId": ID})),
                entry(json!({"kind": "worker"})),
                entry(json!({"kind": "controller"})),
            ]}),
        ),
    ]
}
