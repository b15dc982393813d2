//! Properties of the strict reader over generated text: it reads as serde_json does, and no bytes make it panic.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::{DEPTH, MAX, Outer, bytes, from_slice, from_str, outer, to_string, value};

/// The same value; doubles up to the last digit, in which serde_json is off where the standard library is right.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(a.1, b.1))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-15 + f64::MIN_POSITIVE
        }
        (a, b) => a == b,
    }
}

fn serde_json_agrees(text: &[u8], ours: &Value) -> bool {
    serde_json::from_slice::<Value>(text).is_ok_and(|theirs| alike(&theirs, ours))
}

/// Text that is JSON more often than not.
fn jsonish() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        (-1_000_000_i64..1_000_000).prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:e}")),
        "-?[0-9]{1,3}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
        "\"[a-c\\\\nu0-9\u{e9}]{0,6}\"",
        "\"(\\\\u[0-9a-fA-F]{4}|\\\\[\"/nt\\\\]|[ -!#-\\[]){0,4}\"",
    ];
    let space = "[ \n\t\r]{0,2}";
    let value = leaf.prop_recursive(4, 32, 5, move |inner| {
        let member = (space, "[abc]", inner.clone()).prop_map(|(s, k, v)| format!("{s}\"{k}\":{s}{v}"));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(member, 0..3).prop_map(|v| format!("{{{}}}", v.join(","))),
        ]
    });
    value.prop_map(|v| format!("{{\"v\":{v}}}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    // spec: JS-9
    #[test]
    fn what_we_accept_serde_json_reads_alike(text in jsonish()) {
        if let Ok(ours) = value(&text) {
            prop_assert!(serde_json_agrees(text.as_bytes(), &ours), "{ours}");
        }
        let _ = outer(&text);
    }

    // spec: JS-9
    #[test]
    fn what_serde_json_writes_we_read(numbers in prop::collection::btree_map("[a-z]{1,3}", any::<f64>(), 0..40)) {
        let sound: BTreeMap<_, _> = numbers.into_iter().filter(|(_, n)| n.is_finite()).map(|(k, n)| (k, n + 0.0)).collect();
        let text = to_string(&sound).unwrap();
        prop_assert_eq!(from_str::<BTreeMap<String, f64>>(&text, MAX, DEPTH), Ok(sound));
    }

    // spec: JS-9
    #[test]
    fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,100}") {
        let _ = bytes(&raw);
        let _ = value(&format!("{{\"a\":{text}}}"));
    }

    // spec: JS-9
    #[test]
    fn no_change_of_one_byte_makes_it_panic(text in jsonish(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut changed = text.into_bytes();
        let at = at.index(changed.len());
        changed[at] = byte;
        if let Ok(ours) = bytes(&changed) {
            prop_assert!(serde_json_agrees(&changed, &ours), "{ours}");
        }
        let _ = from_slice::<Outer>(&changed, MAX, DEPTH);
        changed.truncate(at);
        prop_assert!(bytes(&changed).is_err());
    }
}
