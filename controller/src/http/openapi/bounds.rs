//! What the types' source does not say: the one form of each checked text, and the bound of each list and plain text. Every
//! number is the code's own.

use lucia_people::host_api::{ERASE, EVENTS_PER_ANSWER_MAX};
use lucia_people::token::TokenScope;
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{
    ADDRESSES_PER_INTERFACE_MAX, AUDIT_PER_ANSWER_MAX, CLIENT_DATA_MAX, CPUS_MAX, CREDENTIAL_ID_MAX, DEVICES_MAX,
    DISK_BYTES_MAX, DISKS_MAX, DRAFTS_PER_ANSWER_MAX, GPUS_MAX, HOLDERS_MAX, INTERFACES_MAX, LIST_PAYLOAD_MAX,
    MEMORY_BYTES_MAX, MESSAGE_MAX, NODES_PER_ANSWER_MAX, ORDER_BODY_MAX, ORDER_MAX, ORDER_NODES_MAX,
    ORDER_SIGNATURES_MAX, ORDERS_TOLD_MAX, OWNERS_MAX, PASSKEYS_PER_OWNER_MAX, PUBLIC_KEY_PEM_MAX, SAMPLES_MAX,
    SESSIONS_PER_OWNER_MAX, SIGNATURE_DER_MAX, SIGNED_PAYLOAD_MAX, SPKI_DER_MAX, TOKEN_LIFETIME_MAX,
    TOKENS_PER_OWNER_MAX, WINDOW_MAX,
};
use lucia_proto::orders::{OrderCode, OrderKind};
use serde_json::{Value, json};

/// Padded base64.
pub(super) const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
/// P1363, 64 bytes in base64.
const SIGNATURE: &str = "^[A-Za-z0-9+/]{86}==$";

/// A constant that a type's source names.
pub(super) fn constant(name: &str) -> usize {
    match name {
        "MESSAGE_MAX" => MESSAGE_MAX,
        "SPKI_DER_MAX" => SPKI_DER_MAX,
        "CREDENTIAL_ID_MAX" => CREDENTIAL_ID_MAX,
        // Of `SignedPayload`, where nothing else is said.
        "MAX" => SIGNED_PAYLOAD_MAX,
        "SIGNATURE_DER_MAX" => SIGNATURE_DER_MAX,
        // Of a passkey's signature (WebAuthn level 2, section 6.1): no extensions, no attested key.
        "AUTHENTICATOR_DATA_LEN" => 37,
        _ => panic!("{name}: say its value in bounds.rs"),
    }
}

fn text(words: &str, pattern: &str, most: usize) -> Value {
    json!({"type": "string", "description": words, "pattern": pattern, "maxLength": most})
}

fn without(mut schema: Value, not: Value) -> Value {
    schema["not"] = not;
    schema
}

fn named(words: &str, name: &str) -> Value {
    json!({"description": words, "$ref": format!("#/components/schemas/{name}")})
}

