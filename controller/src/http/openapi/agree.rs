//! The description and the programs read the same: what one takes the other takes, member by member.

use serde_json::{Value, json as value};

use super::committed;
use super::judge::judge;
use super::samples::{self, Sample};

/// The place of every value in `value`, by JSON pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => members.iter().for_each(|(key, inner)| places(inner, &format!("{at}/{key}"), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, inner)| places(inner, &format!("{at}/{number}"), found));
        }
        _ => {}
    }
}

/// The names of members that a schema knows and no value of it here has.
fn lacks(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut lacking = Vec::new();
    if let Some(pointer) = schema["$ref"].as_str() {
        lacking.extend(lacks(root, root.pointer(&pointer[1..]).unwrap(), value));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        match value.get(name) {
            None => lacking.push(name.clone()),
            Some(member) => lacking.extend(lacks(root, inner, member).iter().map(|more| format!("{name}.{more}"))),
        }
    }
    if schema["items"].is_object() {
        let items = value.as_array().unwrap();
        if items.is_empty() {
            lacking.push("an item".to_owned());
        }
        // Of several one may be the full one, and the others of other kinds.
        let best = items.iter().map(|item| lacks(root, &schema["items"], item)).min_by_key(Vec::len);
        lacking.extend(best.unwrap_or_default());
    }
    lacking
}

// spec: AP-4
#[test]
fn what_the_description_takes_the_programs_take_member_by_member() {
    let root = committed();
    let mut held = 0_u32;
    for Sample { name, value, read } in samples::all() {
        let schema = value!({"$ref": format!("#/components/schemas/{name}")});
        assert_eq!(judge(&root, &schema, &value), Ok(()), "{name}");
        assert_eq!(read(&value.to_string()).as_ref(), Some(&value), "{name}: it is not read whole");
        assert_eq!(lacks(&root, &schema, &value), Vec::<String>::new(), "{name}: the sample has not every member");
        let both = |changed: &Value| (judge(&root, &schema, changed), read(&changed.to_string()).is_some());
        let mut found = Vec::new();
        places(&value, "", &mut found);
        for place in found {
            let here = value.pointer(&place).unwrap();
            for key in here.as_object().into_iter().flat_map(|members| members.keys()) {
                let mut changed = value.clone();
                changed.pointer_mut(&place).unwrap().as_object_mut().unwrap().remove(key);
                let (judged, is_read) = both(&changed);
                assert_eq!(judged.is_ok(), is_read, "{name}{place} without {key}: {judged:?}");
                held += 1;
            }
            if here.is_object() {
                let mut changed = value.clone();
                changed.pointer_mut(&place).unwrap()["unheardOf"] = value!(1);
                let (judged, is_read) = both(&changed);
                assert_eq!(judged.is_ok(), is_read, "{name}{place} with a member that nobody knows");
            }
            // What the description takes is never more than what the programs take.
            for other in [
                value!(""),
                value!("\u{202e}"),
                value!("ZZ"),
                value!(-1),
                value!(1.5),
                value!(true),
                value!([]),
                value!({}),
            ] {
                let mut changed = value.clone();
                *changed.pointer_mut(&place).unwrap() = other.clone();
                let (judged, is_read) = both(&changed);
                assert!(is_read || judged.is_err(), "{name}{place} as {other}: the programs refuse it");
                held += 1;
            }
        }
    }
    assert!(held > 2000, "{held}");
}

// spec: AP-5
#[test]
fn the_judge_refuses_what_is_wrong_and_knows_every_word_of_the_description() {
    let root = value!({"a": {"type": "string", "pattern": "^a+$"}});
    for (schema, good, bad) in [
        (value!({"$ref": "#/a"}), value!("aa"), value!("ab")),
        (value!({"type": "integer", "minimum": 1, "maximum": 3}), value!(3), value!(4)),
        (value!({"type": "integer"}), value!(3), value!(3.5)),
        (value!({"type": "string", "minLength": 1, "maxLength": 2}), value!("ä"), value!("")),
        (value!({"enum": ["a"]}), value!("a"), value!("b")),
        (value!({"const": 1}), value!(1), value!(2)),
        (value!({"items": {"type": "boolean"}, "maxItems": 1}), value!([true]), value!([true, true])),
        (value!({"items": {"type": "boolean"}, "minItems": 1}), value!([true]), value!([])),
        (
            value!({"properties": {"a": {"const": 1}}, "additionalProperties": false}),
            value!({"a": 1}),
            value!({"b": 1}),
        ),
        (value!({"additionalProperties": {"const": 1}}), value!({"b": 1}), value!({"b": 2})),
        (value!({"uniqueItems": true}), value!([1, 2]), value!([1, 2, 1])),
        (value!({"propertyNames": {"const": "b"}}), value!({"b": 1}), value!({"c": 2})),
        (value!({"required": ["a"]}), value!({"a": 1}), value!({})),
        (value!({"oneOf": [{"type": "string"}, {"const": "a"}]}), value!("b"), value!("a")),
        (value!({"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}), value!("::1"), value!("1.2.3")),
        (value!({"allOf": [{"type": "string"}, {"const": "a"}]}), value!("a"), value!("b")),
        (value!({"not": {"const": "a"}}), value!("b"), value!("a")),
    ] {
        assert_eq!(judge(&root, &schema, &good), Ok(()), "{schema}");
        assert!(judge(&root, &schema, &bad).is_err(), "{schema}");
    }
    assert!(judge(&root, &value!({"unheardOf": 1}), &value!(1)).is_err());
    assert!(judge(&root, &value!({"$ref": "#/b"}), &value!(1)).is_err());
}
