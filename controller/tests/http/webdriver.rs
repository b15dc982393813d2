//! The browser of `lucia-browser` for tests: at a site of theirs, and a step that fails stops the test where it stands.

use std::path::{Path, PathBuf};

use lucia_proto::base::digest::Digest;
use lucia_proto::test_support::key;
use serde_json::{Value, json};

use crate::site::{NAME, Scratch, Site};

/// Whether there is a browser; notes that `test` is skipped where there is none: `make test` counts the note, and it is
/// a failure under CI.
pub(crate) fn is_there(test: &str) -> bool {
    let Err(missing) = lucia_browser::is_there() else { return true };
    skip(test, &missing.to_string());
    false
}

/// Notes that `test` is skipped, and why.
pub(crate) fn skip(test: &str, why: &str) {
    let notes = target().join("test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(test), format!("{test}: {why}\n")).unwrap();
}

/// The workspace's own build directory.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
}

/// A browser with one window, closed when dropped.
pub(crate) struct Browser {
    browser: lucia_browser::Browser,
    _home: Scratch,
}

impl Browser {
    /// Starts one that finds `site` under its own name and knows its certificate.
    pub(crate) fn new(site: &Site) -> Self {
        let home = Scratch::new();
        let known = Digest::of(key(210).public().der());
        let arguments = [
            format!("--host-resolver-rules=MAP {NAME} 127.0.0.1"),
            format!("--ignore-certificate-errors-spki-list={}", base64(known.as_bytes())),
        ];
        let browser = lucia_browser::Browser::new(&lucia_browser::Wanted {
            origin: &format!("https://{NAME}:{}", site.address.port()),
            home: home.path(),
            arguments: &arguments,
            network: false,
        });
        Self { browser: done(browser), _home: home }
    }

    /// An authenticator that is there, whose user agrees and is verified.
    #[track_caller]
    pub(crate) fn plug_in(&self) {
        done(self.browser.plug_in());
    }

    /// Goes to a document of the site.
    #[track_caller]
    pub(crate) fn go(&self, path: &str) {
        done(self.browser.go(path));
    }

    /// The path of the document that is shown.
    #[track_caller]
    pub(crate) fn path(&self) -> String {
        done(self.browser.path())
    }

    /// What a script returns.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        done(self.browser.run(script))
    }

    /// What a script gives to the callback that is its last argument.
    #[track_caller]
    pub(crate) fn run_async(&self, script: &str) -> Value {
        done(self.browser.run_async(script))
    }

    /// Has a script run in each document from the next one on, before its own.
    #[track_caller]
    pub(crate) fn with_each_document(&self, script: &str) {
        done(self.browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": script})));
    }

    /// Puts the cookie of a session into it, as `name=value`.
    #[track_caller]
    pub(crate) fn is_signed_in(&self, cookie: &str) {
        done(self.browser.keep_cookie(cookie));
    }

    /// Clicks as a person does.
    #[track_caller]
    pub(crate) fn click(&self, css: &str) {
        done(self.browser.click(css));
    }

    /// Types as a person does.
    #[track_caller]
    pub(crate) fn type_in(&self, css: &str, text: &str) {
        done(self.browser.type_in(css, text));
    }

    /// A command of WebDriver that has no word here.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, command: &str, body: &Value) -> Value {
        done(self.browser.call(method, command, body))
    }

    /// Waits until something holds; says what is shown otherwise.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        done(self.browser.until(what, |_| Ok(condition(self))));
    }

    /// Waits until this text is shown.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        done(self.browser.shows(text));
    }

    /// Whether a script says that something is so.
    #[track_caller]
    pub(crate) fn is(&self, script: &str) -> bool {
        self.run(&format!("return Boolean({script})")) == true
    }

    /// Waits until `css` matches something.
    #[track_caller]
    pub(crate) fn has(&self, css: &str) {
        self.until(css, |browser| browser.is(&format!("document.querySelector({})", json!(css))));
    }

    /// Waits until the document hears of changes.
    #[track_caller]
    pub(crate) fn is_live(&self) {
        let live =
            "document.getElementById('live').textContent && !document.getElementById('main').classList.contains('old')";
        self.until("a document that is live", |browser| browser.is(live));
    }

    /// Waits until the page says that what was asked for is done, or that it is not: what it says.
    #[track_caller]
    pub(crate) fn says(&self, is_bad: bool) -> String {
        let role = if is_bad { "alert" } else { "status" };
        let said =
            format!("const said = document.getElementById('said'); return said.role === '{role}' && said.textContent");
        self.until(role, |browser| browser.run(&said).as_str().is_some_and(|text| !text.is_empty()));
        self.run("return document.getElementById('said').textContent").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the document of this path is shown.
    #[track_caller]
    pub(crate) fn is_at(&self, path: &str) {
        done(self.browser.is_at(path));
    }

    /// What the console has of errors since this was last asked.
    #[track_caller]
    pub(crate) fn errors(&self) -> Vec<String> {
        done(self.browser.errors())
    }

    /// Keeps a picture in `target/page`.
    #[track_caller]
    pub(crate) fn picture(&self, name: &str) {
        let dir = target().join("page");
        std::fs::create_dir_all(&dir).unwrap();
        done(self.browser.picture(&dir.join(format!("{name}.png"))));
    }

    /// How wide the window is from now on.
    #[track_caller]
    pub(crate) fn wide(&self, width: u32) {
        done(self.browser.wide(width));
    }

    /// Light or dark, as a person has set it.
    #[track_caller]
    pub(crate) fn colours(&self, scheme: &str) {
        done(self.browser.colours(scheme));
    }
}

#[track_caller]
fn done<T>(result: Result<T, lucia_browser::BrowserError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
