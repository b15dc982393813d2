//! Group J: strange JSON, around a signature and under one.

use lucia_proto::base::code::Code;
use lucia_proto::calls::Endpoint;

use super::Stack;

/// The same text with other words at one place.
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1)
}

/// Name, and what becomes of a good report.
fn reports(good: &str) -> Vec<(&'static str, String)> {
    let purpose = r#""purpose":"heartbeat""#;
    let more = |text: &str| with(good, purpose, &format!("{purpose},{text}"));
    let deep = format!(r#""extensions":{}{}"#, "[".repeat(129), "]".repeat(129));
    vec![
        ("J-1", more(purpose)),
        ("J-1 escaped", more(r#""\u0070urpose":"heartbeat""#)),
        ("J-1 nested", more(r#""extensions":{"a":1,"a":1}"#)),
        ("J-2 list", format!("[{good}]")),
        ("J-2 null", with(good, r#""heartbeat""#, "null")),
        ("J-2 text", format!("{good:?}")),
        ("J-3", more(r#""isAdmin":true"#)),
        ("J-4 1e400", more(r#""gpuPercent":1e400"#)),
        ("J-4 minus nothing", more(r#""gpuPercent":-0"#)),
        ("J-4 30 digits", more(r#""gpuPercent":0.123456789012345678901234567890"#)),
        ("J-4 fraction", with(good, r#""uptimeSeconds":"#, r#""uptimeSeconds":1.0,"x":"#)),
        ("J-4 2^53 + 1", more(r#""storageTotalBytes":9007199254740993"#)),
        ("J-5", more(&deep)),
        ("J-6 surrogate", with(good, r#""osVersion":""#, r#""osVersion":"\ud800"#)),
        ("J-6 NUL", with(good, r#""osVersion":""#, r#""osVersion":"\u0000"#)),
        ("J-6 U+FFFE", with(good, r#""osVersion":""#, "\"osVersion\":\"\u{fffe}")),
        ("J-6 BOM", format!("\u{feff}{good}")),
        ("J-7 bytes", format!("{good}x")),
        ("J-7 second", format!("{good}{good}")),
        ("J-7 comment", with(good, "{", "{/**/")),
    ]
}

fn envelopes(good: &str) -> Vec<(&'static str, Vec<u8>)> {
    let proof = r#""proof":"#;
    let before = |text: &str| with(good, proof, &format!("{text},{proof}")).into_bytes();
    let at = good.find("reportJson").unwrap() + 20;
    let mut invalid = good.as_bytes().to_vec();
    invalid[at] = 0xff;
    let mut overlong = good.as_bytes().to_vec();
    overlong.splice(at..at + 1, [0xc0, 0xaf]);
    vec![
        ("J-1", before(r#""proof":{}"#)),
        ("J-1 escaped", before(r#""\u0070roof":{}"#)),
        ("J-2 list", format!("[{good}]").into_bytes()),
        ("J-2 by place", b"[\"pem\",{}]".to_vec()),
        ("J-2 null", b"null".to_vec()),
        ("J-2 text", b"\"x\"".to_vec()),
        ("J-2 number", b"1".to_vec()),
        ("J-3", before(r#""extra":1"#)),
        ("J-3 inside", with(good, r#""challengeId":"#, r#""alg":"none","challengeId":"#).into_bytes()),
        ("J-4", before(r#""x":1e400"#)),
        ("J-5", before(&format!(r#""x":{}{}"#, "[".repeat(30_000), "]".repeat(30_000)))),
        ("J-6 UTF-8", invalid),
        ("J-6 overlong", overlong),
        ("J-6 BOM", format!("\u{feff}{good}").into_bytes()),
        ("J-7", format!("{good}{good}").into_bytes()),
        ("J-7 empty", Vec::new()),
    ]
}

// spec: TS-61
#[tokio::test]
async fn group_j_is_refused_and_changes_nothing() {
    let Some(mut stack) = Stack::up("stack-json").await else { return };
    let (before, certificate) = (stack.files(), stack.certificate());
    let mut stranger = stack.stranger().await;
    let good = stack.beat.clone();
    for (name, report) in reports(&good) {
        let challenge = stranger.challenge(stack.id()).await;
        let proof = stack.prove(stack.key(), &challenge, &report);
        let reply = stranger.show(Endpoint::Heartbeat, stack.id(), &certificate, proof).await;
        assert_eq!((reply.status, reply.code()), (400, Some(Code::InvalidBody)), "signed {name}: {reply:?}");
        // What is accepted in a second is limited, and these were: their signatures are good.
        tokio::time::sleep(std::time::Duration::from_millis(110)).await;
    }
    let challenge = stranger.challenge(stack.id()).await;
    let proof = stack.prove(stack.key(), &challenge, &good);
    let call = lucia_proto::node::report::NodeCall { certificate_pem: certificate.clone(), proof };
    let text = serde_json::to_string(&call).unwrap();
    for path in [Endpoint::Heartbeat, Endpoint::Renew, Endpoint::Enroll, Endpoint::Grant, Endpoint::Progress] {
        for (name, body) in envelopes(&text) {
            let reply = stranger.post(&path.path_for(stack.id()), body).await;
            assert_eq!((reply.status, reply.code()), (400, Some(Code::InvalidBody)), "{path:?} {name}: {reply:?}");
        }
    }
    stack.is_unchanged(&before);
    // J-8: the signature is over the very bytes, and these are the same value in others.
    let spaced = with(&good, "{", "{ \n");
    let mut proof = stack.prove(stack.key(), &challenge, &good);
    proof.report_json = spaced.clone();
    let reply = stranger.show(Endpoint::Heartbeat, stack.id(), &certificate, proof).await;
    assert_eq!(reply.code(), Some(Code::NodeIdentityInvalid), "J-8: {reply:?}");
    stack.is_unchanged(&before);
    stack.is_well().await;
}
