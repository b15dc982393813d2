//! Whether a value is of a schema: the words of JSON Schema 2020-12 that our own document uses. A word that is not known
//! here stops the test, so nothing is passed over. Used by the tests of this crate, and on every answer in those of the
//! edge from outside (`tests/http`).

use serde_json::Value;

/// What is wrong with `value` by `schema`; `root` is the document that references are read in.
pub(crate) fn judge(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    at("$", root, schema, value)
}

fn at(place: &str, root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let wrong = |why: String| Err(format!("{place}: {why}: {}", short(value)));
    let Some(words) = schema.as_object() else { return wrong("the schema is none".to_owned()) };
    for (word, said) in words {
        let holds = match word.as_str() {
            "description" | "contentEncoding" | "default" => true,
            "$ref" => {
                let pointer = said.as_str().and_then(|text| text.strip_prefix('#')).unwrap_or("?");
                let Some(target) = root.pointer(pointer) else { return wrong(format!("{said} is nowhere")) };
                at(place, root, target, value)?;
                true
            }
            "type" => is(said.as_str().unwrap_or("?"), value),
            "const" => value == said,
            "enum" => said.as_array().is_some_and(|list| list.contains(value)),
            "minimum" => value.as_f64() >= said.as_f64(),
            "maximum" => value.as_f64() <= said.as_f64(),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= count(said)),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() <= count(said)),
            "minItems" => value.as_array().is_none_or(|items| items.len() >= count(said)),
            "maxItems" => value.as_array().is_none_or(|items| items.len() <= count(said)),
            "uniqueItems" => value.as_array().is_none_or(|items| {
                items.iter().enumerate().all(|(number, item)| !items.iter().skip(number + 1).any(|other| other == item))
            }),
            "pattern" => {
                let pattern =
                    regex_lite::Regex::new(said.as_str().unwrap_or("?")).map_err(|error| error.to_string())?;
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "format" => value.as_str().is_none_or(|text| match said.as_str() {
                Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
                Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
                // Its pattern says more.
                Some("date-time") => true,
                _ => false,
            }),
            "not" => at(place, root, said, value).is_err(),
            "allOf" | "anyOf" | "oneOf" => {
                let all = said.as_array().map_or(&[][..], Vec::as_slice);
                let mut why = Vec::new();
                for one in all {
                    why.extend(at(place, root, one, value).err());
                }
                let fit = all.len() - why.len();
                let holds = match word.as_str() {
                    "allOf" => why.is_empty(),
                    "anyOf" => fit >= 1,
                    _ => fit == 1,
                };
                if !holds {
                    return Err(format!("{place}: {fit} of {word} fit ({})", why.join("; ")));
                }
                true
            }
            "required" => {
                let names = said.as_array().map_or(&[][..], Vec::as_slice);
                let missing = names.iter().filter_map(Value::as_str).find(|name| value.get(name).is_none());
                if let (Some(name), true) = (missing, value.is_object()) {
                    return wrong(format!("{name} is missing"));
                }
                true
            }
            "properties" => {
                for (name, inner) in said.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        at(&format!("{place}.{name}"), root, inner, member)?;
                    }
                }
                true
            }
            "propertyNames" => {
                for name in value.as_object().into_iter().flat_map(|members| members.keys()) {
                    at(&format!("{place} name"), root, said, &Value::String(name.clone()))?;
                }
                true
            }
            "additionalProperties" => {
                let known = words.get("properties").and_then(Value::as_object);
                for (name, member) in value.as_object().into_iter().flatten() {
                    if known.is_some_and(|known| known.contains_key(name)) {
                        continue;
                    }
                    if *said == Value::Bool(false) {
                        return wrong(format!("{name} is not known"));
                    }
                    at(&format!("{place}.{name}"), root, said, member)?;
                }
                true
            }
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    at(&format!("{place}[{number}]"), root, said, item)?;
                }
                true
            }
            word => return wrong(format!("the judge does not know the word {word}")),
        };
        if !holds {
            return wrong(format!("not {word} {}", short(said)));
        }
    }
    Ok(())
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => false,
    }
}

fn count(said: &Value) -> usize {
    said.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(120).collect()
}
