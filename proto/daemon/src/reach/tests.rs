//! A network as a script tells it, in paused time: who drops packets, who refuses, who opens and then says nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;

use super::*;

/// What an address does.
#[derive(Clone, Copy, Debug)]
enum Does {
    Drops,
    Refuses,
    /// Opens, and says nothing.
    Silent,
    /// Opens, and is somebody else.
    Stranger,
    /// Opens after so many milliseconds, and is usable.
    Good(u64),
}

/// What a name server does.
#[derive(Clone, Debug)]
enum Names {
    Drops,
    Fails,
    Are(Vec<SocketAddr>),
}

struct Script {
    names: RefCell<Names>,
    does: RefCell<BTreeMap<SocketAddr, Does>>,
    opened: RefCell<Vec<SocketAddr>>,
    look_ups: Cell<u32>,
}

impl Network for &Script {
    type Stream = Does;

    async fn look_up(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        self.look_ups.set(self.look_ups.get() + 1);
        let names = self.names.borrow().clone();
        match names {
            Names::Drops => pending().await,
            Names::Fails => Err(io::ErrorKind::NotFound.into()),
            Names::Are(addresses) => Ok(addresses),
        }
    }

    async fn open(&self, address: SocketAddr) -> io::Result<Does> {
        self.opened.borrow_mut().push(address);
        let does = self.does.borrow().get(&address).copied().unwrap_or(Does::Drops);
        match does {
            Does::Drops => pending().await,
            Does::Refuses => Err(io::ErrorKind::ConnectionRefused.into()),
            Does::Good(millis) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(does)
            }
            Does::Silent | Does::Stranger => Ok(does),
        }
    }
}

const LIMIT: Duration = Duration::from_secs(10);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Addresses of one name, in the system's order.
fn script(does: &[(&str, Does)]) -> Script {
    let names = Names::Are(does.iter().map(|(address, _)| at(address)).collect());
    Script {
        names: RefCell::new(names),
        does: RefCell::new(does.iter().map(|(address, does)| (at(address), *does)).collect()),
        opened: RefCell::default(),
        look_ups: Cell::new(0),
    }
}

/// Where a connection came about, and after how many milliseconds.
async fn connect(reach: &mut Reach<&Script>) -> (Result<SocketAddr, Unreached<&'static str>>, u128) {
    let begun = Instant::now();
    let usable = async |address, does| match does {
        Does::Good(_) => Ok(address),
        Does::Stranger => Err("a stranger"),
        _ => pending().await,
    };
    (reach.connect(LIMIT, usable).await, begun.elapsed().as_millis())
}

async fn reached(does: &[(&str, Does)]) -> (Result<SocketAddr, Unreached<&'static str>>, u128) {
    let script = script(does);
    connect(&mut Reach::over(&script, "c.example", 443)).await
}

const SIX: &str = "[2001:db8::1]:443";
const SIX_TOO: &str = "[2001:db8::2]:443";
const FOUR: &str = "192.0.2.1:443";
const FOUR_TOO: &str = "192.0.2.2:443";

// spec: AG-320
#[tokio::test(start_paused = true)]
async fn no_silent_address_keeps_from_the_next() {
    for (what, does, want, within) in [
        ("the first drops", vec![(FOUR, Does::Drops), (FOUR_TOO, Does::Good(5))], FOUR_TOO, 300),
        ("IPv6 drops", vec![(SIX, Does::Drops), (SIX_TOO, Does::Drops), (FOUR, Does::Good(5))], FOUR, 300),
        ("IPv4 drops", vec![(FOUR, Does::Drops), (FOUR_TOO, Does::Drops), (SIX, Does::Good(5))], SIX, 300),
        ("the first refuses", vec![(SIX, Does::Refuses), (FOUR, Does::Good(5))], FOUR, 10),
        ("the first is a stranger", vec![(SIX, Does::Stranger), (FOUR, Does::Good(5))], FOUR, 10),
        ("the first opens and is silent", vec![(SIX, Does::Silent), (FOUR, Does::Good(5))], FOUR, 5100),
        (
            "two open and are silent",
            vec![(SIX, Does::Silent), (SIX_TOO, Does::Silent), (FOUR, Does::Good(5))],
            FOUR,
            6700,
        ),
        ("far away, and the better one", vec![(SIX, Does::Good(240)), (FOUR, Does::Good(1))], SIX, 250),
        ("slow, while another is not", vec![(SIX, Does::Good(9000)), (FOUR, Does::Good(300))], FOUR, 600),
        ("slow and alone", vec![(SIX, Does::Good(9000))], SIX, 9010),
    ] {
        let (found, took) = reached(&does).await;
        assert_eq!(found.as_ref().ok(), Some(&at(want)), "{what}: {found:?}");
        assert!(took <= within, "{what}: {took} ms");
    }
    let many: Vec<String> = (1..16).map(|last| format!("[2001:db8::{last}]:443")).collect();
    let mut does: Vec<_> = many.iter().map(|address| (address.as_str(), Does::Drops)).collect();
    does.push((FOUR, Does::Good(5)));
    assert!(reached(&does).await.1 <= 300, "the other family has its turn");
}

