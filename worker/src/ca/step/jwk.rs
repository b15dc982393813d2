//! The provisioner's key, and the one-time tokens it signs (step-ca's JWK provisioner; RFC 7515, 7517 and 7519).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::{NodeKey, NodePublicKey};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zeroize::{Zeroize as _, Zeroizing};

/// A token is used at once; the rest is for clocks that differ.
const LIFETIME: Duration = Duration::from_secs(300);
/// Where the point begins in the DER of a P-256 public key: after it come x and y, 32 bytes each.
const X_AT: usize = 27;
const Y_AT: usize = 59;

/// A private JWK. Members that sign nothing (`use`, `alg`, `key_ops`) are left aside.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: String,
    x: String,
    y: String,
    d: String,
    #[serde(default)]
    kid: Option<String>,
}

impl Drop for Jwk {
    fn drop(&mut self) {
        self.d.zeroize();
    }
}

/// The provisioner's private key, by the id step-ca knows it by.
#[derive(Debug)]
pub(super) struct ProvisionerKey {
    key: NodeKey,
    id: String,
}

/// What a token says. Member names are those of step-ca.
#[derive(Serialize)]
pub(super) struct Claims<'a> {
    pub(super) iss: &'a str,
    pub(super) aud: &'a str,
    pub(super) sub: &'a str,
    pub(super) sans: &'a [String],
    pub(super) sha: &'a Digest,
}

#[derive(Serialize)]
struct WholeJwk<'a> {
    #[serde(flatten)]
    claims: &'a Claims<'a>,
    jti: String,
    iat: u64,
    nbf: u64,
    exp: u64,
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
    typ: &'static str,
}

impl ProvisionerKey {
    /// Reads a private JWK on P-256, as `step crypto jwk create` or `step crypto jwe decrypt` leave it. Its public half
    /// must be that of its private one.
    pub(super) fn read(text: &str) -> Option<Self> {
        let jwk: Jwk = serde_json::from_str(text).ok()?;
        if jwk.kty != "EC" || jwk.crv != "P-256" {
            return None;
        }
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.decode(&jwk.d).ok()?);
        let secret = Zeroizing::new(<[u8; 32]>::try_from(secret.as_slice()).ok()?);
        let key = NodeKey::from_random(&secret)?;
        let (x, y) = point(key.public());
        if (jwk.x.as_str(), jwk.y.as_str()) != (x.as_str(), y.as_str()) {
            return None;
        }
        let id = jwk.kid.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| thumbprint(&x, &y));
        Some(Self { key, id })
    }

    /// A one-time token. `jti` must be random.
    pub(super) fn token(&self, claims: &Claims<'_>, jti: [u8; 16], now: UnixTime) -> Option<String> {
        let header = Header { alg: "ES256", kid: &self.id, typ: "JWT" };
        let jti = jti.iter().map(|byte| format!("{byte:02x}")).collect();
        let (iat, exp) = (now.secs(), now.plus(LIFETIME).secs());
        let whole = WholeJwk { claims, jti, iat, nbf: iat, exp };
        let part = |json: serde_json::Result<Vec<u8>>| json.ok().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let text = format!("{}.{}", part(serde_json::to_vec(&header))?, part(serde_json::to_vec(&whole))?);
        let signature = STANDARD.decode(self.key.sign(text.as_bytes()).to_text()).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Coordinates as a JWK has them.
fn point(key: &NodePublicKey) -> (String, String) {
    let part = |from: usize| URL_SAFE_NO_PAD.encode(key.der().get(from..from + 32).unwrap_or_default());
    (part(X_AT), part(Y_AT))
}

/// RFC 7638: what step calls a key by that has no id of its own.
fn thumbprint(x: &str, y: &str) -> String {
    let text = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    URL_SAFE_NO_PAD.encode(Digest::of(text.as_bytes()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7515, appendix A.3.
    const KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}"#;
    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    // spec: WK-70
    #[test]
    fn a_token_is_what_the_provisioner_wants() {
        let key = ProvisionerKey::read(KEY).unwrap();
        assert_eq!(key.id, "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U", "RFC 7638 of that key");
        let sans = ["n1".to_owned()];
        let claims = Claims { iss: "nodes", aud: "https://ca/1.0/sign", sub: "ab", sans: &sans, sha: &Digest::ZERO };
        let token = key.token(&claims, [7; 16], NOW).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let json = |at: usize| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[at]).unwrap()).unwrap()
        };
        let want = serde_json::json!({"alg": "ES256", "kid": key.id, "typ": "JWT"});
        assert_eq!(json(0), want);
        let want = serde_json::json!({
            "iss": "nodes", "aud": "https://ca/1.0/sign", "sub": "ab", "sans": ["n1"], "sha": "0".repeat(64),
            "jti": "07".repeat(16), "iat": NOW.secs(), "nbf": NOW.secs(), "exp": NOW.secs() + 300,
        });
        assert_eq!(json(1), want);
        let signature = STANDARD.encode(URL_SAFE_NO_PAD.decode(parts[2]).unwrap());
        let signature = lucia_proto::pki::key::Signature::from_text(&signature).unwrap();
        key.key.public().verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &signature).unwrap();
    }

    // spec: WK-70
    #[test]
    fn a_key_that_is_none_is_refused() {
        let good: serde_json::Value = serde_json::from_str(KEY).unwrap();
        let with = |name: &str, value: &str| {
            let mut other = good.clone();
            other[name] = value.into();
            ProvisionerKey::read(&other.to_string())
        };
        assert_eq!(with("kid", "mine").unwrap().id, "mine");
        assert_eq!(with("use", "sig").unwrap().id, ProvisionerKey::read(KEY).unwrap().id);
        for (name, value) in [("kty", "RSA"), ("crv", "P-384"), ("d", ""), ("d", "AAAA"), ("x", "AAAA"), ("y", "")] {
            assert!(with(name, value).is_none(), "{name} {value}");
        }
        // The public half alone, and what is still encrypted.
        for text in
            [r#"{"kty":"EC","crv":"P-256","x":"","y":""}"#, "eyJhbGciOiJQQkVTMi1IUzI1NitBMTI4S1cifQ.a.b.c.d", ""]
        {
            assert!(ProvisionerKey::read(text).is_none(), "{text}");
        }
        assert!(!format!("{:?}", ProvisionerKey::read(KEY)).contains("jpsQ"));
    }
}
