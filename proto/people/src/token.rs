//! Automation tokens (design.md O1): by which a program looks that nobody sits at. An owner makes one; it is shown once and
//! kept as its hash, names what it may look at, ends by itself, and orders nothing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use lucia_proto::base::bounded::OutOfBounds;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::TOKEN_LIFETIME_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::checked_text;
use lucia_proto::orders::owner::OwnerName;
use lucia_proto::pki::key::VerificationCode;

/// What every token begins with: its form and that form's version.
pub const TOKEN_HEAD: &str = "t1.";
/// 32 bytes in base64url.
const SECRET_LEN: usize = 43;

checked_text! {
    /// What people call a token, and what the audit calls it.
    TokenName, BadTokenName, "a token's name: a-z first, then up to 31 of a-z, 0-9, _, . and -",
    |text| text.parse::<OwnerName>().is_ok()
}

/// What a token may look at. A closed list of groups of calls that change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// All nodes, and each with its last hour.
    Nodes,
    /// Discovery window, waiting devices, the worker.
    Onboarding,
    /// What happened to window, devices and nodes.
    Events,
    /// Who changed or ordered what.
    Audit,
    /// Orders, their words and what became of them.
    Orders,
    /// The roster.
    Owners,
    /// Unsigned SSH keys, of which there are none any more: tokens that have it are read, and it opens nothing.
    SshKeys,
    /// The controller itself.
    Status,
}

impl TokenScope {
    /// Every scope.
    pub const ALL: &'static [Self] = &[
        Self::Nodes,
        Self::Onboarding,
        Self::Events,
        Self::Audit,
        Self::Orders,
        Self::Owners,
        Self::SshKeys,
        Self::Status,
    ];

    /// The word that travels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Onboarding => "onboarding",
            Self::Events => "events",
            Self::Audit => "audit",
            Self::Orders => "orders",
            Self::Owners => "owners",
            Self::SshKeys => "ssh-keys",
            Self::Status => "status",
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The word is no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scope: nodes, onboarding, events, audit, orders, owners or status")]
pub struct BadScope;

impl FromStr for TokenScope {
    type Err = BadScope;
    fn from_str(text: &str) -> Result<Self, BadScope> {
        let given = |scope: &&Self| scope.as_str() == text && **scope != Self::SshKeys;
        Self::ALL.iter().find(given).copied().ok_or(BadScope)
    }
}

/// One scope at least, each once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<TokenScope>", into = "Vec<TokenScope>")]
pub struct TokenScopes(Vec<TokenScope>);

impl TokenScopes {
    /// Whether this one is among them.
    #[must_use]
    pub fn have(&self, scope: TokenScope) -> bool {
        self.0.contains(&scope)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[TokenScope] {
        &self.0
    }
}

impl TryFrom<Vec<TokenScope>> for TokenScopes {
    type Error = OutOfBounds;

    fn try_from(mut scopes: Vec<TokenScope>) -> Result<Self, OutOfBounds> {
        let given = scopes.len();
        scopes.sort_unstable();
        scopes.dedup();
        if scopes.is_empty() || scopes.len() != given {
            return Err(OutOfBounds { field: "scopes", rule: "one at least, each once" });
        }
        Ok(Self(scopes))
    }
}

impl From<TokenScopes> for Vec<TokenScope> {
    fn from(scopes: TokenScopes) -> Self {
        scopes.0
    }
}

/// 1 to 90 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Days(u32);

/// The number is not a token's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("1 to 90 days")]
pub struct BadDays;

impl Days {
    /// Checks the number.
    ///
    /// # Errors
    /// When it is 0 or over 90.
    pub fn new(days: u32) -> Result<Self, BadDays> {
        let span = Duration::from_secs(u64::from(days) * 24 * 3600);
        if days == 0 || span > TOKEN_LIFETIME_MAX { Err(BadDays) } else { Ok(Self(days)) }
    }

    /// As a span of time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64 * 24 * 3600)
    }
}

