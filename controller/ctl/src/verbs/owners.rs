//! Who may order.

use std::fmt::Write as _;

use clap::Args;
use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::RosterView;
use lucia_proto::orders::owner::{KeyUse, Role};
use lucia_proto::orders::roster::Roster;
use lucia_proto::orders::{OrderKind, Rule};
use lucia_proto::pki::key::{Fingerprint, NodePublicKey};

use crate::problem::Failure;
use crate::roster;
use crate::session::Session;
use crate::table::{Screen, Tone, plain, table};
use crate::tell::note;

/// Shows everybody of the roster, after checking it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl owners\n  luciactl owners -o wide")]
pub(crate) struct Owners;

pub(super) async fn list(session: &Session, _: Owners) -> Result<(), Failure> {
    let view: RosterView = session.client.call(PeopleCall::Roster, &"").await?;
    let roster = match session.client.me() {
        Some(me) => roster::newest(&view, me)?.roster().clone(),
        None => {
            note("The socket's context has no root: nothing below was checked. An owner's context checks it.");
            roster::unchecked(&view)?
        }
    };
    session.out.say(&roster, || owners(&roster, session.out.screen))
}

pub(super) const fn role(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Viewer => "viewer",
    }
}

fn owners(roster: &Roster, screen: Screen) -> String {
    let mut out = format!("Roster {} of {}\nFleet of root {}\n\n", roster.version, roster.issued_at, roster.fleet);
    if roster.owners.is_empty() {
        out.push_str("Nobody is in it. luciactl login asks for a place.\n");
        return out;
    }
    let mut rows = Vec::new();
    for owner in &roster.owners {
        for key in &owner.keys {
            let public = NodePublicKey::from_pem(&key.public_key_pem).map(|key| key.fingerprint()).ok();
            let text = |show: &dyn Fn(&Fingerprint) -> String| public.as_ref().map_or_else(|| "?".to_owned(), show);
            let key_use = match key.key_use {
                KeyUse::OwnerKey => "owner key",
                KeyUse::OrderPasskey => "passkey for orders",
            };
            rows.push(vec![
                plain(&owner.name),
                (role(owner.role).to_owned(), if owner.role == Role::Owner { Tone::Good } else { Tone::Plain }),
                plain(text(&|key| key.verification_code().to_string())),
                plain(key_use.to_owned()),
                plain(text(&Fingerprint::to_string)),
                plain(&owner.id),
            ]);
        }
    }
    out.push_str(&table(&["NAME", "ROLE", "CODE", "USE", "FINGERPRINT", "OWNER"], &rows, screen));
    for (rule, what) in [(Rule::TwoOwners, "Ordered by two owners"), (Rule::Forbid, "Ordered by nobody")] {
        let kinds = OrderKind::ALL.iter().filter(|kind| roster.policy.rule(**kind) == rule);
        let kinds: Vec<_> = kinds.map(|kind| kind.as_str()).collect();
        if !kinds.is_empty() {
            let _ = writeln!(out, "\n{what}: {}", kinds.join(", "));
        }
    }
    if !roster.page_kinds.is_empty() {
        let kinds: Vec<_> = roster.page_kinds.iter().map(|kind| kind.as_str()).collect();
        let _ = writeln!(out, "\nSigned on the page as well: {}", kinds.join(", "));
    }
    out
}
