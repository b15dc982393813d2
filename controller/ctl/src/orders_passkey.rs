//! A passkey that signs orders on the page (design.md O2): its owner confirms it here with the owner key, and it is approved
//! on the worker's host. It never signs in, so that whatever a sign-in is made to sign is no order.
//!
//! The page hands it over as text and sends nothing: whoever asks is whoever has the owner key.

use std::io::Read as _;
use std::path::Path;

use lucia_daemon::clock::now;
use lucia_people::owner_api::Applied;
use lucia_people::sign_in::PasskeyForm;
use lucia_proto::base::json;
use lucia_proto::base::limits::{HOST_BODY_MAX, JSON_DEPTH_MAX};
use lucia_proto::base::text::{chain, shown};
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{self, OwnerName};
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use serde::Serialize;

use crate::client::{Client, Me};
use crate::failure::Failure;
use crate::login::LoginError;
use crate::roster::{self, RosterProblem};
use crate::tell::{self, Out, note};

/// What was asked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    name: OwnerName,
    verification_code: VerificationCode,
    fingerprint: Fingerprint,
    expires_at: lucia_proto::base::time::UnixTime,
}

/// `passkey orders FILE`.
pub(crate) async fn ask(client: &Client, me: &Me, out: Out, file: &Path, yes: bool) -> Result<(), Failure> {
    // Whoever only looks, or is not in the roster yet, confirms nothing.
    let roster = roster::signer(client, me, &[]).await?;
    let failed = |why: String| Failure::KeyFile { file: file.to_owned(), why };
    let form = read(file).map_err(failed)?;
    let key = form.key().map_err(|error| failed(format!("its key is none that signs orders ({error})")))?;
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
    if !yes {
        let sentence = format!(
            "Once it is approved, whoever holds it signs orders as {name} on the page, of these kinds: {what}. The page shows what the controller \
             says; what is signed may be something else."
        );
        tell::ask(&sentence, "yes")?;
    }
    let application =
        Application::confirm((me.id().clone(), name.clone()), (me.fleet(), now()), (&key, form.credential_id), &me.key);
    let applied: Applied = Client::apply(me, &application).await?;
    let code = owner::code(&key);
    if applied.verification_code != code {
        return Err(LoginError::OtherCode { own: code, sent: applied.verification_code }.into());
    }
    let asked = Asked { name, verification_code: code, fingerprint, expires_at: applied.expires_at };
    out.say(&asked, || {
        format!(
            "Asked until {}. On the worker's host:\n\n  lucia-enrollment-worker owner approve {} --fingerprint {fingerprint}\n",
            asked.expires_at, asked.verification_code
        )
    })
}

/// What the page showed.
fn read(file: &Path) -> Result<PasskeyForm, String> {
    let most = u64::try_from(HOST_BODY_MAX).unwrap_or(u64::MAX);
    let mut text = String::new();
    let read = if file == Path::new("-") {
        tell::paste("what the page showed for the passkey");
        std::io::stdin().lock().take(most).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    read.map_err(|error| error.to_string())?;
    json::from_str(text.trim(), HOST_BODY_MAX, JSON_DEPTH_MAX).map_err(|error| {
        format!("it is not what the page shows for a passkey ({}); copy all of it", shown(&chain(&error)))
    })
}
