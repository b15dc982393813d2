//! The client against a controller that a test decides: refusals, strangers, lost answers, clocks.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::code::{AgentAction, Code};
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::report::{Purpose, Question};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::key;

use super::fake::{Fake, Reply, START, SeenCall, TestClock, with_challenges};
use super::*;

fn node() -> Arc<NodeKey> {
    Arc::new(key(7))
}

fn clock() -> Arc<TestClock> {
    TestClock::at(UnixTime::from_secs(START))
}

fn question(client: &Client<Fake>) -> Question {
    Question { node_id: client.node_id().clone(), purpose: Purpose::DeviceState }
}

async fn ask(client: &mut Client<Fake>) -> Result<ControllerAnswer, CallError> {
    let question = question(client);
    client.call(Endpoint::DeviceState, &question, None).await
}

/// Answers the given replies one after the other, then accepts.
fn replies(list: Vec<Reply>) -> impl FnMut(&SeenCall) -> Reply + 'static {
    let mut list = list.into_iter();
    with_challenges(move |_| list.next().unwrap_or_else(|| Reply::Ok("{}".into())))
}

// spec: AG-11
#[tokio::test(start_paused = true)]
async fn the_next_challenge_rides_in_the_answer() {
    let fake = Fake::new(&node(), replies(vec![]));
    let mut client = fake.client(&clock());
    for _ in 0..4 {
        ask(&mut client).await.unwrap();
        tokio::time::advance(Duration::from_secs(30)).await;
    }
    assert_eq!(fake.count(Endpoint::DeviceChallenge), 1, "{:?}", fake.calls());
    // A challenge that would be too old on arrival is not used.
    tokio::time::advance(Duration::from_secs(110)).await;
    ask(&mut client).await.unwrap();
    assert_eq!(fake.count(Endpoint::DeviceChallenge), 2);
}

// spec: AG-12
#[tokio::test(start_paused = true)]
async fn a_refused_challenge_is_signed_over_once_more_and_no_more() {
    let fake = Fake::new(&node(), replies(vec![]));
    let mut client = fake.client(&clock());
    ask(&mut client).await.unwrap();
    fake.forget_challenges();
    ask(&mut client).await.unwrap();
    use Endpoint::{DeviceChallenge, DeviceState};
    assert_eq!(fake.calls(), [DeviceChallenge, DeviceState, DeviceState, DeviceState]);

    let refuse = || Reply::Refuse(Code::ChallengeRefused);
    let fake = Fake::new(&node(), replies(vec![refuse(), refuse(), refuse()]));
    let mut client = fake.client(&clock());
    let error = ask(&mut client).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::ChallengeRefused));
    assert_eq!(fake.count(DeviceState), 2);
}

// spec: AG-13
#[tokio::test(start_paused = true)]
async fn a_get_is_tried_three_times_and_a_post_once() {
    let fake = Fake::new(&node(), replies(vec![Reply::Down, Reply::Down, Reply::Down]));
    let mut client = fake.client(&clock());
    assert!(matches!(ask(&mut client).await, Err(CallError::Unreachable(_))));
    assert_eq!(fake.count(Endpoint::DeviceState), 3);

    // The second try repeats the proof; the controller took it the first time, so it asks for a fresh one.
    let fake = Fake::new(&node(), replies(vec![Reply::Lost]));
    let mut client = fake.client(&clock());
    ask(&mut client).await.unwrap();
    assert_eq!(fake.count(Endpoint::DeviceState), 3);

    let fake = Fake::new(&node(), replies(vec![Reply::Down]));
    let mut client = fake.client(&clock());
    let report = lucia_proto::node::report::Progress {
        node_id: client.node_id().clone(),
        purpose: Purpose::Progress,
        phase: lucia_proto::node::phase::DevicePhase::Installing,
        message: String::new(),
    };
    assert!(matches!(client.call(Endpoint::Progress, &report, None).await, Err(CallError::Unreachable(_))));
    assert_eq!(fake.count(Endpoint::Progress), 1);
}

