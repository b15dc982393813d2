//! The page: what a person does with it in a browser of her own while the demo stays up, and the same done by a headless
//! Chromium in a demo that ends by itself.
//!
//! That browser is given nothing a person's would not have: it goes to the same port of this machine's loopback, trusts
//! the fleet's root because it was imported, and checks the controller's certificate as ever.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lucia_browser::{Browser, BrowserError, Wanted};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::pki::key::{NodeKey, VerificationCode};

use zeroize::Zeroizing;

use super::daemon::ran;
use super::owner::OWNER;
use super::place::{HOSTNAME, word};
use super::screen::{Screen, Who};
use super::second::{self, SECOND, Second};
use super::site::Site;
use super::{DemoError, Standing};
use crate::possible::Missing;
use crate::program::Program;

/// The browser's home and its pictures, in the demo's directory.
const DIR: &str = "page";
/// What the worker says of an order that it carried out, as the page has it.
const DONE: &str = "Carried out.";

/// Whether a headless browser can drive the page here.
///
/// # Errors
/// What is missing, and what cures it.
pub fn possible() -> Result<(), Missing> {
    let cure = || "make setup".to_owned();
    lucia_browser::is_there().map_err(|missing| Missing { what: missing.to_string(), cure: cure() })?;
    let what = "certutil (libnss3-tools) is not installed, by which its browser gets the demo's root";
    if crate::possible::is_installed(Program::Certutil.path()) {
        Ok(())
    } else {
        Err(Missing { what: what.to_owned(), cure: cure() })
    }
}

/// The page in a headless browser, in which the owner has signed in.
pub(super) struct Page {
    browser: Browser,
    /// Its home and its pictures.
    dir: PathBuf,
}

impl Page {
    /// Makes a passkey, has the owner confirm it on her own machine, and signs in by it.
    pub(super) fn open(site: &Site, screen: &Screen) -> Result<Self, DemoError> {
        let dir = site.place.path(DIR);
        let home = dir.join("home");
        let made = fs::create_dir_all(home.join(".pki/nssdb"));
        made.map_err(|err| DemoError::Place { path: home.clone(), err })?;
        trust(&home, &site.place.root_file())?;
        let wanted = Wanted { origin: &site.door.origin(), home: &home, arguments: &[], network: false };
        let page = Self { browser: Browser::new(&wanted)?, dir };
        let browser = &page.browser;
        browser.plug_in()?;
        browser.go("/passkeys")?;
        browser.is_at("/passkeys")?;
        let origin = site.door.origin();
        screen.say(Who::Browser, &format!("{origin}/passkeys, its certificate checked by the imported root"));
        browser.type_in("#label", "demo")?;
        browser.click("#passkey-form button")?;
        let code = page.code("passkey-code")?;
        page.picture("passkey")?;
        screen.say(Who::Browser, &format!("made a passkey, code {code}"));
        site.owner(&["passkey", "approve", &code, "--yes"])?;
        screen.say(Who::Person, &format!("luciactl passkey approve {code}"));
        browser.go("/sign-in")?;
        browser.click("[data-act='sign-in']")?;
        browser.is_at("/")?;
        browser.shows(HOSTNAME)?;
        browser.shows("live since")?;
        page.picture("servers")?;
        screen.say(Who::Browser, &format!("signed in by it: {HOSTNAME} is there, live"));
        Ok(page)
    }

    /// Drafts the order that gives an account this key on this node; it is signed where the owner's key is.
    pub(super) fn give_key(&self, site: &Site, node: &NodeId, key: &Path, screen: &Screen) -> Result<(), DemoError> {
        let public = fs::read_to_string(key).map_err(|err| DemoError::Place { path: key.to_owned(), err })?;
        let browser = &self.browser;
        browser.go("/keys")?;
        browser.is_at("/keys")?;
        browser.type_in("#account", OWNER)?;
        browser.type_in("#key-label", "demo")?;
        browser.type_in("#key-text", public.trim())?;
        browser.click(&format!("#choose input[value='{node}']"))?;
        browser.click("#keys-form button[type='submit']")?;
        let code = self.code("draft-code")?;
        screen.say(Who::Browser, &format!("drafted an SSH key for {OWNER} on {HOSTNAME}, code {code}"));
        self.sign(site, &code, screen)
    }

