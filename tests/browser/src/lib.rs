//! A browser to look with: real Chromium, headless, driven by WebDriver's own JSON over plain HTTP on loopback.
//!
//! | part | what |
//! |---|---|
//! | here | a window: where it goes, what it shows, what is clicked and typed, with an end to every wait |
//! | `driver` | chromedriver as a program, and one command of the protocol to it |
//!
//! It panics nowhere, since the demo uses it as well as the tests: each step says what it was and what was shown.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

mod driver;

use driver::Driver;

/// The longest that anything in a browser is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The name WebDriver gives to an element's id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// What has to be installed.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];

/// Why a browser did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// There is none on this machine.
    #[error("{program} is not installed. Cure: make setup as root")]
    NotThere {
        /// What is missing.
        program: &'static str,
    },
    /// The driver did not start, or does not say where it listens.
    #[error("chromedriver did not start")]
    NotStarted {
        /// Why.
        #[source]
        err: io::Error,
    },
    /// The driver does not answer.
    #[error("chromedriver does not answer {command}")]
    Silent {
        /// What it was asked.
        command: String,
        /// Why.
        #[source]
        err: io::Error,
    },
    /// The driver refuses a command, or answers with something else than it should.
    #[error("the browser says to {command}: {said}")]
    Refused {
        /// What it was asked.
        command: String,
        /// Its words.
        said: String,
    },
    /// Something did not come about.
    #[error("{what} did not come about within {} s at {at}:\n{shown}", PATIENCE.as_secs())]
    Waited {
        /// What was waited for.
        what: String,
        /// The document.
        at: String,
        /// Its text.
        shown: String,
    },
    /// A picture cannot be kept.
    #[error("cannot write {}", path.display())]
    Picture {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        err: io::Error,
    },
}

/// Whether there is a browser on this machine; what is missing otherwise.
pub fn is_there() -> Result<(), BrowserError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing =
        PROGRAMS.into_iter().find(|program| !std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    missing.map_or(Ok(()), |program| Err(BrowserError::NotThere { program }))
}

/// The browser that is wanted.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// What the path of each document is put after: `https://localhost:8443`.
    pub origin: &'a str,
    /// Its home, with its profile and, where the caller made one, the authorities it trusts (`.pki/nssdb`).
    pub home: &'a Path,
    /// More of Chromium's arguments.
    pub arguments: &'a [String],
    /// Whether to keep what [`Browser::loaded`] gives.
    pub network: bool,
}

/// A browser with one window, closed when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Driver,
    session: String,
    origin: String,
}

