//! Every row of the table of endpoints, asked by everyone (threats.md B-1).

use std::fmt::Write as _;

use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::Purpose;

use crate::machine::Machine;
use crate::site::{Site, request};

/// endpoint | nobody | an unknown key | a device | a node
const NETWORK: &str = include_str!("actors.txt");

fn ask(site: &Site, endpoint: Endpoint, who: &Machine) -> String {
    let answer = match endpoint {
        Endpoint::Discover => who.discover(site),
        Endpoint::DeviceState => who.question(site, endpoint, Purpose::DeviceState),
        Endpoint::Installation => who.question(site, endpoint, Purpose::Installation),
        Endpoint::Grant => who.grant(site),
        Endpoint::Progress => who.progress(site, DevicePhase::Installing),
        Endpoint::Enroll => who.enroll(site),
        Endpoint::Heartbeat => who.heartbeat(site),
        Endpoint::Renew => who.renew(site),
        _ => return nobody(site, endpoint, who),
    };
    answer.code()
}

fn nobody(site: &Site, endpoint: Endpoint, who: &Machine) -> String {
    let body = if endpoint.body_max() > 0 { "{}" } else { "" };
    site.send(&request(endpoint.method(), &endpoint.path_for(who.id()), &[], body)).code()
}

// spec: HT-19
#[test]
fn every_endpoint_by_every_actor() {
    let site = Site::new();
    let node = Machine::managed(&site, 1);
    let mut device = Machine::new(2);
    assert_eq!(device.discover(&site).status, 200);
    // The most a device could try with: a real certificate, of another node.
    device.certificate.clone_from(&node.certificate);
    let mut table = String::new();
    for endpoint in Endpoint::ALL.iter().copied() {
        // Discovery makes a device of whoever asks, so it is asked by a key of its own.
        let unknown = Machine::new(if endpoint == Endpoint::Discover { 4 } else { 3 });
        let answers = [
            nobody(&site, endpoint, &device),
            ask(&site, endpoint, &unknown),
            ask(&site, endpoint, &device),
            ask(&site, endpoint, &node),
        ];
        writeln!(table, "{endpoint:?} | {}", answers.join(" | ")).unwrap();
    }
    assert_eq!(table, NETWORK, "the table is now:\n{table}");

    // The operator's door has the operator's rows and no others.
    for endpoint in Endpoint::ALL.iter().copied() {
        let answer = site.order(
            endpoint.method(),
            &endpoint.path_for(node.id()),
            if endpoint.body_max() > 0 { "{}" } else { "" },
        );
        assert_eq!(answer.code(), "not_found", "{endpoint:?} {answer:?}");
    }
}
