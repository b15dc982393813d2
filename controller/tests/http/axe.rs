//! Whether everybody can use the page: axe-core over each document, light and dark, wide and narrow, in real Chromium.
//!
//! axe-core is run and not shipped; `make setup` gets it by npm, at the version and with the hash of `tests/browser/axe`.

use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::DraftView;
use lucia_proto::base::json;
use lucia_proto::orders::OrderKind;

use crate::machine::Machine;
use crate::owners::{freeze, owned};
use crate::page::DOCUMENTS;
use crate::sign_in::{add, cookie, enter};
use crate::webdriver::{self, Browser};

/// Where `make setup` puts it, below `target`.
const AXE: &str = "axe/node_modules/axe-core/axe.min.js";

/// Gives how many rules looked at something and found it good, then what is serious or critical, each with the elements
/// and why.
const RUN: &str = "const done = arguments[arguments.length - 1];
    const bad = (one) => one.impact === 'serious' || one.impact === 'critical';
    const words = (one) => [one.id, one.impact, one.nodes.map((node) => node.html + ' : ' + node.failureSummary)];
    axe.run(document).then((result) => done([result.passes.length, result.violations.filter(bad).map(words)]),
      (error) => done([0, [String(error)]]));";
/// What comes up only once something was done is looked at as well.
const SHOW_ALL: &str = "for (const hidden of document.querySelectorAll('main [hidden]')) hidden.hidden = false";

/// The script; notes that `test` is skipped where it is not there.
fn axe(test: &str) -> Option<String> {
    let script = std::fs::read_to_string(webdriver::target().join(AXE)).ok();
    if script.is_none() {
        webdriver::skip(test, "there is no axe-core in target/axe. Cure: make setup, with npm and its registry");
    }
    script
}

fn findings(browser: &Browser, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")] {
        browser.wide(width);
        browser.colours(scheme);
        browser.go(path);
        browser.is_at(path);
        for look in ["as it comes", "with all that was hidden"] {
            let result = browser.run_async(RUN);
            let at = format!("{path}, {width} px, {scheme}, {look}");
            // One that looked at nothing found nothing.
            assert!(result[0].as_u64().unwrap() > 15, "{at}: {result}");
            found.extend(result[1].as_array().unwrap().iter().map(|one| format!("{at}: {one:#}")));
            browser.run(SHOW_ALL);
        }
    }
    found
}

// spec: PG-60
#[test]
fn no_document_has_a_serious_finding_of_axe_core() {
    const TEST: &str = "no_document_has_a_serious_finding_of_axe_core";
    let Some(script) = axe(TEST) else { return };
    if !webdriver::is_there(TEST) {
        return;
    }
    let (site, world) = owned();
    add(&site, 71, &world.alice);
    let (node, frozen, waiting) = (Machine::managed(&site, 1), Machine::managed(&site, 2), Machine::new(9));
    freeze(&site, &frozen);
    let gone = Machine::managed(&site, 3);
    assert_eq!(site.order("DELETE", &PeopleCall::Remove.path_for(gone.id()), "").status, 200);
    assert_eq!(waiting.discover(&site).status, 200);
    let draft = world.draft(OrderKind::SshKey, |intent| intent.nodes = vec![node.id().clone()]);
    let body = json::to_string(&draft).unwrap();
    let _: DraftView = site.order("POST", PeopleCall::AddDraft.path(), &body).read();
    let order = format!("/orders/{}", draft.read().unwrap().code());
    let [server, clone, removed] = [&node, &frozen, &gone].map(|node| format!("/servers/{}", node.id()));
    let device = format!("/devices/{}", waiting.id());

    let browser = Browser::new(&site);
    browser.with_each_document(&script);
    let mut found = findings(&browser, "/sign-in");
    found.extend(findings(&browser, "/passkeys"));
    browser.is_signed_in(&cookie(&enter(&site, 71)));
    let further = [server.as_str(), clone.as_str(), removed.as_str(), device.as_str(), order.as_str(), "/nowhere"];
    for path in DOCUMENTS.iter().copied().chain(further) {
        found.extend(findings(&browser, path));
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}
