//! Reading an order whole before it is signed, and signing it.
//!
//! What is shown is made from the bytes that are signed. The code is computed from them anew and has to be the one that
//! was typed; the fleet has to be the one of the context's own root. Whatever the controller says beside is not believed.

use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::{DraftView, DraftsView};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::DRAFTS_MAX;
use lucia_proto::base::text::{chain, shown};
use lucia_proto::orders::roster::{Roster, VerifiedRoster};
use lucia_proto::orders::{Actor, Draft, DraftError, OrderSignature, ReadDraft};
use lucia_proto::pki::key::VerificationCode;

use crate::client::{Client, Me};
use crate::nodes_named::{self, Meant};
use crate::problem::{FAILED, Failure, problems};
use crate::session::Session;
use crate::tell::{ask, note, write_beside};

problems! {
    /// Why nothing was signed.
    pub(crate) enum SignError {
        Draft(why: DraftError) = draft(why), FAILED, ["nothing was signed: {}", shown(&chain(why))];
        OtherCode(asked: VerificationCode, sent: VerificationCode) = "order_mismatch", FAILED,
            ["nothing was signed: {asked} was asked for, and the controller sent the order {sent}. It is faulty or lies"],
            ["take the code from luciactl drafts again, and if this stays trust none of what it shows"];
        OtherFleet(own: Digest, sent: Digest) = "other_fleet", FAILED,
            ["nothing was signed: the order is for the fleet of root {sent}, this context is of {own}"],
            ["use the context of that fleet, or draft it anew in this one"];
        OtherDraft = "draft_mismatch", FAILED,
            ["nothing was signed: the controller keeps another draft than the one it was given. It is faulty or lies"],
            ["its log may say more"];
    }
}

const fn draft(why: &DraftError) -> &'static str {
    if matches!(why, DraftError::BodyMismatch) { "body_mismatch" } else { "malformed" }
}

/// Reads a draft that came for `code`.
pub(crate) fn read<'a>(draft: &'a Draft, code: &VerificationCode, fleet: &Digest) -> Result<ReadDraft<'a>, SignError> {
    let read = draft.read_new().map_err(SignError::Draft)?;
    if read.code() != *code {
        return Err(SignError::OtherCode(code.clone(), read.code()));
    }
    own(&read, fleet)?;
    Ok(read)
}

fn own(read: &ReadDraft<'_>, fleet: &Digest) -> Result<(), SignError> {
    let sent = read.intent().fleet;
    if sent == *fleet { Ok(()) } else { Err(SignError::OtherFleet(*fleet, sent)) }
}

/// Shows an order whole, as it is about to be signed: where the question is asked, whatever becomes of the answer.
pub(crate) async fn tell(client: &Client, me: &Me, draft: &Draft, meant: &[Meant], yes: bool) -> Result<(), Failure> {
    let read = draft.read_new().map_err(SignError::Draft)?;
    let mut lines = read.words();
    lines.extend(beside(&read, me.roster.get().map(VerifiedRoster::roster)));
    write_beside(&lines)?;
    warn(client, &read).await;
    nodes_named::tell(client, me, &read, meant, yes).await.map_err(Failure::unsigned)
}

/// Before a signature: what stands between this order and its nodes. A controller that does not tell says nothing.
async fn warn(client: &Client, read: &ReadDraft<'_>) {
    let (kind, nodes) = (read.intent().kind, &read.intent().nodes);
    if !kind.actors().contains(&Actor::Node) {
        return;
    }
    let Ok(agents) = client.agents().await else { return };
    for agent in agents.iter().filter(|agent| nodes.contains(&agent.node_id)) {
        if let Some(obstacle) = agent.obstacle(kind) {
            note(&format!("{}: {}", agent.hostname, obstacle.words(kind)));
        }
    }
}

/// What stands under the words of an order: the same bytes as they are compared by eye, and the owner's name by the roster
/// that was checked.
fn beside(read: &ReadDraft<'_>, roster: Option<&Roster>) -> Vec<String> {
    let mut lines = Vec::new();
    let giver = &read.intent().owner;
    if let Some(owner) = roster.and_then(|roster| roster.owners.iter().find(|owner| owner.id == *giver)) {
        lines.push(format!("That owner is {}, by the roster.", owner.name));
    }
    if let Some(fingerprint) = read.body().new_key() {
        lines.push("That key as the machine's own screen shows it:".to_owned());
        lines.extend(fingerprint.rows().map(|row| format!("  {row}")));
    }
    lines
}

/// Signs an order that the controller has, and hands the signature in. What fails says how far it came.
pub(crate) async fn hand_in(client: &Client, me: &Me, read: &ReadDraft<'_>) -> Result<OrderSignature, Failure> {
    let (code, signature) = (read.code(), read.sign(me.id().clone(), &me.key));
    let sent = client.act(PeopleCall::Sign, &code, Some(&signature)).await;
    sent.map_err(|error| {
        let ending = error.ending(&code);
        Failure::from(error).ended(ending)
    })?;
    nodes_named::remember(me, read);
    Ok(signature)
}