// spec: AG-14
#[tokio::test(start_paused = true)]
async fn whatever_is_not_the_controller_is_told_apart() {
    for status in [200, 202, 301, 302, 307, 400, 401, 403, 404, 407, 410, 451, 500, 502, 503] {
        let replies = replies(vec![Reply::Html(status)]);
        let fake = Fake::new(&node(), replies);
        let mut client = fake.client(&clock());
        let error = ask(&mut client).await.unwrap_err();
        assert!(matches!(error, CallError::Stranger { status: found, .. } if found == status), "{error}");
        assert_eq!(fake.count(Endpoint::DeviceState), 1, "HTTP {status} is not followed or repeated");
    }
    for status in [301, 400, 401, 403, 404, 500] {
        let fake = Fake::new(&node(), replies(vec![Reply::OtherJson(status)]));
        let error = ask(&mut fake.client(&clock())).await.unwrap_err();
        assert!(matches!(error, CallError::Stranger { .. }), "{error}");
    }
}

/// Every code: what the client makes of it.
// spec: AG-6
#[tokio::test(start_paused = true)]
async fn every_refusal_reaches_the_caller_with_its_code() {
    for code in Code::ALL {
        let fake = Fake::new(&node(), replies(vec![Reply::Refuse(*code), Reply::Refuse(*code)]));
        let error = ask(&mut fake.client(&clock())).await.unwrap_err();
        assert_eq!(error.code(), Some(*code));
        let asked = if code.agent_action() == AgentAction::SignAgain { 2 } else { 1 };
        assert_eq!(fake.count(Endpoint::DeviceState), asked, "{code:?}");
    }
    let fake = Fake::new(&node(), replies(vec![Reply::RefuseFor(Code::TooManyRequests, 77)]));
    let error = ask(&mut fake.client(&clock())).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(77)));
}

// spec: AG-7
#[tokio::test(start_paused = true)]
async fn the_controllers_time_is_known_after_the_first_challenge() {
    let ten_years = Duration::from_secs(3650 * 86_400);
    let start = UnixTime::from_secs(START);
    for wall in [start, start.plus(ten_years), start.minus(ten_years), UnixTime::EPOCH] {
        let fake = Fake::new(&node(), replies(vec![]));
        let clock = TestClock::at(wall);
        let mut client = fake.client(&clock);
        assert_eq!(client.server_now(), None);
        assert_eq!(client.prepare(Endpoint::Heartbeat).await.unwrap(), start);
        tokio::time::advance(Duration::from_secs(500)).await;
        clock.set_wall_at_start(UnixTime::from_secs(5));
        assert_eq!(client.server_now(), Some(fake.now()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_goes_with_a_nodes_call_and_with_no_other() {
    let certificates = Rc::new(Cell::new(0));
    let count = Rc::clone(&certificates);
    let fake = Fake::new(
        &node(),
        with_challenges(move |seen| {
            count.set(count.get() + usize::from(seen.certificate.is_some()));
            Reply::Ok("{}".into())
        }),
    );
    let mut client = fake.client(&clock());
    let question = question(&client);
    client.call(Endpoint::DeviceState, &question, Some("chain")).await.unwrap();
    assert_eq!(certificates.get(), 0);
    client.call(Endpoint::Heartbeat, &question, Some("chain")).await.unwrap();
    assert_eq!(certificates.get(), 1);
    let error = client.call(Endpoint::Heartbeat, &question, None).await.unwrap_err();
    assert!(matches!(error, CallError::NoCertificate));
}

// spec: AG-14
#[tokio::test(start_paused = true)]
async fn an_accepted_call_with_strange_words_is_no_answer() {
    let fake = Fake::new(&node(), replies(vec![Reply::Ok(r#"{"a":1}"#.into()), Reply::Ok("[1]".into())]));
    let mut client = fake.client(&clock());
    for _ in 0..2 {
        let answer = ask(&mut client).await.unwrap();
        assert!(matches!(
            answer.json::<lucia_proto::node::first_contact::Accepted>(),
            Err(CallError::BadAnswer { .. })
        ));
    }
}
