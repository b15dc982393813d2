//! Who asks to become an owner, over the wire and on the disk (design.md O3).

use lucia_people::calls::PeopleCall;
use lucia_people::owner_api::Applied;
use lucia_proto::base::json;
use lucia_proto::base::limits::{APPLICATION_LIFETIME, APPLICATIONS_PER_SOURCE};
use lucia_proto::files::owner_queue::ApplicationFile;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner;
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::key;

use crate::owners::owned;
use crate::site::{Answer, Site, request};

fn ask(site: &Site, application: &Application) -> Answer {
    site.send(&request("POST", PeopleCall::Apply.path(), &[], &json::to_string(application).unwrap()))
}

// spec: CO-6
#[test]
fn who_asks_to_become_an_owner_gets_a_code_and_a_file_and_nothing_else() {
    let (site, world) = owned();
    let sign = |name: &str, key: &NodeKey| Application::sign(name.parse().unwrap(), world.fleet, site.now(), key);
    let asked = sign("carol", &key(60));
    let id = OwnerId::of(&key(60).public().fingerprint());
    let file = site.file(&format!("nodes/owner-requests/application-{id}.json"));
    let answer = ask(&site, &asked);
    assert!(answer.header("lucia-challenge").is_none(), "it is no signature over one");
    let applied: Applied = answer.read();
    assert_eq!(applied.verification_code, owner::code(key(60).public()));
    let written = std::fs::read(&file).unwrap();
    let there = ApplicationFile::from_bytes(&written).unwrap();
    assert_eq!((&there.application, there.expires_at), (&asked, applied.expires_at));
    assert!(applied.expires_at.since(site.now()) <= APPLICATION_LIFETIME);
    // The same key again: the same answer, the same file.
    assert_eq!(ask(&site, &asked).read::<Applied>(), applied);
    assert_eq!(std::fs::read(&file).unwrap(), written);
    // Whoever is in the roster is told the same, and nothing is written.
    let known = sign("alice", &world.alice.key);
    assert_eq!(ask(&site, &known).read::<Applied>().verification_code, owner::code(world.alice.key.public()));
    let files = std::fs::read_dir(site.file("nodes/owner-requests")).unwrap();
    let asking = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with("application-"));
    assert_eq!(files.filter(|file| asking(&file.as_ref().unwrap().file_name())).count(), 1);
    // Another's name under the signature.
    let forged = Application { name: "mallory".parse().unwrap(), ..asked };
    assert_eq!(ask(&site, &forged).code(), "invalid_onboarding_request");
    let answer = ask(&site, &Application { public_key_pem: "x".to_owned(), ..forged });
    assert_eq!(answer.code(), "bad_key");
    // That were as many as one source may in a minute.
    assert_eq!(APPLICATIONS_PER_SOURCE, 5);
    assert_eq!(ask(&site, &sign("dave", &key(61))).code(), "too_many_requests");
}
