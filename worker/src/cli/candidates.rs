//! Who asks to become an owner, and by what a person says which one.

use lucia_daemon::exit::Exit;
use lucia_proto::base::text::shown;
use lucia_proto::orders::owner::OwnerName;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use crate::applications::{Applicant, Applications};
use crate::config::Config;
use crate::home::{Home, Identity};

/// The worker's directory and what is in it.
pub(super) fn open(config: &Config) -> Result<(Home, Identity), Exit> {
    let home = Home::open(config)?;
    let identity = home.identity(config)?;
    Ok((home, identity))
}

/// What was typed of a key.
pub(super) fn typed_key(code: &str, fingerprint: &str) -> Result<(VerificationCode, Fingerprint), Exit> {
    let usage = |text: String| Exit::usage(text);
    let code = code.parse().map_err(|error| usage(format!("CODE is not {error}")))?;
    let fingerprint = Fingerprint::typed(fingerprint).map_err(|_| {
        usage("--fingerprint is not 64 hex digits; type all of them from the person's own machine".into())
    })?;
    Ok((code, fingerprint))
}

/// A name as it was typed.
pub(super) fn typed_name(name: &str) -> Result<OwnerName, Exit> {
    name.parse().map_err(|error| Exit::usage(format!("NAME is not {error}")))
}

/// A key that was somebody's once.
pub(super) const LEFT: &str = "this key is that of somebody who was removed, and counts never again; nobody was approved. Make a new key on the \
     person's machine: `luciactl login` with another --context, or move the old key's file away; then approve that";

/// Why there is no application of this code.
pub(super) fn none_of(found: &Applications, code: &VerificationCode) -> String {
    let mut text = format!(
        "nobody with code {code} asks to become an owner; see `owner pending`. They ask by luciactl login, and wait an hour"
    );
    for problem in &found.problems {
        text.push_str("\n! ");
        text.push_str(&shown(problem));
    }
    text
}

/// The one application meant, or why there is none.
pub(super) fn choose<'a>(
    found: &'a Applications,
    code: &VerificationCode,
    fingerprint: &Fingerprint,
) -> Result<&'a Applicant, String> {
    let mut same = found.open.iter().filter(|applicant| applicant.code == *code).peekable();
    if same.peek().is_none() {
        return Err(none_of(found, code));
    }
    same.find(|applicant| applicant.fingerprint == *fingerprint).ok_or_else(|| {
        format!(
            "who asks with code {code} has another fingerprint than the one given; nobody was approved. Compare all 64 \
             digits with the person's own machine; if they were typed right, this is not that person"
        )
    })
}
