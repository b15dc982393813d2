//! Owners of a bench's site, each in a session of the page: by the built programs, as anybody becomes one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use lucia_people::calls::PeopleCall;
use lucia_people::sign_in::{self, PasskeyAsked, PasskeyForm, SignIn};
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::node::challenge::Challenge;
use lucia_proto::orders::owner::{CredentialId, PageOrigin};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::assertion;
use lucia_tests::programs::Site;
use lucia_tests::sim::{Failure, Target};
use serde_json::Value;

/// Looks at something that another program does within a moment.
const LOOKS: u32 = 200;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Somebody who is signed in.
pub(crate) struct Person {
    /// What her browser sends with each call.
    pub(crate) cookie: String,
}

/// The page of a site.
pub(crate) struct Page {
    pub(crate) origin: PageOrigin,
    pub(crate) target: Target,
}

impl Page {
    /// Has `name` become an owner, add a passkey and sign in. `number` is her passkey's.
    pub(crate) async fn enter(&self, site: &Site, name: &str, number: u8) -> Result<Person, Failure> {
        // A machine of her own: the key lies beside the settings.
        fs::create_dir(site.file(name))?;
        let [config, passphrase] = ["luciactl.toml", "passphrase"].map(|file| site.file(&format!("{name}/{file}")));
        fs::write(&passphrase, "as long as a passphrase should be\n")?;
        fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600))?;
        let ctl = |arguments: &[&str]| {
            let given = ["--config", &config, "--passphrase-file", &passphrase];
            site.run("luciactl", &[&given[..], arguments].concat())
        };
        let (root, worker) = (site.file("worker/ca/root.pem"), site.file("worker.toml"));
        let url = self.origin.as_str();
        let asked = ctl(&["--json", "login", "--controller", url, "--root", &root, "--name", name, "--no-wait"])?;
        let asked: Value = serde_json::from_slice(&asked.stdout)?;
        let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (code, hex) = (text("verificationCode"), text("fingerprint"));
        let approve = ["owner", "approve", &code, "--fingerprint", &hex, "--config", &worker];
        soon(|| site.run("lucia-enrollment-worker", &approve)).await?;
        soon(|| ctl(&["owners"])).await?;

        let key = NodeKey::from_random(&[number; 32].into()).ok_or("no key")?;
        let form = PasskeyForm {
            label: KeyLabel::fitted("bench").ok_or("no label")?,
            credential_id: CredentialId::from_bytes(vec![number; 16]).ok_or("no credential id")?,
            public_key: key.public().der().to_vec(),
        };
        let (_, body) = self.call(PeopleCall::AskPasskey, &serde_json::to_vec(&form)?).await?;
        let asked: PasskeyAsked = serde_json::from_slice(&body)?;
        ctl(&["passkey", "approve", &asked.code.to_string(), "--yes"])?;

        let (_, body) = self.call(PeopleCall::Challenge, &[]).await?;
        let challenge: Challenge = serde_json::from_slice(&body)?;
        let signed = sign_in::challenge(&challenge.challenge_id, &challenge.nonce);
        let sign_in = SignIn {
            challenge_id: challenge.challenge_id,
            credential_id: form.credential_id,
            assertion: assertion(&key, &signed, &self.origin, |_, _| ()),
        };
        let (cookie, _) = self.call(PeopleCall::SignIn, &serde_json::to_vec(&sign_in)?).await?;
        Ok(Person { cookie: cookie.ok_or("no cookie")? })
    }

    /// One call as the page makes it; the cookie that came with its answer, and the answer.
    async fn call(&self, row: PeopleCall, body: &[u8]) -> Result<(Option<String>, Bytes), Failure> {
        let mut sender = self.target.connect().await?;
        let mut request = Request::builder()
            .method(row.method())
            .uri(row.path())
            .header("Host", self.origin.rp_id())
            .header("Origin", self.origin.as_str());
        if !body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let answer = sender.send_request(request.body(Full::new(Bytes::copy_from_slice(body)))?).await?;
        let cookie = answer.headers().get("set-cookie").and_then(|value| value.to_str().ok());
        let cookie = cookie.and_then(|value| value.split(';').next()).map(str::to_owned);
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if status != StatusCode::OK && status != StatusCode::ACCEPTED {
            return Err(format!("{}: {status}: {}", row.path(), String::from_utf8_lossy(&body)).into());
        }
        Ok((cookie, body))
    }
}

/// Asks again until it is there.
async fn soon<T>(mut ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 1..LOOKS {
        if let Ok(value) = ask() {
            return Ok(value);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    ask()
}