/// A type whose form its own code checks.
pub(super) fn leaf(name: &str) -> Option<Value> {
    const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    const HEX_16: &str = "^[0-9a-f]{32}$";
    const HEX_32: &str = "^[0-9a-f]{64}$";
    Some(match name {
        "NodeId" => text("A node or device: the first 32 hex digits of its key's fingerprint.", HEX_16, 32),
        "OwnerId" => text("Somebody of the roster, for good.", HEX_16, 32),
        "StartId" => text("One start of an agent.", HEX_16, 32),
        "Subject" => text("What a state is about: of SSH keys their account.", "^[a-z_][a-z0-9._-]*$", 64),
        "FeatureName" => text("Something an agent can do, such as a kind of order.", "^[a-z][a-z0-9-]*$", 32),
        "TaskId" => text("One approved installation.", UUID, 36),
        "BootId" => text("One boot of a machine.", UUID, 36),
        "Fingerprint" => text("The SHA-256 of a public key's DER.", HEX_32, 64),
        "Digest" => text("A SHA-256 value.", HEX_32, 64),
        "OrderId" => text("One order: the SHA-256 of its text.", HEX_32, 64),
        "ChallengeId" => text(
            "A challenge: a UUID of version 7.",
            "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
            36,
        ),
        "Nonce" => text("32 bytes.", "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$", 44),
        "VerificationCode" => {
            text("What a person reads and types: 12 hex digits.", "^[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}$", 14)
        }
        "UnixTime" => {
            let mut time = text(
                "A time in UTC, in whole seconds (RFC 3339).",
                "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
                20,
            );
            time["format"] = json!("date-time");
            time
        }
        "IpAddr" => json!({
            "type": "string", "description": "An address.", "maxLength": 45,
            "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}],
        }),
        "Hostname" => without(
            text(
                "A node's name: one lower-case DNS label that begins with a letter.",
                "^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$",
                63,
            ),
            json!({"anyOf": [{"const": "localhost"}, {"pattern": "^xn--"}]}),
        ),
        "OwnerName" => text("What people call somebody of the roster.", "^[a-z][a-z0-9_.-]{0,31}$", 32),
        "DiskId" => without(
            text("A disk, as the machine reported it.", "^[A-Za-z0-9._:+/-]{1,256}$", 256),
            json!({"pattern": "\\.\\."}),
        ),
        "DevicePath" => without(
            text("Where the installer finds a disk.", "^/dev/[A-Za-z0-9._:+/-]{1,123}$", 128),
            json!({"pattern": "\\.\\."}),
        ),
        "InterfaceName" => text("A network interface, as the kernel names it.", "^[!-.0-~]{1,15}$", 15),
        "MacAddress" => text("A hardware address.", "^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$", 17),
        "GpuUuid" => text("One GPU, as its driver names it.", "^GPU-[A-Za-z0-9-]{1,60}$", 64),
        "Minutes" => json!({
            "type": "integer", "description": "A length of the discovery window.",
            "minimum": 1, "maximum": WINDOW_MAX.as_secs() / 60,
        }),
        "Days" => json!({
            "type": "integer", "description": "How long a token lives.",
            "minimum": 1, "maximum": TOKEN_LIFETIME_MAX.as_secs() / (24 * 3600),
        }),
        "TokenName" => text("What people call a token.", "^[a-z][a-z0-9_.-]{0,31}$", 32),
        "TokenSecret" => text("A token.", "^t1\\.[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$", 46),
        "TokenScopes" => json!({
            "type": "array", "description": "What a token may look at.", "items": at("TokenScope"), "minItems": 1,
            "maxItems": TokenScope::ALL.len(), "uniqueItems": true,
        }),
        "Code" => json!({
            "type": "string", "description": "Why a call was refused.",
            "enum": Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
        }),
        "OrderKind" => json!({
            "type": "string", "description": "What an order asks. A closed list: what is not on it is refused before anything else is looked at.",
            "enum": OrderKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>(),
        }),
        "Act" => json!({
            "type": "string", "description": "Something that happened or was done. A closed list.",
            "enum": Act::ALL.iter().map(|act| act.word()).collect::<Vec<_>>(),
        }),
        "OrderCode" => json!({
            "type": "string", "description": "Why an order was refused by who carries it out.",
            "enum": OrderCode::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
        }),
        "SignedRoster" => named("The roster, signed by a worker of the bundle.", "SignedPayload"),
        "SignedBundle" => named("The bundle, signed by the fleet's root.", "SignedPayload"),
        "SignedNames" => {
            let base64 = |most: usize| {
                json!({
                    "type": "string", "contentEncoding": "base64", "maxLength": most.div_ceil(3) * 4, "pattern": BASE64,
                })
            };
            json!({
                "type": "object", "description": "The list of names, signed by a worker of the bundle.",
                "additionalProperties": false, "required": ["payload", "signature"],
                "properties": {"payload": base64(LIST_PAYLOAD_MAX), "signature": base64(SIGNATURE_DER_MAX)},
            })
        }
        "HardwareInventory" => named("What a machine says that it is made of.", "InventoryFields"),
        "AuditActor" => actor(),
        "OrderSignature" => signature(),
        _ => return None,
    })
}

/// Who did something: the members of its kind and no others.
fn actor() -> Value {
    let of = |kind: &str, members: &[(&str, Value)]| {
        let mut schema = json!({
            "type": "object", "additionalProperties": false,
            "properties": {"kind": {"const": kind}}, "required": ["kind"],
        });
        for (name, member) in members {
            schema["properties"][name] = member.clone();
            schema["required"].as_array_mut().unwrap().push(json!(name));
        }
        schema
    };
    let person = || [("ownerId", at("OwnerId")), ("name", at("OwnerName"))];
    json!({
        "description": "Who did something.",
        "oneOf": [
            of("operator", &[("uid", json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}))]),
            of("owner", &person()),
            of("applicant", &person()),
            of("node", &[("nodeId", at("NodeId"))]),
            of("worker", &[]),
            of("controller", &[]),
        ],
    })
}

