//! Reading an order whole before it is signed, and signing it.
//!
//! What is shown is made from the bytes that are signed. The code is computed from them anew and has to be the one that
//! was typed; the fleet has to be the one of the context's own root. Whatever the controller says beside is not believed.

use lucia_daemon::clock;
use lucia_people::owner_api::{DraftView, DraftsView, OwnerEndpoint};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::DRAFTS_MAX;
use lucia_proto::base::text::{chain, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::roster::{Roster, VerifiedRoster};
use lucia_proto::orders::{Draft, DraftError, OrderSignature, ReadDraft, Terms};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use thiserror::Error;

use crate::client::{Client, Me};
use crate::failure::{Ending, Failure};
use crate::nodes_named::Meant;
use crate::tell::{self, Out, ask, note, write_beside};
use crate::{nodes_named, roster};

/// Why nothing was signed.
#[derive(Debug, Error)]
pub(crate) enum SignError {
    /// It is nothing that anybody would carry out.
    #[error("nothing was signed: {}", shown(&chain(.0)))]
    Draft(DraftError),
    /// It is another order.
    #[error(
        "nothing was signed: {asked} was asked for, and the controller sent the order {sent}. It is faulty or lies; take \
         the code from luciactl drafts again, and if this stays trust none of what it shows"
    )]
    OtherCode {
        /// As typed.
        asked: VerificationCode,
        /// What came.
        sent: VerificationCode,
    },
    /// It is of another fleet.
    #[error(
        "nothing was signed: the order is for the fleet of root {sent}, this context is of {own}; use the context of that \
         fleet, or draft it anew in this one"
    )]
    OtherFleet {
        /// Of the context.
        own: Digest,
        /// Of the draft.
        sent: Digest,
    },
    /// The controller answered with another draft.
    #[error(
        "nothing was signed: the controller keeps another draft than the one it was given. It is faulty or lies; its log \
         may say more"
    )]
    OtherDraft,
    /// It is signed already.
    #[error("you signed {0} already; luciactl drafts shows what it waits for")]
    Already(VerificationCode),
    /// It admits a machine, and nobody is there to type what that machine shows.
    #[error(
        "nothing was signed: an admission that this run did not draft takes somebody at a terminal, who types the \
         fingerprint from the machine's own screen; run it there without --yes. With the fingerprint at hand, give the \
         order yourself: luciactl admit {0} --fingerprint HEX"
    )]
    TypeAdmission(VerificationCode),
    /// Another machine than the one at whose screen somebody stands.
    #[error(
        "nothing was signed: this order admits another machine than the one whose fingerprint you typed. If you typed all \
         64 digits from the machine's own screen, somebody stands between you and it: sign nothing, and look who drafted \
         this order (luciactl drafts). The order is for code {0}"
    )]
    OtherMachine(VerificationCode),
    /// Its time is over.
    #[error("nothing was signed: {code} had to be signed until {until}; draft it anew")]
    Over {
        /// Which.
        code: VerificationCode,
        /// Its end.
        until: UnixTime,
    },
}

/// Reads a draft that came for `code`.
pub(crate) fn read<'a>(draft: &'a Draft, code: &VerificationCode, fleet: &Digest) -> Result<ReadDraft<'a>, SignError> {
    let read = draft.read_new().map_err(SignError::Draft)?;
    if read.code() != *code {
        return Err(SignError::OtherCode { asked: code.clone(), sent: read.code() });
    }
    own(&read, fleet)?;
    Ok(read)
}

fn own(read: &ReadDraft<'_>, fleet: &Digest) -> Result<(), SignError> {
    let sent = read.intent().fleet;
    if sent == *fleet { Ok(()) } else { Err(SignError::OtherFleet { own: *fleet, sent }) }
}

/// `sign CODE`.
pub(crate) async fn sign(
    client: &Client,
    me: &Me,
    out: Out,
    code: &VerificationCode,
    yes: bool,
) -> Result<(), Failure> {
    let roster = roster::signer(client, me, &[]).await?;
    let view: DraftView = client.look(OwnerEndpoint::Draft, Some(code)).await?;
    let draft = read(&view.draft, code, &me.fleet())?;
    roster::may_order(&roster, draft.intent().kind)?;
    match draft.intent().terms {
        Terms::Once { not_after, .. } if not_after < clock::now() => {
            return Err(SignError::Over { code: code.clone(), until: not_after }.into());
        }
        Terms::Once { .. } | Terms::State { .. } => (),
    }
    if view.signatures.iter().any(|signature| signature.owner == *me.id()) {
        return Err(SignError::Already(code.clone()).into());
    }
    if let Some(fingerprint) = draft.body().new_key() {
        compare(fingerprint, yes)?;
    }
    tell(client, me, &view.draft, &[], yes).await?;
    if draft.intent().owner != *me.id() {
        note("Another owner gave this order; yours is the second signature.");
    }
    if !yes {
        ask("What stands above is all that is signed.", "yes").map_err(Failure::unsigned)?;
    }
    let signature = hand_in(client, me, &draft).await?;
    out.say(&signature, || format!("{}\n", given(&view.draft, &signature)))
}