impl FromStr for Days {
    type Err = BadDays;
    fn from_str(text: &str) -> Result<Self, BadDays> {
        text.parse().map_err(|_| BadDays).and_then(Self::new)
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u32::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What a program presents: `t1.` and 32 random bytes in base64url. Whoever has it looks as the token may.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

/// The text is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token: t1. and 43 characters of base64url")]
pub struct BadSecret;

impl TokenSecret {
    /// The token of these random bytes.
    #[must_use]
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        Self(format!("{TOKEN_HEAD}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// What it is kept as: nobody who reads that can present it.
    #[must_use]
    pub fn kept(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// The text, for whoever is shown it once, and for the header.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Says nothing of it.
impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(...)")
    }
}

impl FromStr for TokenSecret {
    type Err = BadSecret;
    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let rest = text.strip_prefix(TOKEN_HEAD).ok_or(BadSecret)?;
        let plain = rest.len() == SECRET_LEN && URL_SAFE_NO_PAD.decode(rest).is_ok_and(|bytes| bytes.len() == 32);
        if plain { Ok(Self(text.to_owned())) } else { Err(BadSecret) }
    }
}

impl Serialize for TokenSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TokenSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Body of `POST /api/host/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TokenForm {
    /// What it is to be called; no other of the same owner is.
    pub name: TokenName,
    /// What it may look at.
    pub scopes: TokenScopes,
    /// How long it lives.
    pub days: Days,
}

/// A token, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its name in calls; says nothing of the token.
    pub code: VerificationCode,
    /// What it is called.
    pub name: TokenName,
    /// Who made it; absent when they left the roster, and then it opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerName>,
    /// What it may look at.
    pub scopes: TokenScopes,
    /// Since when.
    pub added_at: UnixTime,
    /// Until when.
    pub expires_at: UnixTime,
    /// When it was last used, since the controller's start; absent when it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<UnixTime>,
}

/// Answer of `GET /api/host/tokens` and to a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokensView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// In the order they were made.
    pub tokens: Vec<TokenView>,
}

/// Answer of `POST /api/host/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenMade {
    /// What is known of it from now on.
    pub token: TokenView,
    /// The token itself. Nobody is told it again.
    pub secret: TokenSecret,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::base::json;

    // spec: AP-21
    #[test]
    fn a_token_has_one_form_and_shows_nothing_of_itself() {
        let secret = TokenSecret::from_random(&[7; 32]);
        let text = secret.reveal().to_owned();
        assert_eq!((text.len(), text.parse::<TokenSecret>().as_ref()), (TOKEN_HEAD.len() + 43, Ok(&secret)));
        assert_eq!(secret.kept(), Digest::of(text.as_bytes()));
        assert!(!format!("{secret:?}").contains(&text[3..]));
        for bad in [
            String::new(),
            text[3..].to_owned(),
            text.replace("t1.", "t2."),
            text.replace("t1.", "T1."),
            format!("{text}A"),
            format!("{text}="),
            text[..text.len() - 1].to_owned(),
            format!("{} ", &text[..text.len() - 1]),
            // The last character has bits that no byte has.
            format!("{}9", &text[..text.len() - 1]),
        ] {
            assert!(bad.parse::<TokenSecret>().is_err(), "{bad}");
        }
    }

    // spec: AP-21
    // spec: CO-401
    #[test]
    fn scopes_are_a_closed_list_each_once_and_a_life_is_90_days_at_most() {
        for scope in TokenScope::ALL.iter().copied() {
            // Nobody asks for a scope that opens nothing.
            let parsed = if scope == TokenScope::SshKeys { Err(BadScope) } else { Ok(scope) };
            assert_eq!(scope.as_str().parse(), parsed);
            assert_eq!(json::to_string(&[scope]).unwrap(), format!("[\"{scope}\"]"));
        }
        assert_eq!("all".parse::<TokenScope>(), Err(BadScope));
        let form = |scopes: &str, days: &str| {
            let text = format!(r#"{{"name":"prometheus","scopes":[{scopes}],"days":{days}}}"#);
            json::from_str::<TokenForm>(&text, 4096, 8).ok()
        };
        let read = form(r#""status","nodes""#, "90").unwrap();
        assert_eq!(read.scopes.all(), [TokenScope::Nodes, TokenScope::Status]);
        assert!(read.scopes.have(TokenScope::Nodes) && !read.scopes.have(TokenScope::Audit));
        assert_eq!(read.days.duration(), TOKEN_LIFETIME_MAX);
        for (scopes, days) in
            [("", "90"), (r#""nodes","nodes""#, "90"), (r#""all""#, "90"), (r#""nodes""#, "91"), (r#""nodes""#, "0")]
        {
            assert_eq!(form(scopes, days), None, "{scopes} {days}");
        }
        for (text, ok) in [("prometheus", true), ("ci.nightly-2", true), ("", false), ("A", false), ("a b", false)] {
            assert_eq!(text.parse::<TokenName>().is_ok(), ok, "{text}");
        }
    }
}
