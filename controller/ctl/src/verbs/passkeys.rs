//! Passkeys: those that sign in to the page, and those that sign orders there (design.md O2).
//!
//! One for orders is confirmed here with the owner key and approved on the worker's host. It never signs in, so that
//! whatever a sign-in is made to sign is no order. The page hands it over as text and sends nothing: whoever asks is
//! whoever has the owner key.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lucia_daemon::clock::now;
use lucia_people::calls::PeopleCall;
use lucia_people::sign_in::{PasskeyForm, PasskeyView, PasskeysView};
use lucia_proto::base::json;
use lucia_proto::base::limits::{HOST_BODY_MAX, JSON_DEPTH_MAX};
use lucia_proto::base::text::{chain, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{self, OwnerName};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use serde::Serialize;

use crate::apply::apply;
use crate::client::Me;
use crate::given::{self, GivenError};
use crate::problem::Failure;
use crate::roster::{self, RosterProblem};
use crate::session::Session;
use crate::table::{Screen, Tone, plain, table};
use crate::tell::{ask, note};

/// Confirms, lists and removes the passkeys that sign in to the page.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Example:
  luciactl passkey approve 1a2b-3c4d-5e6f

Make the passkey on the page, under Passkeys; it shows the code. One that signs in
signs no order, and one for orders signs nobody in.")]
pub(crate) enum Passkey {
    /// Confirms the passkey of this code: whoever holds it signs in under your name from now on.
    #[command(after_help = "Example:\n  luciactl passkey approve 1a2b-3c4d-5e6f")]
    Approve {
        /// The code that your own browser shows.
        code: VerificationCode,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Asks for a passkey that signs orders on the page, of the kinds that the roster's page-kinds names. It is confirmed with
    /// your owner key, approved on the worker's host, and never signs in.
    #[command(after_help = "Examples:\n  luciactl passkey orders passkey.json\n  luciactl passkey orders -")]
    Orders {
        /// What the page showed when you made it there, in a file; - is standard input.
        file: PathBuf,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Shows your passkeys; over the socket everybody's.
    #[command(after_help = "Example:\n  luciactl passkey list")]
    List,
    /// Removes one, and ends its sessions; an owner also dismisses so one that waits to be confirmed.
    #[command(after_help = "Example:\n  luciactl passkey remove 1a2b-3c4d-5e6f")]
    Remove {
        /// Its code.
        code: VerificationCode,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn passkey(session: &Session, asked: Passkey) -> Result<(), Failure> {
    let (client, out) = (&session.client, session.out);
    let view: PasskeysView = match asked {
        Passkey::List => client.call(PeopleCall::Passkeys, &"").await?,
        Passkey::Remove { code, yes } => {
            let sentence = format!("Passkey {code} signs nobody in any more, and the sessions it began end.");
            ask(&sentence, "yes", yes)?;
            client.call(PeopleCall::RemovePasskey, &code).await?
        }
        // The one way by which a passkey comes to sign anybody in.
        Passkey::Approve { code, yes } => {
            session.owner("to confirm a passkey")?;
            let sentence =
                format!("Whoever holds the passkey {code} signs in to the page under your name from now on.");
            ask(&sentence, "yes", yes)?;
            let view: PasskeyView = client.call(PeopleCall::ApprovePasskey, &code).await?;
            PasskeysView { passkeys: vec![view] }
        }
        Passkey::Orders { file, yes } => {
            return orders(session, session.owner("to ask for a passkey for orders")?, &file, yes).await;
        }
    };
    out.say(&view, || passkeys(&view, out.screen))
}

/// What was asked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    name: OwnerName,
    verification_code: VerificationCode,
    fingerprint: Fingerprint,
    expires_at: UnixTime,
}

async fn orders(session: &Session, me: &Me, file: &Path, yes: bool) -> Result<(), Failure> {
    // Whoever only looks, or is not in the roster yet, confirms nothing.
    let roster = roster::signer(&session.client, me, &[]).await?;
    let form = read(file)?;
    let key = form.key().map_err(|error| given::bad(file, format!("its key is none that signs orders ({error})")))?;
    let own = roster.caller(&me.key.public().fingerprint()).ok_or(RosterProblem::NotIn)?;
    let (name, fingerprint) = (own.0.name.clone(), key.fingerprint());
    let [first, second] = fingerprint.rows();
    let (label, code) = (shown(form.label.as_str()), owner::code(&key));
    note(&format!("Passkey      {label}\nCode         {code}\nFingerprint  {first}\n             {second}"));
    let kinds: Vec<_> = roster.roster().page_kinds.iter().map(|kind| kind.as_str()).collect();
    let what = if kinds.is_empty() {
        "none, as long as page-kinds names none (lucia-enrollment-worker roster page-kinds)".to_owned()
    } else {
        kinds.join(", ")
    };
    let sentence = format!(
        "Once it is approved, whoever holds it signs orders as {name} on the page, of these kinds: {what}. The page shows what the controller \
             says; what is signed may be something else."
    );
    ask(&sentence, "yes", yes)?;
    let application =
        Application::confirm((me.id().clone(), name.clone()), (me.fleet(), now()), (&key, form.credential_id), &me.key);
    let applied = apply(me, &application, &code).await?;
    let asked = Asked { name, verification_code: code, fingerprint, expires_at: applied.expires_at };
    session.out.say(&asked, || {
        format!(
            "Asked until {}. On the worker's host:\n\n  lucia-enrollment-worker owner approve {} --fingerprint {fingerprint}\n",
            asked.expires_at, asked.verification_code
        )
    })
}

/// What the page showed.
fn read(file: &Path) -> Result<PasskeyForm, GivenError> {
    let text = given::read(file, HOST_BODY_MAX, "what the page showed for the passkey")?;
    json::from_str(text.trim(), HOST_BODY_MAX, JSON_DEPTH_MAX).map_err(|error| {
        let why = shown(&chain(&error));
        given::bad(file, format!("it is not what the page shows for a passkey ({why}); copy all of it"))
    })
}

fn passkeys(view: &PasskeysView, screen: Screen) -> String {
    if view.passkeys.is_empty() {
        return "There is none. Make one on the page, under Passkeys, then: luciactl passkey approve CODE\n".to_owned();
    }
    let row = |passkey: &PasskeyView| {
        let owner = passkey.owner.as_ref().map_or_else(|| "nobody of the roster".to_owned(), ToString::to_string);
        let tone = if passkey.owner.is_some() { Tone::Plain } else { Tone::Bad };
        let (code, label) = (passkey.code.to_string(), shown(passkey.label.as_str()));
        vec![plain(code), (owner, tone), plain(label), plain(passkey.added_at)]
    };
    let rows: Vec<_> = view.passkeys.iter().map(row).collect();
    table(&["CODE", "SIGNS IN", "NAME", "SINCE"], &rows, screen)
}
