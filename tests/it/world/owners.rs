//! Owners: who gets into the roster on the worker's host, and what they sign on their own machines.

use std::time::Duration;

use lucia_controller::parts::By;
use lucia_people::owner_api::{DraftLine, DraftState};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::ORDER_LIFETIME_MAX;
use lucia_proto::base::names::AccountName;
use lucia_proto::base::time::Clock as _;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{Body, Draft, LabelledKey, OrderHead, SshKeys, Terms};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::TestOwner;
use lucia_worker::config::Settings;
use lucia_worker::home::Home;
use lucia_worker::ledger::Ledger;
use lucia_worker::{owners, roster};

use super::{Machine, World};

/// A key that nobody has.
pub(crate) const SSH_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

impl World {
    /// `lucia-enrollment-worker owner approve`: whoever has a shell on the worker's host compared the code.
    pub(crate) fn approve_owner(&self, who: &TestOwner, role: Role) {
        self.at_worker(|home, identity, transaction, former, now| {
            let comes = (who.entry(role), who.key.public().fingerprint());
            owners::enter(home, identity, transaction, former, comes, now).unwrap();
        });
    }

    /// `lucia-enrollment-worker owner remove`.
    pub(crate) fn remove_owner(&self, who: &TestOwner) {
        self.at_worker(|home, identity, transaction, former, now| {
            let former = former.unwrap();
            let goes = former.owner(&who.id).unwrap();
            owners::leave(home, identity, transaction, (former, goes), now).unwrap();
        });
    }

    /// The key that the worker signs with, as a thief of its file has it.
    pub(crate) fn worker_key(&self) -> NodeKey {
        let (home, _) = self.worker_home();
        NodeKey::from_pem(&std::fs::read_to_string(home.dir.path().join("worker.key")).unwrap()).unwrap()
    }

    /// `lucia-enrollment-worker retire-key`: whoever has the root's key brings it to the worker's host.
    pub(crate) fn retire_worker_key(&self) {
        self.stop_worker();
        let (home, identity) = self.worker_home();
        let root_key = self.ca().root_key.to_pem().unwrap();
        lucia_worker::retire::retire(&home, &identity, &root_key, self.worker_clock().now()).unwrap();
        drop((home, identity));
        self.start_worker();
        self.worker_turn(self.worker_clock().now());
        self.controller().tick();
    }

    fn worker_home(&self) -> (Home, lucia_worker::home::Identity) {
        let text = std::fs::read_to_string(self.path("worker.toml")).unwrap();
        let config = Settings::parse(&text).unwrap().resolve().unwrap();
        let home = Home::open(&config).unwrap();
        let identity = home.identity(&config).unwrap();
        (home, identity)
    }

    fn at_worker(
        &self,
        act: impl FnOnce(
            &Home,
            &lucia_worker::home::Identity,
            lucia_worker::ledger::Transaction<'_>,
            Option<&VerifiedRoster>,
            lucia_proto::base::time::UnixTime,
        ),
    ) {
        let (home, identity) = self.worker_home();
        let held = Ledger::hold(&home.dir).unwrap();
        let mut ledger = Ledger::load(&home.dir).unwrap();
        let transaction = ledger.begin(&home.dir, held).unwrap();
        let former = roster::current(&home.dir, &identity, &transaction).unwrap();
        act(&home, &identity, transaction, former.as_ref(), self.worker_clock().now());
        self.0.owned.set(true);
        self.worker_turn(self.worker_clock().now());
        self.controller().tick();
    }

    /// An owner's order that is done once, for this node, as it is drafted now.
    pub(crate) fn once(&self, owner: &TestOwner, node: &NodeId, body: &Body, number: u8) -> Draft {
        let now = self.worker_clock().now();
        let terms = Terms::Once { not_after: now.plus(ORDER_LIFETIME_MAX), nonce: Nonce::from_bytes(&[number; 32]) };
        self.draft(owner, node, body, terms)
    }

    /// The keys of an account from this revision on, on this node.
    pub(crate) fn keys(&self, owner: &TestOwner, node: &NodeId, account: &str, keys: usize, revision: u64) -> Draft {
        let key = LabelledKey { label: "laptop".parse().unwrap(), key: SSH_KEY.to_owned().try_into().unwrap() };
        let account: AccountName = account.parse().unwrap();
        let subject = account.as_str().parse().unwrap();
        let body = Body::SshKey(SshKeys { account, keys: vec![key; keys] });
        self.draft(owner, node, &body, Terms::State { subject, revision })
    }

    fn draft(&self, owner: &TestOwner, node: &NodeId, body: &Body, terms: Terms) -> Draft {
        let intent = OrderHead {
            kind: body.kind(),
            fleet: self.ca().root().sha256(),
            owner: owner.id.clone(),
            nodes: vec![node.clone()],
            body_sha256: Digest::ZERO,
            issued_at: self.worker_clock().now(),
            terms,
        };
        Draft::new(intent, body).unwrap()
    }

    /// Hands a draft in, and the owner's signature under it.
    pub(crate) fn order(&self, owner: &TestOwner, draft: &Draft) {
        let by = By::Owner {
            id: owner.id.clone(),
            name: owner.name.parse().unwrap(),
            from: [10, 9, 9, 9].into(),
            via: lucia_people::audit::AuditVia::Key,
        };
        let code = draft.read().unwrap().code();
        self.controller().orders.add_draft(draft.clone(), &by).unwrap();
        self.controller().orders.sign(&code, owner.sign(draft), &by).unwrap();
    }

    /// What the controller says of an order.
    pub(crate) fn line(&self, draft: &Draft) -> DraftLine {
        let code = draft.read().unwrap().code();
        let lines = self.controller().orders.drafts(None).unwrap().drafts;
        lines.into_iter().find(|line| line.code == code).expect("a draft that was handed in")
    }

    /// Runs the machine until the order has come to this, for some minutes at most.
    pub(crate) async fn comes_to(&self, machine: &mut Machine, draft: &Draft, state: DraftState) {
        let world = self.clone();
        let draft = draft.clone();
        machine.run_until(Duration::from_secs(600), move |_| world.line(&draft).state == state).await;
    }
}
