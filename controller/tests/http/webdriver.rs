//! A browser to look with: real Chromium, headless, driven by WebDriver's own JSON over plain HTTP on loopback.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use lucia_proto::digest::Digest;
use lucia_proto::test_support::key;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::site::{NAME, Scratch, Site};

/// The longest that anything in a browser is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The name WebDriver gives to an element's id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Whether there is a browser; notes that `test` is skipped where there is none: `make test` counts the note, and it is
/// a failure under CI.
pub(crate) fn is_there(test: &str) -> bool {
    let found = |program: &str| std::env::split_paths(&path()).any(|dir| dir.join(program).is_file());
    if found("chromium") && found("chromedriver") {
        return true;
    }
    let notes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(test), format!("{test}: there is no chromium. Cure: make setup as root\n")).unwrap();
    false
}

#[expect(clippy::disallowed_methods, reason = "where programs are is the machine's to say")]
fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// A browser with one window, closed when dropped.
pub(crate) struct Browser {
    driver: Child,
    /// Kept open: a driver that cannot write ends.
    _said: Lines<BufReader<ChildStdout>>,
    port: u16,
    session: String,
    site: String,
    _profile: Scratch,
}

impl Browser {
    /// Starts one that finds `site` under its own name and knows its certificate.
    pub(crate) fn new(site: &Site) -> Self {
        let profile = Scratch::new();
        let (driver, said, port) = start();
        let known = Digest::of(key(210).public().der());
        let args = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--window-size=1280,900".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
            format!("--host-resolver-rules=MAP {NAME} 127.0.0.1"),
            format!("--ignore-certificate-errors-spki-list={}", base64(known.as_bytes())),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let mut browser = Self {
            driver,
            _said: said,
            port,
            session: String::new(),
            site: format!("https://{NAME}:{}", site.address.port()),
            _profile: profile,
        };
        let begun = browser.send("POST", "/session", &wanted);
        browser.session = begun["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {begun}")).to_owned();
        browser
    }

    /// A command of the session; its value.
    pub(crate) fn call(&self, method: &str, command: &str, body: &Value) -> Value {
        self.send(method, &format!("/session/{}{command}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.try_send(method, path, body);
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }

    fn try_send(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let lower = line.trim_end().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if lower.is_empty() {
                break;
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        answer["value"].clone()
    }

    /// An authenticator that is there, whose user agrees and is verified.
    pub(crate) fn plug_in(&self) {
        self.call(
            "POST",
            "/webauthn/authenticator",
            &json!({"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
                "isUserConsenting": true, "isUserVerified": true}),
        );
    }

    /// Goes to a document of the site.
    pub(crate) fn go(&self, path: &str) {
        self.call("POST", "/url", &json!({"url": format!("{}{path}", self.site)}));
    }

    /// The path of the document that is shown.
    pub(crate) fn path(&self) -> String {
        let url = self.call("GET", "/url", &Value::Null);
        url.as_str().unwrap().strip_prefix(&self.site).unwrap_or_default().to_owned()
    }

    /// What a script returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The text that is shown.
    pub(crate) fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    fn element(&self, css: &str) -> String {
        let mut id = None;
        self.until(css, |browser| {
            let wanted = json!({"using": "css selector", "value": css});
            let found = browser.try_send("POST", &format!("/session/{}/element", browser.session), &wanted);
            id = found[ELEMENT].as_str().map(str::to_owned);
            id.is_some()
        });
        id.unwrap()
    }

    /// Clicks as a person does.
    pub(crate) fn click(&self, css: &str) {
        let id = self.element(css);
        self.call("POST", &format!("/element/{id}/click"), &json!({}));
    }

    /// Types as a person does.
    pub(crate) fn type_in(&self, css: &str, text: &str) {
        let id = self.element(css);
        self.call("POST", &format!("/element/{id}/value"), &json!({"text": text}));
    }

    /// Waits until something holds of the browser; says what is shown otherwise.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !condition(self) {
            assert!(Instant::now() < until, "{what} did not come about at {}:\n{}", self.path(), self.text());
            std::thread::yield_now();
        }
    }

    /// Waits until this text is shown.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        self.until(&format!("{text:?}"), |browser| browser.text().contains(text));
    }

    /// Waits until the document of this path is shown.
    #[track_caller]
    pub(crate) fn is_at(&self, path: &str) {
        self.until(path, |browser| browser.path() == path && browser.run("return document.readyState") == "complete");
    }

    /// What the console has of errors since this was last asked.
    pub(crate) fn errors(&self) -> Vec<String> {
        let log = self.call("POST", "/se/log", &json!({"type": "browser"}));
        let severe = |entry: &&Value| entry["level"] == "SEVERE";
        log.as_array().unwrap().iter().filter(severe).map(|entry| entry["message"].to_string()).collect()
    }

    /// Keeps a picture in `target/page`.
    pub(crate) fn picture(&self, name: &str) {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/page");
        std::fs::create_dir_all(&dir).unwrap();
        let shot = self.call("GET", "/screenshot", &Value::Null);
        std::fs::write(dir.join(format!("{name}.png")), unbase64(shot.as_str().unwrap())).unwrap();
    }

    /// How wide the window is from now on.
    pub(crate) fn wide(&self, width: u32) {
        let height = 900;
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// Light or dark, as a person has set it.
    pub(crate) fn colours(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    fn devtools(&self, command: &str, params: Value) {
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": params}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            let _ = self.try_send("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        // The driver takes its browser with it.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test drives a browser")]
fn start() -> (Child, Lines<BufReader<ChildStdout>>, u16) {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.by_ref().find_map(|line| {
        let line = line.ok()?;
        // It tells the one that was asked for as well, which is none.
        line.rsplit_once("on port ")?.1.trim_end_matches('.').parse().ok().filter(|port| *port != 0)
    });
    (driver, lines, port.expect("chromedriver says on which port it is"))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn unbase64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}
