//! Orders: those there are, what an owner signs of them, and what is thrown away.

use std::fmt::Write as _;

use clap::Args;
use lucia_daemon::clock::now;
use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::{DraftLine, DraftState, DraftView, DraftsView};
use lucia_people::words;
use lucia_proto::base::text::{counted, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::{OrderCode, Terms};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use crate::client::Me;
use crate::fingerprint::{self, FingerprintError};
use crate::names::Names;
use crate::problem::{FAILED, Failure, USAGE, problems};
use crate::roster::{self, OwnerNames};
use crate::session::Session;
use crate::sign;
use crate::table::{Row, Tone, plain, table};
use crate::tell::{Out, ask, note};

problems! {
    /// Why an order was neither signed nor dropped.
    pub(crate) enum OrdersError {
        NoOrder(code: VerificationCode) = "not_found", FAILED, ["no order has the code {code}"],
            ["luciactl drafts shows those there are"];
        Kept(code: VerificationCode, why: &'static str) = "cannot_drop", FAILED, ["nothing was dropped: the order {code} {why}"];
        Already(code: VerificationCode) = "already_signed", FAILED, ["you signed {code} already"],
            ["luciactl drafts shows what it waits for"];
        TypeAdmission(code: VerificationCode) = "fingerprint_needed", USAGE,
            ["nothing was signed: an admission that this run did not draft takes somebody at a terminal, who types the fingerprint \
              from the machine's own screen; run it there without --yes."],
            ["With the fingerprint at hand, give the order yourself: luciactl admit {code} --fingerprint HEX"];
        OtherMachine(code: VerificationCode) = "fingerprint_mismatch", FAILED,
            ["nothing was signed: this order admits another machine than the one whose fingerprint you typed."],
            ["If you typed all 64 digits from the machine's own screen, somebody stands between you and it: sign nothing, and look \
              who drafted this order (luciactl drafts). The order is for code {code}"];
        Over(code: VerificationCode, until: UnixTime) = "expired", FAILED,
            ["nothing was signed: {code} had to be signed until {until}"], ["draft it anew"];
    }
}

/// Shows an order in words made from the very bytes, and signs it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl sign --list\n  luciactl sign 1a2b-3c4d-5e6f")]
pub(crate) struct Sign {
    /// The order's code, as the page or `luciactl drafts` shows it.
    #[arg(value_name = "CODE", required_unless_present = "list")]
    code: Option<VerificationCode>,
    /// Shows the orders that wait for a signature, and signs none.
    #[arg(long, conflicts_with_all = ["code", "yes"])]
    list: bool,
    /// Does not ask: signs whatever has this code. For orders that you drafted yourself: a code is short enough for a
    /// rich enemy to make another order of the same code, which only who reads it sees. An admission is never signed so.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn sign(session: &Session, asked: Sign) -> Result<(), Failure> {
    let me = session.owner("signing")?;
    if let Some(code) = &asked.code {
        return sign_one(session, me, code, asked.yes).await;
    }
    let mut view = sign::drafts(&session.client).await?;
    view.drafts.retain(|line| line.state == DraftState::Drafted);
    say(session, &view, waiting).await
}

async fn sign_one(session: &Session, me: &Me, code: &VerificationCode, yes: bool) -> Result<(), Failure> {
    let client = &session.client;
    let roster = roster::signer(client, me, &[]).await?;
    let view: DraftView = client.call(PeopleCall::Draft, code).await?;
    let draft = sign::read(&view.draft, code, &me.fleet())?;
    roster::may_order(&roster, draft.intent().kind)?;
    match draft.intent().terms {
        Terms::Once { not_after, .. } if not_after < now() => {
            return Err(OrdersError::Over(code.clone(), not_after).into());
        }
        Terms::Once { .. } | Terms::State { .. } => (),
    }
    if view.signatures.iter().any(|signature| signature.owner == *me.id()) {
        return Err(OrdersError::Already(code.clone()).into());
    }
    if let Some(fingerprint) = draft.body().new_key() {
        compare(fingerprint, yes)?;
    }
    sign::tell(client, me, &view.draft, &[], yes).await?;
    if draft.intent().owner != *me.id() {
        note("Another owner gave this order; yours is the second signature.");
    }
    let sentence = "What stands above is all that is signed.";
    ask(sentence, "yes", yes).map_err(|error| Failure::from(error).unsigned())?;
    let signature = sign::hand_in(client, me, &draft).await?;
    session.out.say(&signature, || format!("{}\n", sign::given(&view.draft, &signature)))
}

/// Has the key of an admission typed from the machine's own screen before anything of the order is shown. A draft that
/// this run did not make may be anybody's, whoever it says drafted it, and a lying controller made the rest of it fit.
fn compare(ordered: &Fingerprint, yes: bool) -> Result<(), Failure> {
    let typed = fingerprint::typed(None, yes).map_err(|failure| match failure.as_a() {
        Some(FingerprintError::Missing) => OrdersError::TypeAdmission(ordered.verification_code()).into(),
        _ => failure,
    })?;
    if typed == *ordered { Ok(()) } else { Err(OrdersError::OtherMachine(ordered.verification_code()).into()) }
}

/// Shows orders, who signed them, and what became of them; the page has them under Orders.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl drafts\n  luciactl orders -o wide")]
pub(crate) struct Drafts;

pub(super) async fn list_all(session: &Session, _: Drafts) -> Result<(), Failure> {
    say(session, &sign::drafts(&session.client).await?, drafts).await
}

/// Throws an order away that nobody was handed, or that nobody carries out any more.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl drop 1a2b-3c4d-5e6f")]
pub(crate) struct Drop {
    /// Its code.
    code: VerificationCode,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn discard(session: &Session, asked: Drop) -> Result<(), Failure> {
    let client = &session.client;
    if let Some(me) = client.me() {
        roster::signer(client, me, &[]).await?;
    }
    let view = sign::drafts(client).await?;
    let line = view
        .drafts
        .iter()
        .find(|line| line.code == asked.code)
        .ok_or_else(|| OrdersError::NoOrder(asked.code.clone()))?;
    if let Some(why) = kept(line) {
        return Err(OrdersError::Kept(asked.code.clone(), why).into());
    }
    ask(&dropping(line), "yes", asked.yes)?;
    client.act(PeopleCall::DropDraft, &asked.code, None::<&()>).await?;
    let view = sign::drafts(client).await?;
    say(session, &view, drafts).await
}

/// A list of orders; for a person with the names of who signed, carried out and refused.
async fn say(
    session: &Session,
    view: &DraftsView,
    words: impl FnOnce(&DraftsView, &Called, Out) -> String,
) -> Result<(), Failure> {
    let (client, out) = (&session.client, session.out);
    let mut names = Called::default();
    if !out.json {
        names.owners = roster::names(client, view.drafts.iter().flat_map(|draft| &draft.signers)).await;
        let told = view.drafts.iter().flat_map(|draft| &draft.outcomes).map(|outcome| &outcome.node_id);
        names.nodes.learn(client, told, false).await;
    }
    out.say(view, || words(view, &names, out))
}

/// What people call whom a list of orders has by their ids.
#[derive(Debug, Default)]
struct Called {
    owners: OwnerNames,
    nodes: Names,
}

/// `drafts`, and under the table what went wrong with which.
fn drafts(view: &DraftsView, names: &Called, out: Out) -> String {
    if view.drafts.is_empty() {
        return "No orders yet. luciactl admit, keys, clone, remove and release-lapse make one, and so does the page.\n"
            .to_owned();
    }
    let mut text = list(view, names, out);
    if view.drafts.iter().any(|draft| draft.handed_out) {
        text.push_str("\nWhat was handed out cannot be called back: whoever has it may still carry it out.\n");
    }
    for draft in &view.drafts {
        if let Some(awaited) = draft.awaited() {
            let _ = writeln!(text, "\n{}  {awaited}", draft.code);
        }
        if !draft.gone.is_empty() || draft.state == DraftState::Replaced {
            let _ = writeln!(text, "\n{}  {}", draft.code, draft.words());
        }
        for outcome in &draft.outcomes {
            let Some(code) = refusal(outcome) else { continue };
            let _ = write!(
                text,
                "\n{}  refused by or for {} at {}: {} ({})",
                draft.code,
                names.nodes.of(&outcome.node_id),
                outcome.at,
                words::order_refused(code),
                code.as_str()
            );
            let _ = writeln!(text, "\n{:16}{}", "", code.cure());
        }
    }
    text
}

/// Why somebody did not do it; that it came twice, or that a later one holds, is no refusal.
fn refusal(outcome: &Outcome) -> Option<OrderCode> {
    outcome.refused.filter(|code| !code.is_repeat() && !code.is_overtaken())
}

/// `sign --list`.
fn waiting(view: &DraftsView, names: &Called, out: Out) -> String {
    if view.drafts.is_empty() {
        return "No order waits for a signature. luciactl drafts shows those that were given.\n".to_owned();
    }
    let mut text = list(view, names, out);
    text.push_str("\nRead one whole before you sign it: luciactl sign CODE\n");
    text
}

/// The whole ids are for programs, and for whoever wants all of it.
const IDS: [&str; 2] = ["OWNER", "ORDER"];

fn list(view: &DraftsView, names: &Called, out: Out) -> String {
    let mut heading = vec!["CODE", "KIND", "ABOUT", "STATE", "CARRIED OUT BY", "SIGNED BY", "AGE", "DRAFTED BY"];
    heading.extend(IDS.iter().filter(|_| out.wide));
    let row = |draft| {
        let mut cells = row(view, names, draft);
        cells.truncate(heading.len());
        cells
    };
    let rows: Vec<_> = view.drafts.iter().map(row).collect();
    table(&heading, &rows, out.screen)
}

fn row(view: &DraftsView, names: &Called, draft: &DraftLine) -> Row {
    let (state, tone) = match draft.state {
        DraftState::Drafted => ("waits for a signature", Tone::Attention),
        DraftState::Signed if draft.handed_out => ("handed out", Tone::Plain),
        DraftState::Signed => ("signed", Tone::Plain),
        DraftState::Done => ("carried out", Tone::Good),
        DraftState::Refused => ("refused", Tone::Bad),
        DraftState::Replaced => ("replaced", Tone::Plain),
        DraftState::NobodyLeft => ("nobody left", Tone::Attention),
        DraftState::Expired => ("expired", Tone::Attention),
    };
    // Of who is in the roster no more an id's beginning tells people apart in a list; the order itself has it whole.
    let short = |id: &OwnerId| {
        let name = names.owners.get(id).map(ToString::to_string);
        name.unwrap_or_else(|| id.as_str().chars().take(8).collect())
    };
    let signers: Vec<String> = draft.signers.iter().map(short).collect();
    vec![
        plain(&draft.code),
        plain(draft.kind.as_str()),
        plain(draft.about.as_ref().map_or_else(|| "-".to_owned(), |about| about.as_str().to_owned())),
        (state.to_owned(), tone),
        plain(draft.told_words(|node| names.nodes.of(node)).unwrap_or_else(|| "-".to_owned())),
        plain(if signers.is_empty() { "nobody".to_owned() } else { signers.join(" ") }),
        plain(span(view.server_time.since(draft.at))),
        plain(words::actor(draft.drafted_by.as_str())),
        plain(&draft.owner),
        plain(draft.intent),
    ]
}

/// Why `drop` would be refused, as far as the list tells.
fn kept(line: &DraftLine) -> Option<&'static str> {
    match (line.state, line.handed_out) {
        (DraftState::Done, _) => Some("was carried out already; another order undoes what it did"),
        (DraftState::Signed, true) => {
            Some("was handed out and cannot be called back: luciactl drafts shows what becomes of it")
        }
        _ => None,
    }
}

/// What `drop` is about to do.
fn dropping(line: &DraftLine) -> String {
    let signers = u64::try_from(line.signers.len()).unwrap_or(u64::MAX);
    let signed = match signers {
        0 => "signed by nobody".to_owned(),
        signers => format!("signed by {}", counted(signers, "owner")),
    };
    let what = match (line.state, line.handed_out) {
        (DraftState::Drafted, _) => "It waits for a signature, and can be signed no more.",
        (DraftState::Signed, true) => "It was handed out, and is not called back by this.",
        (DraftState::Signed, false) => "It is an order by now, and whoever was not handed it is not any more.",
        _ => "It is over; what became of it is in the audit alone from then on.",
    };
    format!(
        "This throws away the order {} ({}), drafted by {} at {}, {signed}. {what}",
        line.code,
        line.kind.as_str(),
        words::actor(line.drafted_by.as_str()),
        line.at
    )
}