impl Browser {
    /// Starts one, 1280 pixels wide.
    pub fn new(wanted: &Wanted<'_>) -> Result<Self, BrowserError> {
        is_there()?;
        let mut arguments: Vec<String> = [
            "--headless=new",
            // Root has no sandbox to be in; the pages it opens are our own.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", wanted.home.join("profile").display()));
        arguments.extend_from_slice(wanted.arguments);
        let mut options = json!({"args": arguments});
        let mut logs = json!({"browser": "ALL"});
        if wanted.network {
            insert(&mut options, "perfLoggingPrefs", json!({"enableNetwork": true, "enablePage": false}));
            insert(&mut logs, "performance", json!("ALL"));
        }
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs,
        }}});
        let driver = Driver::start(wanted.home)?;
        let begun = driver.send("POST", "/session", &capabilities)?;
        let session = text(begun.get("sessionId")).ok_or_else(|| refused("a session", &begun))?;
        Ok(Self { driver, session, origin: wanted.origin.to_owned() })
    }

    /// A command of the session; its value.
    pub fn call(&self, method: &str, command: &str, body: &Value) -> Result<Value, BrowserError> {
        self.driver.send(method, &format!("/session/{}{command}", self.session), body)
    }

    /// A command of the DevTools protocol.
    pub fn devtools(&self, command: &str, params: Value) -> Result<Value, BrowserError> {
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Plugs in an authenticator that is there, whose user agrees and is verified.
    pub fn plug_in(&self) -> Result<(), BrowserError> {
        let authenticator = json!({"protocol": "ctap2", "transport": "internal", "hasResidentKey": true,
            "hasUserVerification": true, "isUserConsenting": true, "isUserVerified": true});
        self.call("POST", "/webauthn/authenticator", &authenticator).map(drop)
    }

    /// Keeps `name=value` as a cookie of the site, as one that came with `Secure; HttpOnly; SameSite=Strict`.
    pub fn keep_cookie(&self, cookie: &str) -> Result<(), BrowserError> {
        let (name, value) = cookie.split_once('=').unwrap_or((cookie, ""));
        let kept = json!({"name": name, "value": value, "url": format!("{}/", self.origin), "path": "/", "secure": true,
            "httpOnly": true, "sameSite": "Strict"});
        self.devtools("Network.setCookie", kept).map(drop)
    }

    /// Goes to a document of the site.
    pub fn go(&self, path: &str) -> Result<(), BrowserError> {
        self.call("POST", "/url", &json!({"url": format!("{}{path}", self.origin)})).map(drop)
    }

    /// The path of the document that is shown; the whole address of one elsewhere.
    pub fn path(&self) -> Result<String, BrowserError> {
        let url = self.call("GET", "/url", &Value::Null)?;
        let url = url.as_str().unwrap_or_default();
        Ok(url.strip_prefix(&self.origin).unwrap_or(url).to_owned())
    }

    /// What a script returns. The page's own policy does not bind it.
    pub fn run(&self, script: &str) -> Result<Value, BrowserError> {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script gives to the callback that is its last argument, as soon as it does.
    pub fn run_async(&self, script: &str) -> Result<Value, BrowserError> {
        self.call("POST", "/execute/async", &json!({"script": script, "args": []}))
    }

    /// The text that is shown.
    pub fn text(&self) -> Result<String, BrowserError> {
        let shown = self.run("return document.body ? document.body.innerText : ''")?;
        Ok(shown.as_str().unwrap_or_default().to_owned())
    }

    fn element(&self, css: &str) -> Result<String, BrowserError> {
        let mut id = None;
        self.until(css, |browser| {
            let found = browser.call("POST", "/elements", &json!({"using": "css selector", "value": css}))?;
            id = text(found.get(0).and_then(|first| first.get(ELEMENT)));
            Ok(id.is_some())
        })?;
        id.ok_or_else(|| refused(css, &Value::Null))
    }

    /// Clicks as a person does, once there is something to click.
    pub fn click(&self, css: &str) -> Result<(), BrowserError> {
        let id = self.element(css)?;
        self.call("POST", &format!("/element/{id}/click"), &json!({})).map(drop)
    }

    /// Types as a person does.
    pub fn type_in(&self, css: &str, text: &str) -> Result<(), BrowserError> {
        let id = self.element(css)?;
        self.call("POST", &format!("/element/{id}/value"), &json!({"text": text})).map(drop)
    }

    /// Waits until something holds of the browser; says what is shown otherwise.
    pub fn until(
        &self,
        what: &str,
        mut condition: impl FnMut(&Self) -> Result<bool, BrowserError>,
    ) -> Result<(), BrowserError> {
        let begun = now();
        while !condition(self)? {
            if begun.elapsed() > PATIENCE {
                return Err(BrowserError::Waited { what: what.to_owned(), at: self.path()?, shown: self.text()? });
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }

    /// Waits until this text is shown.
    pub fn shows(&self, text: &str) -> Result<(), BrowserError> {
        self.until(&format!("{text:?}"), |browser| Ok(browser.text()?.contains(text)))
    }

    /// Waits until the document of this path is shown.
    pub fn is_at(&self, path: &str) -> Result<(), BrowserError> {
        self.until(path, |browser| {
            Ok(browser.path()? == path && browser.run("return document.readyState")? == "complete")
        })
    }

    /// What the console has of errors since this was last asked.
    pub fn errors(&self) -> Result<Vec<String>, BrowserError> {
        let entries = self.log("browser")?;
        let severe = entries.iter().filter(|entry| entry.get("level").is_some_and(|level| level == "SEVERE"));
        Ok(severe.filter_map(|entry| text(entry.get("message"))).collect())
    }

    /// Bytes over the network, headers included, of each document and file that was loaded whole since this was last
    /// asked; nothing where it was not wanted.
    pub fn loaded(&self) -> Result<Vec<f64>, BrowserError> {
        let entries = self.log("performance")?;
        let lengths = entries.iter().filter_map(|entry| {
            let outer: Value = serde_json::from_str(entry.get("message")?.as_str()?).ok()?;
            let finished = outer.pointer("/message/method")? == "Network.loadingFinished";
            outer.pointer("/message/params/encodedDataLength")?.as_f64().filter(|_| finished)
        });
        Ok(lengths.collect())
    }

    fn log(&self, kind: &str) -> Result<Vec<Value>, BrowserError> {
        let log = self.call("POST", "/se/log", &json!({"type": kind}))?;
        match log {
            Value::Array(entries) => Ok(entries),
            other => Err(refused("the log", &other)),
        }
    }

    /// Keeps a picture of what is shown.
    pub fn picture(&self, path: &Path) -> Result<(), BrowserError> {
        let shot = self.call("GET", "/screenshot", &Value::Null)?;
        let bytes = shot.as_str().and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.ok_or_else(|| refused("a picture", &Value::Null))?;
        std::fs::write(path, bytes).map_err(|err| BrowserError::Picture { path: path.to_owned(), err })
    }

    /// How wide the window is from now on.
    pub fn wide(&self, width: u32) -> Result<(), BrowserError> {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).map(drop)
    }

    /// `light` or `dark`, as a person has set it.
    pub fn colours(&self, scheme: &str) -> Result<(), BrowserError> {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features})).map(drop)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver, which is dropped next, is ended in any case.
        let _ = self.call("DELETE", "", &Value::Null);
    }
}

fn insert(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(name.to_owned(), value);
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value?.as_str().map(str::to_owned)
}

fn refused(command: &str, said: &Value) -> BrowserError {
    BrowserError::Refused { command: command.to_owned(), said: said.to_string() }
}

#[expect(clippy::disallowed_methods, reason = "a browser has no paused clock; this is the end of a wait for it")]
fn now() -> Instant {
    Instant::now()
}