/// Has the key of an admission typed from the machine's own screen before anything of the order is shown. A draft that
/// this run did not make may be anybody's, whoever it says drafted it, and a lying controller made the rest of it fit.
fn compare(ordered: &Fingerprint, yes: bool) -> Result<(), Failure> {
    let say = || SignError::TypeAdmission(ordered.verification_code());
    let typed = tell::fingerprint(None, yes).map_err(|failure| match failure {
        Failure::SayFingerprint => say().into(),
        failure => failure,
    })?;
    if typed == *ordered { Ok(()) } else { Err(SignError::OtherMachine(ordered.verification_code()).into()) }
}

/// Shows an order whole, as it is about to be signed: where the question is asked, whatever becomes of the answer.
pub(crate) async fn tell(client: &Client, me: &Me, draft: &Draft, meant: &[Meant], yes: bool) -> Result<(), Failure> {
    let read = draft.read_new().map_err(SignError::Draft)?;
    let mut lines = read.words();
    lines.extend(beside(&read, me.roster.get().map(VerifiedRoster::roster)));
    write_beside(&lines)?;
    nodes_named::tell(client, me, &read, meant, yes).await.map_err(Failure::unsigned)
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
async fn hand_in(client: &Client, me: &Me, read: &ReadDraft<'_>) -> Result<OrderSignature, Failure> {
    let (code, signature) = (read.code(), read.sign(me.id().clone(), &me.key));
    let sent = client.act(OwnerEndpoint::Sign, &code, Some(&signature)).await;
    let failed = |error| {
        let ending = Ending::of(&error, &code);
        Failure::Shown { failure: Box::new(error.into()), ending }
    };
    sent.map_err(failed)?;
    nodes_named::remember(me, read);
    Ok(signature)
}

/// Hands in a draft of our own, and a signature under it. What is signed is what was shown, whatever comes back.
pub(crate) async fn give(client: &Client, me: &Me, draft: &Draft) -> Result<OrderSignature, Failure> {
    let read = draft.read_new().map_err(SignError::Draft)?;
    own(&read, &me.fleet())?;
    let kept: Result<DraftView, _> = client.hand_in(OwnerEndpoint::AddDraft, draft).await;
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
    client: &Client,
    me: &Me,
    out: Out,
    draft: &Draft,
    meant: &[Meant],
    sentence: &str,
    yes: bool,
) -> Result<(), Failure> {
    tell(client, me, draft, meant, yes).await?;
    if !yes {
        let read = draft.read_new().map_err(SignError::Draft)?;
        let otherwise = nodes_named::otherwise(&read, meant).map(|line| format!("\n{line}")).unwrap_or_default();
        ask(&format!("{sentence}{otherwise}"), "yes").map_err(Failure::unsigned)?;
    }
    let signature = give(client, me, draft).await?;
    out.say(&signature, || format!("{}\n", given(draft, &signature)))
}

/// The orders there are, newest first: as many answers as the controller's list has.
pub(crate) async fn drafts(client: &Client) -> Result<DraftsView, Failure> {
    let mut all: DraftsView = client.look(OwnerEndpoint::Drafts, None).await?;
    let mut goes_on = all.goes_on();
    while goes_on && all.drafts.len() < DRAFTS_MAX {
        let Some(after) = all.drafts.last().map(|draft| draft.code.clone()) else { break };
        let page: DraftsView = client.look_after(OwnerEndpoint::Drafts, &after).await?;
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
            assert!(matches!(read(&other, &code, &world.fleet), Err(SignError::OtherCode { .. })), "{kind:?}");
            let foreign = |intent: &mut OrderHead| intent.fleet = Digest::of(b"another root");
            let foreign = world.draft(*kind, foreign);
            let its_code = foreign.read().unwrap().code();
            assert!(matches!(read(&foreign, &its_code, &world.fleet), Err(SignError::OtherFleet { .. })), "{kind:?}");
            // The same code over another body: the head's hash gives it away.
            let mut edited = draft.clone();
            edited.body = edited.body.replacen('{', "{ ", 1);
            assert!(matches!(read(&edited, &code, &world.fleet), Err(SignError::Draft(_))), "{kind:?}");
        }
    }
}