/// Hands in a draft of our own, and a signature under it. What is signed is what was shown, whatever comes back.
pub(crate) async fn give(client: &Client, me: &Me, draft: &Draft) -> Result<OrderSignature, Failure> {
    let read = draft.read_new().map_err(SignError::Draft)?;
    own(&read, &me.fleet())?;
    let kept: Result<DraftView, _> = client.post(PeopleCall::AddDraft, &"", draft).await;
    let kept = kept.map_err(|error| Failure::from(error).unsigned())?;
    if kept.draft != *draft {
        return Err(SignError::OtherDraft.into());
    }
    hand_in(client, me, &read).await
}

/// What to look at next.
pub(crate) fn given(draft: &Draft, signature: &OrderSignature) -> String {
    let what = draft.read().map(|read| format!("{} ({})", read.code(), read.intent().kind.as_str()));
    let key = signature.key.verification_code();
    format!("Signed order {} with key {key}. luciactl drafts shows what becomes of it.", what.unwrap_or_default())
}

/// Shows an order of our own, about nodes that were typed so, asks, and gives it.
pub(crate) async fn order(
    session: &Session,
    me: &Me,
    draft: &Draft,
    meant: &[Meant],
    sentence: &str,
    yes: bool,
) -> Result<(), Failure> {
    tell(&session.client, me, draft, meant, yes).await?;
    let read = draft.read_new().map_err(SignError::Draft)?;
    let otherwise = nodes_named::otherwise(&read, meant).map(|line| format!("\n{line}")).unwrap_or_default();
    ask(&format!("{sentence}{otherwise}"), "yes", yes).map_err(|error| Failure::from(error).unsigned())?;
    let signature = give(&session.client, me, draft).await?;
    session.out.say(&signature, || format!("{}\n", given(draft, &signature)))
}

/// The orders there are, newest first: as many answers as the controller's list has.
pub(crate) async fn drafts(client: &Client) -> Result<DraftsView, Failure> {
    let mut all: DraftsView = client.call(PeopleCall::Drafts, &"").await?;
    let mut goes_on = all.goes_on();
    while goes_on && all.drafts.len() < DRAFTS_MAX {
        let Some(after) = all.drafts.last().map(|draft| draft.code.clone()) else { break };
        let page: DraftsView = client.after(PeopleCall::Drafts, &after).await?;
        goes_on = page.goes_on();
        all.drafts.extend(page.drafts);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::base::time::UnixTime;
    use lucia_proto::orders::{OrderHead, OrderKind};
    use lucia_proto::test_support::OrderWorld;

    // spec: LC-104
    #[test]
    fn the_key_of_an_admission_stands_in_the_rows_of_the_screen_as_well() {
        let world = OrderWorld::new(UnixTime::from_secs(1_800_000_000));
        for kind in OrderKind::ALL {
            let draft = world.draft(*kind, |_| ());
            let lines = beside(&draft.read().unwrap(), None);
            let [first, second] = world.node.fingerprint.rows();
            let want = [format!("  {first}"), format!("  {second}")];
            match kind {
                OrderKind::Admit => assert_eq!(lines[1..], want),
                _ => assert_eq!(lines, [""; 0], "{kind:?}"),
            }
        }
    }

    // spec: LC-6
    #[test]
    fn only_the_very_order_of_the_code_and_fleet_is_read() {
        let world = OrderWorld::new(UnixTime::from_secs(1_800_000_000));
        for kind in OrderKind::ALL {
            let draft = world.draft(*kind, |_| ());
            let code = draft.read().unwrap().code();
            assert_eq!(read(&draft, &code, &world.fleet).unwrap().code(), code);
            let other =
                world.draft(*kind, |intent| intent.issued_at = world.now.plus(std::time::Duration::from_secs(1)));
            assert!(matches!(read(&other, &code, &world.fleet), Err(SignError::OtherCode(..))), "{kind:?}");
            let foreign = |intent: &mut OrderHead| intent.fleet = Digest::of(b"another root");
            let foreign = world.draft(*kind, foreign);
            let its_code = foreign.read().unwrap().code();
            assert!(matches!(read(&foreign, &its_code, &world.fleet), Err(SignError::OtherFleet(..))), "{kind:?}");
            // The same code over another body: the head's hash gives it away.
            let mut edited = draft.clone();
            edited.body = edited.body.replacen('{', "{ ", 1);
            assert!(matches!(read(&edited, &code, &world.fleet), Err(SignError::Draft(_))), "{kind:?}");
        }
    }
}