// spec: AG-321
#[tokio::test(start_paused = true)]
async fn a_server_that_moved_is_found_while_its_old_address_drops_packets() {
    let script = script(&[(FOUR, Does::Good(5))]);
    let mut reach = Reach::over(&script, "c.example", 443);
    assert_eq!(connect(&mut reach).await.0.ok(), Some(at(FOUR)));
    // It moves: first only its packets are gone, then the name follows.
    script.does.borrow_mut().insert(at(FOUR), Does::Drops);
    let (nowhere, took) = connect(&mut reach).await;
    assert!(matches!(nowhere, Err(Unreached::Late)) && took == LIMIT.as_millis(), "{nowhere:?} {took}");
    assert_eq!(reach.good, None, "what failed is forgotten");
    script.does.borrow_mut().insert(at(FOUR_TOO), Does::Good(5));
    *script.names.borrow_mut() = Names::Are(vec![at(FOUR_TOO)]);
    assert_eq!(connect(&mut reach).await.0.ok(), Some(at(FOUR_TOO)));
    // It moves and the name follows at once: the old address is not even tried.
    script.does.borrow_mut().insert(at(FOUR_TOO), Does::Drops);
    script.does.borrow_mut().insert(at(SIX), Does::Good(5));
    *script.names.borrow_mut() = Names::Are(vec![at(SIX)]);
    script.opened.borrow_mut().clear();
    let (found, took) = connect(&mut reach).await;
    assert!(found.ok() == Some(at(SIX)) && took <= 10 && *script.opened.borrow() == [at(SIX)], "{took}");
    assert_eq!(script.look_ups.get(), 4, "the name is looked up at each try");
}

// spec: AG-321
#[tokio::test(start_paused = true)]
async fn without_a_name_server_the_last_good_address_counts() {
    for (names, within) in [(Names::Fails, 10), (Names::Drops, 1010)] {
        let script = script(&[(SIX, Does::Drops), (FOUR, Does::Good(5))]);
        let mut reach = Reach::over(&script, "c.example", 443);
        assert_eq!(connect(&mut reach).await.0.ok(), Some(at(FOUR)));
        // The next time the good one is first.
        assert!(connect(&mut reach).await.1 <= 10);
        *script.names.borrow_mut() = names.clone();
        let (found, took) = connect(&mut reach).await;
        assert!(found.ok() == Some(at(FOUR)) && took <= within, "{names:?} {took}");
        // Server and name server fail together: it is not forgotten, for the server may come back first.
        script.does.borrow_mut().insert(at(FOUR), Does::Refuses);
        assert!(matches!(connect(&mut reach).await.0, Err(Unreached::Closed { .. })));
        script.does.borrow_mut().insert(at(FOUR), Does::Good(5));
        assert_eq!(connect(&mut reach).await.0.ok(), Some(at(FOUR)), "{names:?}");
    }
}

// spec: AG-320
#[tokio::test(start_paused = true)]
async fn of_several_failures_the_one_that_says_most_is_told() {
    let told = |found: Result<SocketAddr, Unreached<&str>>| match found {
        Ok(_) => "usable",
        Err(Unreached::Late) => "late",
        Err(Unreached::Name(_)) => "name",
        Err(Unreached::Closed { .. }) => "closed",
        Err(Unreached::Unusable { .. }) => "stranger",
    };
    for (does, want, millis) in [
        (vec![], "name", 0),
        (vec![(FOUR, Does::Refuses), (SIX, Does::Refuses)], "closed", 0),
        (vec![(FOUR, Does::Refuses), (SIX, Does::Drops)], "closed", 10_000),
        (vec![(FOUR, Does::Stranger), (SIX, Does::Refuses)], "stranger", 0),
        (vec![(FOUR, Does::Stranger), (SIX, Does::Silent)], "stranger", 10_000),
        (vec![(FOUR, Does::Silent)], "late", 10_000),
        (vec![(FOUR, Does::Drops)], "late", 10_000),
    ] {
        let (found, took) = reached(&does).await;
        assert_eq!((told(found), took), (want, millis), "{does:?}");
    }
}

// spec: AG-320
#[test]
fn addresses_are_tried_in_turn_by_family() {
    let found = [SIX, SIX_TOO, SIX, FOUR, FOUR_TOO].map(at);
    assert_eq!(order(&found, None), [SIX, FOUR, SIX_TOO, FOUR_TOO].map(at));
    assert_eq!(order(&found, Some(at(FOUR_TOO))), [FOUR_TOO, SIX, FOUR, SIX_TOO].map(at));
    assert_eq!(order(&found[3..], Some(at(SIX))), [FOUR, FOUR_TOO].map(at), "no more an address of the name");
    assert_eq!(order(&found[2..], None), [SIX, FOUR, FOUR_TOO].map(at));
    let many: Vec<SocketAddr> = (1..=99).map(|last| SocketAddr::from(([192, 0, 2, last], 443))).collect();
    assert_eq!(order(&many, None), many[..ADDRESSES_MAX]);
}
