//! The endpoint's certificate: asked of the worker, used without a restart, never a reason to stop (design.md W2).

use std::os::unix::fs::PermissionsExt as _;

use lucia_controller::http::Timeouts;
use lucia_people::host_api::StatusView;
use lucia_proto::base::bounded::{PemText, Version};
use lucia_proto::base::digest::Digest;
use lucia_proto::node::enrollment::{EndpointAnswer, EndpointRequest};
use lucia_proto::pki::csr::endpoint_check;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::test_support::key;

use crate::site::{NAME, Site};
use crate::slow::wait_until;

/// What a worker would answer: a certificate of the request's key, ending in the year `year`.
fn answer(site: &Site, year: i32) -> Vec<u8> {
    let bytes = std::fs::read(site.file("nodes/enrollment-requests/endpoint.json")).unwrap();
    let request = EndpointRequest::from_bytes(&bytes).unwrap();
    let names = EndpointNames::new(vec![EndpointName::parse(NAME).unwrap()]).unwrap();
    endpoint_check(request.csr_pem.as_str(), &names).unwrap();
    let mut csr = rcgen::CertificateSigningRequestParams::from_pem(request.csr_pem.as_str()).unwrap();
    csr.params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let issuing = rcgen::KeyPair::from_pem(&key(202).to_pem().unwrap()).unwrap();
    let issuer = rcgen::Issuer::new(rcgen::CertificateParams::default(), issuing);
    let certificate = csr.signed_by(&issuer).unwrap();
    let file = EndpointAnswer {
        schema_version: Version,
        request_hash: Digest::of(&bytes),
        success: true,
        message: "".parse().unwrap(),
        checked_at: site.now(),
        certificate_pem: Some(PemText::try_from(certificate.pem()).unwrap()),
    };
    file.to_bytes().unwrap()
}

fn expires(site: &Site) -> Option<String> {
    site.order("GET", "/api/host/status", "").read::<StatusView>().certificate_expires_at.map(|at| at.to_string())
}

// spec: HT-23
#[test]
fn it_comes_from_the_worker_and_each_new_one_is_served_at_once() {
    let site = Site::uncertified();
    assert_eq!(expires(&site), None);
    let request = site.file("nodes/enrollment-requests/endpoint.json");
    wait_until("the request", || request.exists());
    let asked = std::fs::read(&request).unwrap();
    site.put("nodes/enrollment-responses/endpoint.json", &answer(&site, 2090));
    wait_until("the first certificate", || expires(&site).as_deref() == Some("2090-01-01T00:00:00Z"));
    wait_until("a handshake with it", || site.presented().is_some());
    let first = site.presented().unwrap();
    site.put("nodes/enrollment-responses/endpoint.json", &answer(&site, 2091));
    wait_until("the second certificate", || site.presented().is_some_and(|now| now != first));
    assert_eq!(expires(&site).as_deref(), Some("2091-01-01T00:00:00Z"));
    // An older answer, and one that is not of our key, change nothing.
    let second = site.presented();
    site.put("nodes/enrollment-responses/endpoint.json", &answer(&site, 2089));
    let mode = std::fs::metadata(site.file("tls/endpoint.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(site.presented(), second);
    assert_eq!(std::fs::read(&request).unwrap(), asked, "the request stays the same bytes");
}

// spec: HT-24
#[test]
fn a_certificate_put_in_place_is_served_and_an_expired_one_stops_nothing() {
    let site = Site::with("", Timeouts::default());
    let first = site.presented();
    let pair = rcgen::KeyPair::from_pem(&key(210).to_pem().unwrap()).unwrap();
    let mut params = rcgen::CertificateParams::new([NAME.to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let expired = params.self_signed(&pair).unwrap().pem();
    let put = |text: &str| {
        let beside = site.file("tls/beside");
        std::fs::write(&beside, text).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(beside, site.file("tls/endpoint.pem")).unwrap();
    };
    put(&expired);
    wait_until("the expired one", || expires(&site).as_deref() == Some("2002-01-01T00:00:00Z"));
    assert_ne!(site.presented(), first);
    put("not a certificate");
    assert_eq!(site.order("GET", "/api/host/nodes", "").status, 200);
    assert!(site.presented().is_some(), "the former one goes on");
}
