//! Strict JSON against serde_json, both ways: what we accept it reads alike, and what it reads we refuse for one of the
//! reasons of `lucia_proto::base::json` alone.

use std::fmt;

use lucia_proto::base::json::{JsonError, from_slice, from_str, to_string};
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

const MAX: usize = 64 * 1024;

pub(super) fn run(input: &[u8]) {
    let ours = from_slice::<Value>(input, MAX, JSON_DEPTH_MAX);
    match &ours {
        Ok(value) => accepted(input, value),
        Err(error) => refused(input, error),
    }
}

fn accepted(input: &[u8], value: &Value) {
    assert!(value.is_object(), "something else than an object was accepted");
    let theirs = serde_json::from_slice::<Value>(input).unwrap_or_else(|error| panic!("serde_json refuses: {error}"));
    assert!(super::alike(value, &theirs), "serde_json reads {theirs}, and we read {value}");
    let tree = serde_json::from_slice::<Tree>(input).unwrap();
    assert!(!tree.has_repeats(), "a key stands twice: {value}");
    let text = to_string(value).unwrap();
    let again = from_str::<Value>(&text, usize::MAX, JSON_DEPTH_MAX);
    assert_eq!(again.as_ref(), Ok(value), "written and read again: {text}");
}

fn refused(input: &[u8], error: &JsonError) {
    let words = error.to_string();
    assert!(words.len() <= 600, "{} characters of error", words.len());
    assert!(words.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{words:?}");
    if input.len() <= MAX
        && let Ok(tree) = serde_json::from_slice::<Tree>(input)
    {
        let strange = !matches!(tree, Tree::Object(_)) || tree.is_strange(1);
        assert!(strange, "refused without a reason, {words}: {tree:?}");
    }
}

/// JSON as it stands there: repeated keys are kept.
#[derive(Debug)]
enum Tree {
    Word,
    Integer(i64),
    Fraction,
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    fn has_repeats(&self) -> bool {
        match self {
            Self::Array(items) => items.iter().any(Self::has_repeats),
            Self::Object(members) => {
                let mut keys: Vec<_> = members.iter().map(|(key, _)| key).collect();
                keys.sort();
                keys.windows(2).any(|pair| pair[0] == pair[1]) || members.iter().any(|(_, value)| value.has_repeats())
            }
            _ => false,
        }
    }

    /// Whether there is, or may be, a reason to refuse it.
    fn is_strange(&self, depth: usize) -> bool {
        let odd = |text: &str| {
            text.chars().any(|c| {
                (c.is_control() && c != '\n' && c != '\t') || matches!(u32::from(c), 0xfdd0..=0xfdef | 0xfffe..)
            })
        };
        match self {
            Self::Word => false,
            Self::Integer(number) => number.unsigned_abs() > 1 << 53,
            Self::Fraction => true,
            Self::Text(text) => odd(text),
            Self::Array(items) => depth > JSON_DEPTH_MAX || items.iter().any(|item| item.is_strange(depth + 1)),
            Self::Object(members) => {
                depth > JSON_DEPTH_MAX
                    || self.has_repeats()
                    || members.iter().any(|(key, value)| odd(key) || value.is_strange(depth + 1))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Word)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Word)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(i64::try_from(number).map_or(Tree::Fraction, Tree::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Fraction)
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            out.push(item);
        }
        Ok(Tree::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut out = Vec::new();
        while let Some(member) = members.next_entry()? {
            out.push(member);
        }
        Ok(Tree::Object(out))
    }
}
