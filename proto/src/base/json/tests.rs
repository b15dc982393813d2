mod properties;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::test_support::fault;

const MAX: usize = 1 << 20;
const DEPTH: usize = 24;

fn value(text: &str) -> Result<Value, JsonError> {
    from_str(text, MAX, DEPTH)
}

#[track_caller]
fn accepted(cases: &[&str]) {
    for text in cases {
        let ours = value(text);
        assert_eq!(ours.as_ref().ok(), serde_json::from_str::<Value>(text).ok().as_ref(), "{text:?}: {ours:?}");
        assert!(ours.is_ok(), "{text:?}: {ours:?}");
    }
}

#[track_caller]
fn refused(cases: &[(&str, JsonErrorKind)]) {
    for (text, kind) in cases {
        assert_eq!(value(text).as_ref().map_err(JsonError::kind), Err(kind), "{text:?}");
    }
}

fn bytes(bytes: &[u8]) -> Result<Value, JsonError> {
    from_slice(bytes, MAX, DEPTH)
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Outer {
    #[serde(default)]
    inner: Option<Inner>,
    #[serde(default)]
    list: Vec<Inner>,
    #[serde(default)]
    by_name: BTreeMap<String, Inner>,
    #[serde(default)]
    word: Option<Word>,
    #[serde(default)]
    pair: Option<(u8, u8)>,
    #[serde(default)]
    wrapped: Option<Wrapped>,
    #[serde(default)]
    nothing: (),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    n: u32,
    #[serde(default)]
    f: f64,
    #[serde(default)]
    s: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Word {
    One,
    Many(u8),
    Named { n: u8 },
    Pair(u8, u8),
}

#[derive(Debug, PartialEq, Deserialize)]
struct Wrapped(u8);

fn outer(text: &str) -> Result<Outer, JsonError> {
    from_str(text, MAX, DEPTH)
}

fn says(text: &str) -> String {
    fault(&outer(text).expect_err(text))
}

// spec: JS-1 (threats.md J-1)
#[test]
fn a_key_is_there_once_in_whatever_spelling() {
    refused(&[
        (r#"{"a":1,"a":1}"#, JsonErrorKind::DuplicateKey),
        (r#"{"a":1,"\u0061":1}"#, JsonErrorKind::DuplicateKey),
        (r#"{"\u0061":1,"a":1}"#, JsonErrorKind::DuplicateKey),
        (r#"{"\/":1,"/":1}"#, JsonErrorKind::DuplicateKey),
        (r#"{"x":{"a":1,"a":2}}"#, JsonErrorKind::DuplicateKey),
        (r#"{"x":[{"a":1},{"a":1,"b":2,"a":2}]}"#, JsonErrorKind::DuplicateKey),
        (r#"{"x":{"y":{}},"x":1}"#, JsonErrorKind::DuplicateKey),
        (r#"{"":1,"":1}"#, JsonErrorKind::DuplicateKey),
        (r#"{"\uD83D\uDE00":1,"😀":2}"#, JsonErrorKind::DuplicateKey),
    ]);
    accepted(&[
        r#"{"a":1,"A":1}"#,
        r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#,
        r#"{"a":[{"a":1},{"a":1}]}"#,
        r#"{"\\u0061":1,"a":1}"#,
        r#"{"a":1,"a ":1,"":1}"#,
    ]);
    assert_eq!(says(r#"{"list":[{"n":1},{"n":1,"n":2}]}"#), "list[1].n: DuplicateKey");
}

// spec: JS-1
#[test]
fn many_keys_are_compared_as_well() {
    for count in [31, 32, 33, 34, 100, 5000] {
        let mut text = String::from("{\"inner\":{\"first\":0}");
        for n in 0..count {
            write!(text, ",\"k{n}\":{{\"k0\":0}}").unwrap();
        }
        assert!(value(&format!("{text}}}")).is_ok(), "{count}");
        for twice in [0, 1, count / 2, count - 1] {
            let text = format!("{text},\"k{twice}\":0}}");
            assert_eq!(value(&text).unwrap_err().kind(), &JsonErrorKind::DuplicateKey, "{count} {twice}");
        }
        // The set of one object is not the set of another.
        assert!(value(&format!("{text},\"again\":{text}}}}}")).is_ok(), "{count}");
    }
}

// spec: JS-2 (threats.md J-2)
#[test]
fn a_struct_is_an_object_and_an_enum_is_a_word() {
    refused(&[
        ("[]", JsonErrorKind::NotAnObject),
        ("[1,2]", JsonErrorKind::NotAnObject),
        ("null", JsonErrorKind::NotAnObject),
        ("true", JsonErrorKind::NotAnObject),
        ("\"{}\"", JsonErrorKind::NotAnObject),
        ("0", JsonErrorKind::NotAnObject),
        ("", JsonErrorKind::NotAnObject),
        (" \n\t\r ", JsonErrorKind::NotAnObject),
        ("x", JsonErrorKind::NotAnObject),
        ("}", JsonErrorKind::NotAnObject),
    ]);
    for (text, error) in [
        (r#"{"inner":[1]}"#, "inner: Unexpected"),
        (r#"{"inner":"1"}"#, "inner: Unexpected"),
        (r#"{"inner":1}"#, "inner: Unexpected"),
        (r#"{"inner":true}"#, "inner: Unexpected"),
        (r#"{"list":[[1]]}"#, "list[0]: Unexpected"),
        (r#"{"list":[null]}"#, "list[0]: Unexpected"),
        (r#"{"list":{"0":1}}"#, "list: Unexpected"),
        (r#"{"byName":[["a",{"n":1}]]}"#, "byName: Unexpected"),
        (r#"{"byName":{"x":[1]}}"#, "byName.x: Unexpected"),
        (r#"{"word":{"One":null}}"#, "word: Unexpected"),
        (r#"{"word":["One"]}"#, "word: Unexpected"),
        (r#"{"word":0}"#, "word: Unexpected"),
        (r#"{"word":"one"}"#, "word: Unexpected"),
        (r#"{"word":{"Many":1}}"#, "word: Unexpected"),
        (r#"{"word":"Many"}"#, "word: Unexpected"),
        (r#"{"word":"Named"}"#, "word: Unexpected"),
        (r#"{"word":"Pair"}"#, "word: Unexpected"),
        (r#"{"pair":[1]}"#, "pair: Unexpected"),
        (r#"{"pair":[1,2,3]}"#, "pair: Unexpected"),
        (r#"{"pair":{"0":1,"1":2}}"#, "pair: Unexpected"),
        (r#"{"wrapped":[1]}"#, "wrapped: Unexpected"),
        (r#"{"nothing":0}"#, "nothing: Unexpected"),
    ] {
        assert_eq!(says(text), error);
    }
    for text in [
        r#"{"inner":null}"#,
        r#"{"inner":{"n":1},"list":[{"n":2},{"n":3}],"byName":{"a":{"n":4}}}"#,
        r#"{"word":"One","pair":[1,2],"wrapped":3,"nothing":null}"#,
        r#"{"word":"\u004fne"}"#,
        "{}",
    ] {
        assert!(outer(text).is_ok(), "{text}: {:?}", outer(text));
    }
    let words: BTreeMap<Word, u8> = from_str(r#"{"One":1}"#, MAX, DEPTH).unwrap();
    assert_eq!(words.get(&Word::One), Some(&1));
    assert!(from_str::<BTreeMap<Word, u8>>(r#"{"Many":1}"#, MAX, DEPTH).is_err());
}

// spec: JS-3 (threats.md J-3)
#[test]
fn unknown_and_missing_fields_are_named_and_no_value_is_repeated() {
    for (text, error) in [
        (r#"{"more":"secret"}"#, "more: UnknownField"),
        (r#"{"inner":{"n":1,"m\n\u202e":"secret"}}"#, "inner.m\\u{a}\\u{202e}: UnknownField"),
        (r#"{"inner":{}}"#, "inner.n: MissingField"),
        (r#"{"inner":{"n":"secret"}}"#, "inner.n: Unexpected"),
        (r#"{"inner":{"n":4294967296}}"#, "inner.n: Unexpected"),
        (r#"{"inner":{"n":-1}}"#, "inner.n: Unexpected"),
        (r#"{"inner":{"n":1,"s":7}}"#, "inner.s: Unexpected"),
        (r#"{"list":[{"n":1},{"n":1},{"n":1},{"n":1,"f":"secret"}]}"#, "list[3].f: Unexpected"),
    ] {
        assert_eq!(says(text), error);
        assert!(!outer(text).unwrap_err().to_string().contains("secret"), "{text}");
    }
    let told = |text: &str| outer(text).unwrap_err().to_string();
    let long = told(&format!("{{\"{}\":1}}", "é".repeat(5000)));
    assert!(long.len() < 600 && long.is_ascii(), "{long}");
    let deep = told(&format!("{{\"byName\":{{\"{}\":{{\"{}\":1}}}}}}", "a".repeat(5000), "b".repeat(5000)));
    assert!(deep.len() < 600 && deep.starts_with("byName.aaa"), "{deep}");
    let error = value(r#"{"a":[{"b":x}]}"#).unwrap_err();
    assert_eq!((error.path(), error.kind()), ("a[0].b", &JsonErrorKind::Syntax));
}

// spec: JS-3
#[test]
fn words_of_a_checked_type_are_escaped_and_bounded() {
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Never;
    impl TryFrom<String> for Never {
        type Error = String;
        fn try_from(text: String) -> Result<Self, String> {
            Err(text)
        }
    }
    let error = from_str::<BTreeMap<String, Never>>(r#"{"k":"a\n\u202eb"}"#, MAX, DEPTH).unwrap_err();
    assert_eq!(error.to_string(), "k: a\\u{a}\\u{202e}b");
    let text = format!("{{\"k\":\"{}\"}}", "é".repeat(5000));
    let error = from_str::<BTreeMap<String, Never>>(&text, MAX, DEPTH).unwrap_err().to_string();
    assert!(error.len() < 250 && error.is_ascii() && error.ends_with(".."), "{error}");
}

// spec: JS-4 (threats.md J-4)
#[test]
fn numbers_are_exact_everywhere() {
    refused(&[
        (r#"{"a":1e400}"#, JsonErrorKind::Number),
        (r#"{"a":-1e400}"#, JsonErrorKind::Number),
        (r#"{"a":-0}"#, JsonErrorKind::Number),
        (r#"{"a":-0.0}"#, JsonErrorKind::Number),
        (r#"{"a":-0e1}"#, JsonErrorKind::Number),
        (r#"{"a":-1e-400}"#, JsonErrorKind::Number),
        (r#"{"a":1e-400}"#, JsonErrorKind::Number),
        (r#"{"a":9007199254740993}"#, JsonErrorKind::Number),
        (r#"{"a":-9007199254740993}"#, JsonErrorKind::Number),
        (r#"{"a":18446744073709551616}"#, JsonErrorKind::Number),
        (r#"{"a":123456789012345678901234567890}"#, JsonErrorKind::Number),
        (r#"{"a":0.12345678901234567890123456789}"#, JsonErrorKind::Number),
        (r#"{"a":[0,{"b":1e400}]}"#, JsonErrorKind::Number),
        (r#"{"a":01}"#, JsonErrorKind::Syntax),
        (r#"{"a":-01}"#, JsonErrorKind::Syntax),
        (r#"{"a":00}"#, JsonErrorKind::Syntax),
        (r#"{"a":+1}"#, JsonErrorKind::Syntax),
        (r#"{"a":.5}"#, JsonErrorKind::Syntax),
        (r#"{"a":5.}"#, JsonErrorKind::Syntax),
        (r#"{"a":5.e1}"#, JsonErrorKind::Syntax),
        (r#"{"a":1e}"#, JsonErrorKind::Syntax),
        (r#"{"a":1e+}"#, JsonErrorKind::Syntax),
        (r#"{"a":-}"#, JsonErrorKind::Syntax),
        (r#"{"a":--1}"#, JsonErrorKind::Syntax),
        (r#"{"a":0x10}"#, JsonErrorKind::Syntax),
        (r#"{"a":1_000}"#, JsonErrorKind::Syntax),
        (r#"{"a":1 000}"#, JsonErrorKind::Syntax),
        (r#"{"a":NaN}"#, JsonErrorKind::Syntax),
        (r#"{"a":Infinity}"#, JsonErrorKind::Syntax),
        (r#"{"a":-Infinity}"#, JsonErrorKind::Syntax),
        (r#"{"a":nan}"#, JsonErrorKind::Syntax),
        ("{\"a\":\u{ff11}}", JsonErrorKind::Syntax),
        (r#"{"a":1"#, JsonErrorKind::Syntax),
    ]);
    accepted(&[
        r#"{"a":0}"#,
        r#"{"a":-1}"#,
        r#"{"a":9007199254740992}"#,
        r#"{"a":-9007199254740992}"#,
        r#"{"a":0.0}"#,
        r#"{"a":0e5}"#,
        r#"{"a":0.000e-400}"#,
        r#"{"a":1.5}"#,
        r#"{"a":-1.5e-3}"#,
        r#"{"a":1E2}"#,
        r#"{"a":1e+2}"#,
        r#"{"a":1e308}"#,
        r#"{"a":5e-324}"#,
        r#"{"a":0.1234567890123456789012345678}"#,
        r#"{"a":1.7976931348623157e308}"#,
    ]);
    for text in [r#"{"inner":{"n":1.0}}"#, r#"{"inner":{"n":1e2}}"#, r#"{"inner":{"n":1E0}}"#] {
        assert_eq!(says(text), "inner.n: Unexpected");
    }
    assert_eq!(outer(r#"{"inner":{"n":1,"f":2}}"#).map(|o| o.inner.map(|i| i.f)), Ok(Some(2.0)));
}

// spec: JS-5 (threats.md J-5)
#[test]
fn depth_is_bounded_in_ignored_places_too() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert!(value(&nested(24)).is_ok());
    assert_eq!(value(&nested(25)).unwrap_err().kind(), &JsonErrorKind::TooDeep { max_depth: 24 });
    assert_eq!(value(&nested(129)).unwrap_err().kind(), &JsonErrorKind::TooDeep { max_depth: 24 });
    let objects = |depth: usize| format!("{}{{}}{}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    assert!(value(&objects(24)).is_ok());
    assert_eq!(value(&objects(25)).unwrap_err().kind(), &JsonErrorKind::TooDeep { max_depth: 24 });
    assert!(from_str::<Value>("{}", MAX, 1).is_ok());
    assert!(from_str::<Value>("{}", MAX, 0).is_err());
    // Whatever a caller asks for, the stack is safe; and a field that is skipped is no exception.
    #[derive(Debug, Deserialize)]
    struct Lenient {}
    let error = from_str::<Lenient>(&nested(100_000), MAX, usize::MAX).unwrap_err();
    assert_eq!(error.kind(), &JsonErrorKind::TooDeep { max_depth: 128 });
    assert!(from_str::<Lenient>(&nested(128), MAX, usize::MAX).is_ok());
    assert!(from_str::<Lenient>(&format!("{{\"a\":{}", "[".repeat(100_000)), MAX, 24).is_err());
    let ignored = from_str::<Lenient>(r#"{"ignored":{"x":1,"x":2}}"#, MAX, 24).unwrap_err();
    assert_eq!(fault(&ignored), "ignored.x: DuplicateKey");
}

// spec: JS-6 (threats.md J-6)
#[test]
fn only_text_that_every_reader_sees_alike() {
    for (bad, name) in [
        (&b"{\"a\":\"\xff\"}"[..], "not UTF-8"),
        (b"{\"a\":\"\xc0\xaf\"}", "overlong"),
        (b"{\"a\":\"\xe0\x80\xaf\"}", "overlong"),
        (b"{\"a\":\"\xed\xa0\x80\"}", "surrogate in UTF-8"),
        (b"{\"a\":\"\xf4\x90\x80\x80\"}", "beyond U+10FFFF"),
        (b"{\"a\":\"\xe2\x82", "cut"),
        (b"{\"\x80\":1}", "in a key"),
        (b"{}\xff", "after the object"),
    ] {
        assert_eq!(bytes(bad).unwrap_err().kind(), &JsonErrorKind::NotUtf8, "{name}");
    }
    refused(&[
        ("\u{feff}{}", JsonErrorKind::NotAnObject),
        (r#"{"a":"\u0000"}"#, JsonErrorKind::Character),
        (r#"{"a":"\u0007"}"#, JsonErrorKind::Character),
        (r#"{"a":"\u000d"}"#, JsonErrorKind::Character),
        (r#"{"a":"\r"}"#, JsonErrorKind::Character),
        (r#"{"a":"\b"}"#, JsonErrorKind::Character),
        (r#"{"a":"\f"}"#, JsonErrorKind::Character),
        (r#"{"a":"\u001b[31m"}"#, JsonErrorKind::Character),
        (r#"{"a":"\u007f"}"#, JsonErrorKind::Character),
        (r#"{"a":"\u0085"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ufffe"}"#, JsonErrorKind::Character),
        (r#"{"a":"\uFFFF"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ud83f\udfff"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ud800"}"#, JsonErrorKind::Character),
        (r#"{"a":"\udc00"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ud800x"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ud800\n"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ud800\ud800"}"#, JsonErrorKind::Character),
        (r#"{"a":"\udc00\ud800"}"#, JsonErrorKind::Character),
        (r#"{"a":"\ud800\u0041"}"#, JsonErrorKind::Character),
        (r#"{"\u0000":1}"#, JsonErrorKind::Character),
        (r#"{"ignored":{"x":["\u0000"]}}"#, JsonErrorKind::Character),
        ("{\"a\":\"\u{7f}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\u{85}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\u{9f}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\u{fffe}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\u{ffff}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\u{1fffe}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\u{10ffff}\"}", JsonErrorKind::Character),
        ("{\"a\":\"\0\"}", JsonErrorKind::Syntax),
        ("{\"a\":\"\n\"}", JsonErrorKind::Syntax),
        ("{\"a\":\"\t\"}", JsonErrorKind::Syntax),
        ("{\"a\":\"\u{1f}\"}", JsonErrorKind::Syntax),
        (r#"{"a":"\x41"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\'"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\U0041"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\u004"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\u+041"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\u00g0"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\ud83d\u+e00"}"#, JsonErrorKind::Syntax),
        (r#"{"a":"\"#, JsonErrorKind::Syntax),
        (r#"{"a":"\u"#, JsonErrorKind::Syntax),
        (r#"{"a":"\u00"#, JsonErrorKind::Syntax),
        (r#"{"a":"x"#, JsonErrorKind::Syntax),
        (r#"{"a":"\u00é"}"#, JsonErrorKind::Syntax),
    ]);
    accepted(&[
        r#"{"a":"\n\t\"\\\/"}"#,
        r#"{"a":"\u0041\u00e9\u20ac\ud83d\ude00\uD83D\uDE00"}"#,
        r#"{"a":"\u000a\u0009"}"#,
        r#"{"é€😀":"é€😀"}"#,
        "{\"a\":\"\u{fffd}\u{2028}\u{a0}\u{1fffd}\"}",
        r#"{"a":"\u2028\ufdd0\ud800\udc00\udbff\udffd"}"#,
        r#"{"a":" ~"}"#,
        r#"{"a":"","":""}"#,
        r#"{"a":"\\u0000 \\n"}"#,
    ]);
}

// spec: JS-7 (threats.md J-7)
#[test]
fn nothing_but_one_object() {
    refused(&[
        ("{}x", JsonErrorKind::Trailing),
        ("{} {}", JsonErrorKind::Trailing),
        ("{}\n{}", JsonErrorKind::Trailing),
        ("{},", JsonErrorKind::Trailing),
        ("{}}", JsonErrorKind::Trailing),
        ("{}//", JsonErrorKind::Trailing),
        ("{}\0", JsonErrorKind::Trailing),
        ("{}\u{a0}", JsonErrorKind::Trailing),
        ("{}\u{feff}", JsonErrorKind::Trailing),
        ("/**/{}", JsonErrorKind::NotAnObject),
        ("\u{a0}{}", JsonErrorKind::NotAnObject),
        ("\u{c}{}", JsonErrorKind::NotAnObject),
        ("{\u{b}}", JsonErrorKind::Syntax),
        ("{/**/}", JsonErrorKind::Syntax),
        ("{#\n}", JsonErrorKind::Syntax),
        ("{", JsonErrorKind::Syntax),
        ("{\"a\"", JsonErrorKind::Syntax),
        ("{\"a\":", JsonErrorKind::Syntax),
        ("{\"a\":1,", JsonErrorKind::Syntax),
        ("{\"a\":1,}", JsonErrorKind::Syntax),
        ("{,}", JsonErrorKind::Syntax),
        ("{,\"a\":1}", JsonErrorKind::Syntax),
        ("{\"a\":1,,\"b\":1}", JsonErrorKind::Syntax),
        ("{\"a\" 1}", JsonErrorKind::Syntax),
        ("{\"a\"::1}", JsonErrorKind::Syntax),
        ("{\"a\":1 \"b\":2}", JsonErrorKind::Syntax),
        ("{\"a\":1;\"b\":2}", JsonErrorKind::Syntax),
        ("{a:1}", JsonErrorKind::Syntax),
        ("{'a':1}", JsonErrorKind::Syntax),
        ("{1:1}", JsonErrorKind::Syntax),
        ("{null:1}", JsonErrorKind::Syntax),
        ("{[]:1}", JsonErrorKind::Syntax),
        ("{\"a\"}", JsonErrorKind::Syntax),
        ("{\"a\":}", JsonErrorKind::Syntax),
        ("{\"a\":[1,]}", JsonErrorKind::Syntax),
        ("{\"a\":[,1]}", JsonErrorKind::Syntax),
        ("{\"a\":[,]}", JsonErrorKind::Syntax),
        ("{\"a\":[1 2]}", JsonErrorKind::Syntax),
        ("{\"a\":[1:2]}", JsonErrorKind::Syntax),
        ("{\"a\":[1}", JsonErrorKind::Syntax),
        ("{\"a\":[}", JsonErrorKind::Syntax),
        ("{\"a\":]}", JsonErrorKind::Syntax),
        ("{\"a\":{]}", JsonErrorKind::Syntax),
        ("{\"a\":tru}", JsonErrorKind::Syntax),
        ("{\"a\":True}", JsonErrorKind::Syntax),
        ("{\"a\":nul", JsonErrorKind::Syntax),
        ("{\"a\":falsee}", JsonErrorKind::Syntax),
        ("{\"a\":nulll}", JsonErrorKind::Syntax),
        ("{\"a\":undefined}", JsonErrorKind::Syntax),
        ("{\"a\":*}", JsonErrorKind::Syntax),
        ("{\"a\":\"b\"\"c\"}", JsonErrorKind::Syntax),
        ("{\"a\":é}", JsonErrorKind::Syntax),
        ("{\"a\":té}", JsonErrorKind::Syntax),
    ]);
    accepted(&[
        "{}",
        " \t\r\n{ \t\r\n} \t\r\n",
        "{\"a\" : 1 , \"b\" : [ 1 , 2 ] , \"c\" : { } }",
        "{\"a\":[]}",
        "{\"a\":[[],[[]],{}]}",
        "{\"a\":true,\"b\":false,\"c\":null}",
        "{\"a\":[true,false,null,\"\",0]}",
    ]);
}

#[test]
fn plain_bytes_are_counted_exactly_wherever_the_first_other_stands() {
    use super::scan::plain_length;
    for other in (0..=255u8).filter(|byte| !(b' '..=b'~').contains(byte) || matches!(byte, b'"' | b'\\')) {
        for length in 0..20 {
            for after in [b' ', b'~', b'!', b'#', b'[', b']', 0, 0x7f, 0xff, b'"', b'\\'] {
                let mut text = vec![b' '; length];
                text.push(other);
                text.extend([after; 9]);
                assert_eq!(plain_length(&text), length, "{other} after {length}, then {after}");
            }
        }
    }
    for plain in (b' '..=b'~').filter(|byte| !matches!(byte, b'"' | b'\\')) {
        assert_eq!(plain_length(&[plain; 19]), 19, "{plain}");
    }
}

// spec: JS-8
#[test]
fn size_is_looked_at_first() {
    assert!(from_str::<Value>("{}", 2, DEPTH).is_ok());
    assert_eq!(from_str::<Value>("{} ", 2, DEPTH).unwrap_err().kind(), &JsonErrorKind::TooLarge { max_bytes: 2 });
    assert!(from_slice::<Value>(b"{}", 2, DEPTH).is_ok());
    let error = from_slice::<Value>(b"\xff\xff\xff", 2, DEPTH).unwrap_err();
    assert_eq!(error.kind(), &JsonErrorKind::TooLarge { max_bytes: 2 });
}

#[test]
fn writing_gives_what_reading_takes() {
    let text = to_string(&BTreeMap::from([("a", 1)])).unwrap();
    assert_eq!(text, r#"{"a":1}"#);
    let unwritable = BTreeMap::from([(vec![1], 1)]);
    assert_eq!(to_string(&unwritable).unwrap_err().kind(), &JsonErrorKind::NotWritable);
}
