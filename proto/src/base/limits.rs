//! Every bound of the protocol, each with whom it protects.
//!
//! Limits that an operator may raise (devices, tasks) are defaults here and settings of the
//! controller (design.md T4).

use std::time::Duration;

/// Signed reports but discovery: protects the controller's memory from one unproven caller.
pub const REPORT_MAX: usize = 32 * 1024;
/// The discovery report carries a hardware inventory: the same protection, four times as wide.
pub const DISCOVER_REPORT_MAX: usize = 128 * 1024;
/// Shortest text that can be a report (`{}`): anything shorter is not worth a look.
pub const REPORT_MIN: usize = 2;
/// A request body around a signed report: the report JSON-escaped, a certificate chain, an envelope.
pub const BODY_MAX: usize = 2 * REPORT_MAX + CHAIN_PEM_MAX + 4096;
/// A discovery body: the report JSON-escaped, a public key and an envelope.
pub const DISCOVER_BODY_MAX: usize = 2 * DISCOVER_REPORT_MAX + 8192;
/// A body of an owner's or operator's call: small forms only.
pub const HOST_BODY_MAX: usize = 4096;
/// The proof header of a GET: protects the header buffer of the controller.
pub const PROOF_HEADER_MAX: usize = 24 * 1024;
/// What an agent reads of an answer: protects the agent's memory from its controller.
pub const ANSWER_MAX: usize = 64 * 1024;
/// Nesting of any JSON text: protects the parser's stack.
pub const JSON_DEPTH_MAX: usize = 24;
/// A public key in PEM: 178 characters in truth.
pub const PUBLIC_KEY_PEM_MAX: usize = 1024;
/// A certificate chain in PEM, decided before parsing: protects path building (threats.md B-17).
pub const CHAIN_PEM_MAX: usize = 16 * 1024;
/// Certificates in a chain, leaf included: the same protection.
pub const CHAIN_CERTIFICATES_MAX: usize = 4;
/// A CSR as the controller takes it.
pub const CSR_PEM_MAX: usize = 8192;
/// A root or issuing CA in PEM: protects the room an answer has for everything else.
pub const ROOT_PEM_MAX: usize = 4096;
/// What is signed in a bundle: it travels inside an answer, in base64, and must leave room there.
pub const BUNDLE_PAYLOAD_MAX: usize = 16 * 1024;
/// Entries of each list of a bundle: protects an agent from checking signatures without end.
pub const BUNDLE_ENTRIES_MAX: usize = 8;
/// What is signed in an answer: in base64 with its envelope it stays under [`ANSWER_MAX`].
pub const SIGNED_PAYLOAD_MAX: usize = 47 * 1024;
/// Names of the controller's endpoint: protects its certificate from growing past a TLS record.
pub const ENDPOINT_NAMES_MAX: usize = 16;
/// One of those names. The first is a common name, which has no more room (RFC 5280, ub-common-name).
pub const ENDPOINT_NAME_MAX: usize = 64;

/// How long a challenge may be answered: bounds the used set and a replay's usefulness.
pub const CHALLENGE_LIFETIME: Duration = Duration::from_secs(120);
/// Accepted proofs of one node in one second: bounds the used set against an enrolled node.
pub const PROOFS_PER_SECOND: u32 = 10;
/// Time between two heartbeats of an agent.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);
/// A node heard within this time is `Online`.
pub const HEARTBEAT_FRESH: Duration = Duration::from_secs(120);
/// Samples kept in memory a node: an hour of heartbeats with room for retries.
pub const SAMPLES_MAX: usize = 180;
/// Age of the oldest sample kept.
pub const SAMPLES_AGE_MAX: Duration = Duration::from_secs(3600);

/// A leaf lives this long.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(168 * 3600);
/// A leaf living longer than this is refused by everyone (an hour for backdating and rounding).
pub const LEAF_LIFETIME_MAX: Duration = Duration::from_secs(169 * 3600);
/// A leaf is backdated by this, so that a node's slow clock does not refuse it.
pub const LEAF_BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Under this much left a node renews, and the worker signs anew.
pub const RENEW_UNDER: Duration = Duration::from_secs(6 * 24 * 3600);
/// A lapsed leaf's chain is built this long after its NotBefore (design.md I7).
pub const LAPSED_CHAIN_OFFSET: Duration = Duration::from_secs(60);