    /// Waits until the page says by itself that the order it drafted was carried out.
    pub(super) fn carried_out(&self, picture: &str, screen: &Screen) -> Result<(), DemoError> {
        self.browser.until("the order carried out", |browser| {
            let state = browser.run("return document.getElementById('draft-state').textContent")?;
            Ok(state.as_str().is_some_and(|state| state.starts_with(DONE)))
        })?;
        self.picture(picture)?;
        screen.say(Who::Browser, &format!("says of its order, without being loaded again: {DONE}"));
        Ok(())
    }

    /// A second machine appears, is compared and approved, and its admission drafted, signed and carried out; then out.
    pub(super) fn admit_second(&self, standing: &mut Standing, screen: &Screen) -> Result<(), DemoError> {
        let Standing { site, second, .. } = standing;
        let browser = &self.browser;
        browser.go("/")?;
        browser.shows("live since")?;
        // A mark of this document: it is not there any more in one that was loaded anew.
        browser.run("window.here = true")?;
        let machine = second.insert(Second::boot(site, screen)?);
        browser.shows(&machine.code.to_string())?;
        if browser.run("return window.here === true")? != true {
            return Err(self.not_shown("a list that changes by itself"));
        }
        self.picture("waiting")?;
        screen.say(Who::Browser, &format!("shows {}, without being loaded again", machine.code));
        self.approve(machine, screen)?;
        let code = self.code("draft-code")?;
        screen.say(Who::Browser, &format!("drafted its admission, code {code}"));
        self.admit(site, machine, &code, screen)?;
        self.carried_out("admitted", screen)?;
        self.leave(screen)
    }

    fn approve(&self, machine: &Second, screen: &Screen) -> Result<(), DemoError> {
        let browser = &self.browser;
        let document = format!("/devices/{}", machine.fingerprint.node_id());
        browser.go(&document)?;
        browser.is_at(&document)?;
        // In groups of four digits, for people.
        let shown: String = browser.text()?.split_whitespace().collect();
        if !shown.contains(&machine.fingerprint.to_string()) {
            return Err(self.not_shown("the fingerprint of the machine's own screen"));
        }
        browser.type_in("#hostname", SECOND)?;
        browser.click("[name='disk']")?;
        browser.click("[name='same']")?;
        browser.type_in("#erase", "ERASE")?;
        browser.click("#approve-form button[type='submit']")?;
        screen.say(Who::Browser, &format!("compared the fingerprint, approved it as {SECOND}, ERASE typed"));
        Ok(())
    }

    fn sign(&self, site: &Site, code: &str, screen: &Screen) -> Result<(), DemoError> {
        let said = site.owner(&["sign", code, "--yes"])?;
        screen.say(Who::Person, &format!("luciactl sign {code} --yes\n{said}"));
        Ok(())
    }

    /// An admission that the page drafted takes a terminal, at which the fingerprint of the machine's own screen is typed.
    fn admit(&self, site: &Site, machine: &Second, code: &str, screen: &Screen) -> Result<(), DemoError> {
        let said = site.owner_at_terminal(&["sign", code], &[&machine.fingerprint.to_string(), "yes"])?;
        screen.say(Who::Person, &format!("luciactl sign {code}\n{said}"));
        Ok(())
    }

    fn leave(&self, screen: &Screen) -> Result<(), DemoError> {
        self.browser.click("[data-act='sign-out']")?;
        self.browser.is_at("/sign-in")?;
        let errors = self.browser.errors()?;
        if !errors.is_empty() {
            return Err(DemoError::NotShown { what: "a console without errors", said: errors.join("\n") });
        }
        screen.say(Who::Browser, &format!("signed out; its pictures are in {}", self.dir.display()));
        Ok(())
    }