/// A signature under an order, in one of its two forms.
fn signature() -> Value {
    let of = |name: &str, form: Value| {
        json!({
            "type": "object", "additionalProperties": false, "required": ["owner", "key", name],
            "properties": {"owner": at("OwnerId"), "key": at("Fingerprint"), name: form},
        })
    };
    json!({
        "description": "One owner's signature under an order: of an owner key, or of a passkey for orders.",
        "oneOf": [
            of("signature", text("P1363, 64 bytes in base64.", SIGNATURE, 88)),
            of("assertion", at("Assertion")),
        ],
    })
}

fn at(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The bound of one member, where its type has none of its own.
pub(super) fn bound(of: &str, key: &str) -> Option<Value> {
    let items = |most: usize| json!({"maxItems": most});
    let chars = |most: usize| json!({"maxLength": most});
    Some(match (of, key) {
        ("InventoryFields", "logicalCpuCount") => json!({"minimum": 1, "maximum": CPUS_MAX}),
        ("InventoryFields", "memoryBytes") => json!({"minimum": 1, "maximum": MEMORY_BYTES_MAX}),
        ("InventoryFields", "interfaces") => json!({"minItems": 1, "maxItems": INTERFACES_MAX}),
        ("InventoryFields", "disks") => items(DISKS_MAX),
        ("Interface", "addresses") => items(ADDRESSES_PER_INTERFACE_MAX),
        ("Disk", "sizeBytes") => json!({"maximum": DISK_BYTES_MAX}),
        ("OnboardingView", "devices") => items(DEVICES_MAX),
        ("AgentLine", "kinds") => items(32),
        ("AgentsView", "agents") => items(NODES_PER_ANSWER_MAX),
        ("NodesView", "nodes") => items(NODES_PER_ANSWER_MAX),
        ("NodeView", "gpus") => items(GPUS_MAX),
        ("NodeView", "samples") => items(SAMPLES_MAX),
        ("NodeView", "renames") | ("KeptRow", "refused") => items(8),
        ("FrozenRow" | "EventLine", "holders") => items(HOLDERS_MAX),
        ("EventsView", "events") => items(EVENTS_PER_ANSWER_MAX),
        ("ApproveForm", "confirmation") => json!({"const": ERASE}),
        ("StatusView", "version") => chars(64),
        ("Application", "publicKeyPem") => chars(PUBLIC_KEY_PEM_MAX),
        ("Application", "signature") => json!({"maxLength": 88, "pattern": SIGNATURE}),
        ("DraftsView", "drafts") => items(DRAFTS_PER_ANSWER_MAX),
        ("DraftLine", "signers") | ("DraftView", "signatures") => items(ORDER_SIGNATURES_MAX),
        // Each node tells, and of what the worker carries out the worker besides.
        ("DraftLine", "outcomes") => items(2 * ORDER_NODES_MAX),
        ("DraftLine", "gone") => items(ORDER_NODES_MAX),
        ("OrdersHeld", "waiting") => items(ORDERS_TOLD_MAX),
        ("Draft", "intentJson") => chars(ORDER_MAX),
        ("DraftForm", "nodes") => items(ORDER_NODES_MAX),
        ("DraftForm", "body") | ("Draft", "body") => chars(ORDER_BODY_MAX),
        ("Assertion", "clientDataJson") => chars(CLIENT_DATA_MAX),
        ("PasskeysView", "passkeys") => items(OWNERS_MAX * PASSKEYS_PER_OWNER_MAX),
        ("SessionsView", "sessions") => items(OWNERS_MAX * SESSIONS_PER_OWNER_MAX),
        ("TokensView", "tokens") => items(OWNERS_MAX * TOKENS_PER_OWNER_MAX),
        ("AuditView", "entries") => items(AUDIT_PER_ANSWER_MAX),
        ("ErrorText", "message") => chars(4096),
        _ => return None,
    })
}