/// A discovered device stays approvable this long.
pub const DISCOVERY_SESSION: Duration = Duration::from_secs(30 * 60);
/// Devices of one address that may wait for a decision: one host cannot fill the registry for all others.
pub const DISCOVERED_PER_SOURCE_MAX: usize = 16;
/// An approval may be turned into a grant this long.
pub const INSTALL_AUTHORITY: Duration = Duration::from_secs(15 * 60);
/// From the grant to the last progress report or enrolment request.
pub const PROGRESS_LIFETIME: Duration = Duration::from_secs(2 * 3600);
/// Longest discovery window.
pub const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);

/// Devices in the journal unless the controller's settings say more.
pub const DEVICES_DEFAULT: usize = 128;
/// Tasks in the journal unless the controller's settings say more.
pub const TASKS_DEFAULT: usize = 256;
/// Events the journal keeps: older ones leave, the chain goes on.
pub const EVENTS_MAX: usize = 2048;
/// The journal's file, half as much again as the reference's so that 5,000 devices fit: protects whoever reads it.
pub const JOURNAL_MAX: usize = 48 * 1024 * 1024;
/// Bytes of a device's row in the journal without its inventory: what the journal's room is reckoned with.
pub const DEVICE_ROW_MAX: usize = 3072;
/// Bytes of a task's row: the same.
pub const TASK_ROW_MAX: usize = 1280;
/// Bytes of an event's row: the same.
pub const EVENT_ROW_MAX: usize = 832;
/// Bytes of its inventory that every device the settings allow has room for; larger ones share what is left over.
pub const INVENTORY_ASSURED: usize = 4096;
/// Between two changed inventories of one device: each is a write of the whole journal.
pub const INVENTORY_CHANGE_INTERVAL: Duration = Duration::from_secs(60);
/// Text of a device's or task's message.
pub const MESSAGE_MAX: usize = 512;
/// The worker's status file: protects the controller.
pub const WORKER_STATUS_MAX: usize = 1024;
/// The worker counts as gone when its status is older (wire-facts 3.5).
pub const WORKER_STATUS_FRESH: Duration = Duration::from_secs(45);
/// A status further in the future than this means a wrong clock, and is refused.
pub const WORKER_STATUS_AHEAD: Duration = Duration::from_secs(5);
/// Logical processors of a machine: protects tables and pages from nonsense.
pub const CPUS_MAX: u32 = 4096;
/// Memory of a machine in bytes, 2^50: the same.
pub const MEMORY_BYTES_MAX: u64 = 1 << 50;
/// Size of a disk in bytes, 2^53: as much as JSON keeps exactly (wire-facts says 2^60, which strict JSON cannot carry).
pub const DISK_BYTES_MAX: u64 = 1 << 53;
/// Network interfaces of a machine: protects the journal.
pub const INTERFACES_MAX: usize = 128;
/// Disks of a machine: protects the journal.
pub const DISKS_MAX: usize = 128;
/// Addresses of one interface: protects the journal.
pub const ADDRESSES_PER_INTERFACE_MAX: usize = 32;
/// Features an agent may name: protects the record and the page.
pub const FEATURES_MAX: usize = 64;
/// Members of a heartbeat's `extensions`: the same.
pub const EXTENSIONS_MAX: usize = 16;
/// Former starts a heartbeat names: the same.
pub const FORMER_STARTS_MAX: usize = 8;
/// Superseded and refused starts the controller remembers of a node, each: protects its record.
pub const KNOWN_STARTS_MAX: usize = 24;
/// Holders of a frozen identity that are told apart: the same; the two that showed it are always among them.
pub const HOLDERS_MAX: usize = 4;
/// GPUs a node reports: the same.
pub const GPUS_MAX: usize = 16;
/// Packages a node names as upgradable: the same; the count goes on.
pub const UPDATE_PACKAGES_MAX: usize = 50;
/// Upgradable packages a node counts: more is nonsense.
pub const UPDATE_COUNT_MAX: u32 = 100_000;
/// Seconds a machine can be up, 100 years: more is nonsense (threats.md V-1).
pub const UPTIME_MAX: u64 = 100 * 366 * 24 * 3600;
/// Load average: more is nonsense (threats.md V-1).
pub const LOAD_MAX: f64 = 1e6;
/// Devices a journal may hold whatever the settings say: protects whoever reads it.
pub const DEVICES_MAX: usize = 8192;
/// Tasks a journal may hold whatever the settings say: the same.
pub const TASKS_MAX: usize = 16384;
/// Who did something, in an event: protects tables and logs.
pub const ACTOR_MAX: usize = 128;
/// A file of the enrollment queue but the answer: protects the worker from the controller.
pub const QUEUE_FILE_MAX: usize = 32 * 1024;
/// An answer file: a signed payload in base64 and its envelope; protects the controller.
pub const ANSWER_FILE_MAX: usize = 72 * 1024;
/// A CSR as the worker takes it (the controller takes half).
pub const QUEUE_CSR_PEM_MAX: usize = 16 * 1024;
/// How long the controller lets a request wait for its answer.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// A request that claims to live longer than this from now is refused by the worker.
pub const REQUEST_LIFETIME_MAX: Duration = Duration::from_secs(15 * 60);
/// A node's identity record with its last heartbeat: protects the controller's start.
pub const IDENTITY_RECORD_MAX: usize = 64 * 1024;
/// Characters of one SSH key's line: an RSA key of the largest size and a comment.
pub const SSH_KEY_LINE_MAX: usize = 4096;
/// SSH keys of one account.
pub const SSH_KEYS_PER_ACCOUNT_MAX: usize = 10;
/// Bits of an RSA key at least and at most.
pub const RSA_BITS_MIN: usize = 2048;
/// See [`RSA_BITS_MIN`].
pub const RSA_BITS_MAX: usize = 16 * 1024;
/// Files of an agent release: protects the agent's disk and memory.
pub const RELEASE_FILES_MAX: usize = 512;
/// One file of an agent release: protects the agent's disk.
pub const RELEASE_FILE_MAX: u64 = 256 * 1024 * 1024;
/// All files of an agent release: the same.
pub const RELEASE_MAX: u64 = 512 * 1024 * 1024;
/// What is signed in a roster: beside a bundle of full size it fits into one enrolment answer.
pub const ROSTER_PAYLOAD_MAX: usize = 12 * 1024;
/// Owners and viewers of a fleet: protects a node from a list without end.
pub const OWNERS_MAX: usize = 32;
/// Keys of one owner: the same.
pub const OWNER_KEYS_MAX: usize = 8;
/// Passkeys of one person for signing in: protects the controller's file.
pub const PASSKEYS_PER_OWNER_MAX: usize = 8;
/// That file: protects the controller's start.
pub const PASSKEYS_FILE_MAX: usize = 512 * 1024;
/// Passkeys that wait to be confirmed with an owner key: protects memory, and the eyes of who confirms one.
pub const PASSKEY_REQUESTS_MAX: usize = 16;
/// Those of one source: one host cannot fill the list for all others.
pub const PASSKEY_REQUESTS_OPEN_PER_SOURCE: usize = 4;
/// A passkey waits this long to be confirmed.
pub const PASSKEY_REQUEST_LIFETIME: Duration = Duration::from_secs(3600);
/// Passkeys that one source may hand in within a minute.
pub const PASSKEY_REQUESTS_PER_SOURCE: u32 = 5;
/// Times in one minute that one source may try to sign in: each costs a verification.
pub const SIGN_INS_PER_SOURCE: u32 = 20;
/// A sign-in as it travels: an assertion with its envelope.
pub const SIGN_IN_MAX: usize = 8 * 1024;
/// A public key as browsers give it, DER: 91 bytes in truth.
pub const SPKI_DER_MAX: usize = 128;
/// A session of the page ends when it was not used for this long.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// And after this long in all.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Sessions of one person: one more ends the one that was not used for longest.
pub const SESSIONS_PER_OWNER_MAX: usize = 8;
/// An automation token ends by itself, at the latest after this long.
pub const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// Automation tokens of one owner: protects the controller's file, and the eyes of who looks which there are.
pub const TOKENS_PER_OWNER_MAX: usize = 8;
/// That file: protects the controller's start.
pub const TOKENS_FILE_MAX: usize = 256 * 1024;
/// Calls with a token from one source in one second, right or wrong: protects from guessing and from a runaway script.
pub const TOKEN_CALLS_PER_SOURCE: u32 = 20;
/// Calls with one token in one second, wherever from: the same.
pub const TOKEN_CALLS_PER_SECOND: u32 = 10;
/// Streams of changes at once: protects the controller's connections.
pub const STREAMS_MAX: usize = 64;
/// Those of one person.
pub const STREAMS_PER_OWNER_MAX: usize = 8;
/// The raw id of a passkey (WebAuthn level 2, section 5.8.3 allows 1023): protects the roster's room.
pub const CREDENTIAL_ID_MAX: usize = 256;
/// An intent as its owner signs it: protects whoever checks one.
pub const ORDER_MAX: usize = 24 * 1024;
/// Nodes that one intent names: the same; more nodes take another intent.
pub const ORDER_NODES_MAX: usize = 512;
/// What goes with an intent and is signed by its hash: a script, or the keys of an account.
pub const ORDER_BODY_MAX: usize = 32 * 1024;
/// An intent with body and signatures as it travels: one fits into an answer of [`ANSWER_MAX`].
pub const SIGNED_INTENT_MAX: usize = 60 * 1024;
/// Signatures under one intent: no rule asks for more than two owners, and each costs who checks it one verification.
pub const ORDER_SIGNATURES_MAX: usize = 2;
/// From `issuedAt` to `notAfter` of a one-shot intent: bounds how long its nonce is remembered, and how long an order
/// of an owner who was removed may still be carried out.
pub const ORDER_LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// An owner's clock may be ahead of the worker's by this much.
pub const ORDER_AHEAD: Duration = Duration::from_secs(5 * 60);
/// Nonces of one-shot intents remembered at once: protects the memory's file.
pub const ORDER_NONCES_MAX: usize = 1024;
/// Subjects of state intents remembered: the same.
pub const ORDER_SUBJECTS_MAX: usize = 1024;
/// From the revision that holds to the next: protects a subject from a last revision, after which no owner could order
/// anything about it any more.
pub const ORDER_REVISION_LEAP: u64 = 1_000_000;
/// The file of what was ordered: protects who reads it at its start.
pub const ORDER_MEMORY_MAX: usize = 512 * 1024;
/// Longest file in which a node keeps its memory of orders and the orders that hold, each as it was signed.
pub const NODE_ORDERS_MAX: usize = 8 << 20;
/// `clientDataJSON` of a passkey's signature: 300 bytes in truth; protects who checks it.
pub const CLIENT_DATA_MAX: usize = 4096;
/// Longest DER form of a P-256 signature.
pub const SIGNATURE_DER_MAX: usize = 72;
/// A node asks how late it is this often (design.md O4).
pub const FRESHNESS_INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// The same question is sent again for this long, because its answer may be on its way; then another is drawn.
pub const FRESHNESS_QUESTION: Duration = Duration::from_secs(10 * 60);
/// Orders that wait for one node and are told to who looks at it; those behind them follow.
pub const ORDERS_TOLD_MAX: usize = 8;
/// An answer counts for less than this long, since it was asked for: so long may a removed owner's order still pass.
pub const FRESHNESS_MAX: Duration = Duration::from_secs(24 * 3600);
/// What is signed in such an answer, and its file: protects node and worker.
pub const FRESHNESS_FILE_MAX: usize = 4096;
/// Outcomes of orders that one heartbeat tells of: protects the report's room; the others come with the next.
pub const OUTCOMES_MAX: usize = 8;
/// Somebody who asks to become an owner waits this long on the worker's host.
pub const APPLICATION_LIFETIME: Duration = Duration::from_secs(3600);
/// What they signed may be of a clock that is off by so much from the worker's: an older one nobody shows again.
pub const APPLICATION_CLOCK: Duration = Duration::from_secs(2 * 24 * 3600);
/// People who ask at once: protects the worker's queue and the eyes of who approves.
pub const APPLICATIONS_MAX: usize = 16;
/// Orders the controller keeps for those who carry them out and for who looks: protects its disk.
pub const DRAFTS_MAX: usize = 1024;
/// Those of one person that wait for a signature, so that nobody fills the list for all others.
pub const DRAFTS_UNSIGNED_PER_PERSON_MAX: usize = 24;
/// Orders of one owner that were signed and wait to be carried out: the same.
pub const ORDERS_PER_OWNER_MAX: usize = 256;
/// What an owner signs with each request: method, path and hash of the body.
pub const OWNER_REQUEST_MAX: usize = 4096;
/// Path and query of a request that an owner signs: protects the same text.
pub const REQUEST_TARGET_MAX: usize = 1024;
/// The header with an owner's proof: protects the controller's header buffer.
pub const OWNER_PROOF_HEADER_MAX: usize = 8 * 1024;
/// Calls with an owner's proof from one source in one second: each costs a verification before anybody knows whose it is.
pub const OWNER_CALLS_PER_SOURCE: u32 = 50;
/// Times in one minute that one source may ask to become an owner: each costs a verification and a write.
pub const APPLICATIONS_PER_SOURCE: u32 = 5;
/// People of one source who wait for an answer to that at once: one host cannot fill the list for all others.
pub const APPLICATIONS_OPEN_PER_SOURCE: usize = 4;
/// Sources whose calls are counted one by one; all others share one count. Protects memory from very many addresses.
pub const SOURCES_MAX: usize = 4096;
/// Bytes of all those orders together: protects the controller's memory, where they wait for nodes.
pub const DRAFTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// One of them with its signatures and what became of it at each of 512 nodes: protects the controller's start.
pub const DRAFT_FILE_MAX: usize = 256 * 1024;
/// Drafts in one answer.
pub const DRAFTS_PER_ANSWER_MAX: usize = 100;
/// What is told of nodes in one such answer, in all: a page of orders for hundreds of nodes each has fewer of them.
pub const DRAFTS_TOLD_PER_ANSWER_MAX: usize = 4096;
/// How long a split is offered after one holder told that it heard: four heartbeats, in which the other one hears it too.
pub const SPLIT_OFFERED: Duration = Duration::from_secs(2 * 60);
/// Questions of a node that wait, one for each holder of its identity, and answers that are kept for it.
pub const FRESHNESS_KEPT_MAX: usize = 4;
/// Between two questions of one node that are passed on, and of one holder that are noted: each is a write.
pub const FRESHNESS_ASKED_INTERVAL: Duration = Duration::from_secs(10);
/// How far the audit reaches, as the controller hands it over.
pub const AUDIT_HEAD_FILE_MAX: usize = 1024;
/// Between two times that the controller hands it over: each is a write.
pub const AUDIT_HEAD_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Between two times that the worker keeps it in its ledger.
pub const AUDIT_ANCHOR_INTERVAL: Duration = Duration::from_secs(3600);
/// One line of the audit: 700 bytes in truth; protects whoever reads it.
pub const AUDIT_LINE_MAX: usize = 2048;
/// A file of the audit takes lines until it has so many bytes; then the next file goes on with the chain.
pub const AUDIT_FILE_MAX: usize = 64 * 1024 * 1024;
/// Entries of its directory that are looked at: more files than a disk has room for.
pub const AUDIT_FILES_MAX: usize = 4096;
/// Refused calls of one caller within a minute that have a line of their own; the others are one line with their number.
pub const REFUSED_LINES_PER_MINUTE: u32 = 10;
/// Nodes in one answer, 400 bytes each: protects the controller, which makes it whole.
pub const NODES_PER_ANSWER_MAX: usize = 1000;
/// Lines of the audit in one answer.
pub const AUDIT_PER_ANSWER_MAX: usize = 500;
/// Nodes that a worker ever lets in, and so entries of either list that it signs: a barred key stays barred for good, and
/// one that no list has room for would be accepted again. Whoever cannot be barred is not let in.
pub const LIST_ENTRIES_MAX: usize = 32 * 1024;
/// What is signed in such a list: 32,768 ids with the longest name each; protects whoever reads it.
pub const LIST_PAYLOAD_MAX: usize = 4 * 1024 * 1024;
/// Such a list as it travels, in base64 with its signature: the same.
pub const LIST_FILE_MAX: usize = 6 * 1024 * 1024;
/// The worker signs each list at least this often, so that its time says how old it is.
pub const LIST_INTERVAL: Duration = Duration::from_secs(3600);
/// By an older list of names no id is shown by its name: it could map a name to a thief's key that was barred since.
pub const LIST_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// A list may be from this far ahead of the reader's clock; from further ahead its age says nothing.
pub const LIST_AHEAD: Duration = Duration::from_secs(5 * 60);