    /// The code that the page shows there, once it does.
    fn code(&self, id: &str) -> Result<String, BrowserError> {
        let mut code = None;
        self.browser.until(id, |browser| {
            let shown = browser.run(&format!("return document.getElementById('{id}')?.textContent"))?;
            code = shown.as_str().and_then(|text| text.parse::<VerificationCode>().ok());
            Ok(code.is_some())
        })?;
        Ok(code.map(|code| code.to_string()).unwrap_or_default())
    }

    fn picture(&self, name: &str) -> Result<(), BrowserError> {
        self.browser.picture(&self.dir.join(format!("{name}.png")))
    }

    fn not_shown(&self, what: &'static str) -> DemoError {
        DemoError::NotShown { what, said: self.browser.text().unwrap_or_default() }
    }
}

/// Imports the root as an authority for websites, as a person does in the settings of a browser.
fn trust(home: &Path, root: &Path) -> Result<(), DemoError> {
    let store = format!("sql:{}", home.join(".pki/nssdb").display());
    ran(Program::Certutil.command().args(["-N", "--empty-password", "-d", &store]))?;
    ran(Program::Certutil.command().args(["-A", "-t", "C,,", "-n", "lucia-demo", "-d", &store, "-i"]).arg(root))?;
    Ok(())
}

/// What a person does to see it in her own browser.
pub(super) fn try_next(site: &Site, second: Option<&Second>) -> Result<String, DemoError> {
    let Site { place, door, .. } = site;
    let shown = second.map_or_else(String::new, |second| format!(" as {} (it has no name yet)", second.code));
    let (dir, origin, root) = (word(&place.dir), door.origin(), word(&place.root_file()));
    let pin = pin(&place.path("state/controller/tls/endpoint.key"))?;
    let port = door.port();
    Ok(format!(
        "The page, in a browser on this machine, the browser as yourself, the commands of {dir} as root: {origin}/\n\
         \x20 1. Let it trust the demo's root, for websites: import {root}\n\
         \x20    (in its settings, under certificates, authorities). Or import nothing, and use a profile of its own:\n\
         \x20    chromium --user-data-dir=/tmp/lucia-demo-page --ignore-certificate-errors-spki-list={pin} {origin}/\n\
         \x20 2. Open {origin}/passkeys, make a passkey, and confirm the code that it shows:\n\
         \x20    {dir}/{OWNER} passkey approve CODE\n\
         \x20    Without a phone, a fingerprint reader or a security key, Chromium's developer tools have one: WebAuthn.\n\
         \x20 3. Sign in. {SECOND} waits there{shown}. Compare its fingerprint with what its own\n\
         \x20    screen shows, approve it, and sign the order that the page drafts, once you have read it:\n\
         \x20    {dir}/{screen}\n\
         \x20    {dir}/{OWNER} sign CODE\n\
         \x20    There it ends: nothing is installed on {SECOND}, so it stays approved and becomes no node.\n\
         \x20 Where the page says luciactl, type {dir}/{OWNER}: it has her key. {dir}/luciactl has none.\n\
         \x20 From another machine: ssh -L {port}:127.0.0.1:{port} this-machine, then the same address there.\n",
        screen = second::SCREEN,
    ))
}

/// The public key of the controller's certificate, as Chromium wants it: SHA-256 of it, in base64.
fn pin(key: &Path) -> Result<String, DemoError> {
    let failed = |err| DemoError::Place { path: key.to_owned(), err };
    let pem = fs::read_to_string(key).map(Zeroizing::new).map_err(failed)?;
    let key = NodeKey::from_pem(&pem).map_err(|err| failed(io::Error::other(err)))?;
    Ok(STANDARD.encode(Digest::of(key.public().der()).as_bytes()))
}
