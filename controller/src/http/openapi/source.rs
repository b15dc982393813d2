//! Schemas of the types that travel, read from their own source in `lucia_proto`: members, their words, whether they may be
//! absent, and where a type is a closed list its words. What the source does not say, the form of a text and the bound of a
//! list, is in `bounds`; a list or plain text without one stops the test.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use syn::ext::IdentExt as _;
use syn::{Attribute, Expr, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit, Meta, PathArguments, Type};

use super::bounds::{BASE64, bound, constant, leaf};

/// The types of the protocol, by name.
pub(super) struct Source {
    /// Each with the file it stands in: two modules may call two types alike.
    items: BTreeMap<String, Vec<(String, Item)>>,
}

/// What serde was told about a container, member or variant.
#[derive(Default)]
struct Told {
    rename: Option<String>,
    rename_all: Option<String>,
    optional: bool,
    closed: bool,
    transparent: bool,
    /// The least letters and the most bytes.
    base64: Option<(usize, usize)>,
}

impl Source {
    /// Reads every file of the protocol but its tests.
    pub(super) fn read() -> Self {
        let mut source = Self { items: BTreeMap::new() };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
        let mut waiting = vec![root.join("src"), root.join("people/src")];
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let file = path.to_string_lossy();
            // Below the root: the folder that holds the project may have any name.
            let inner = path.strip_prefix(&root).unwrap().to_string_lossy();
            if !file.ends_with(".rs") || inner.contains("tests") || inner.contains("test_support") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for item in syn::parse_file(&text).unwrap().items {
                source.take(&file, item);
            }
        }
        source
    }

    fn take(&mut self, file: &str, item: Item) {
        let name = match &item {
            Item::Struct(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Type(item) => &item.ident,
            _ => return,
        };
        self.items.entry(name.to_string()).or_default().push((file.to_owned(), item));
    }

    /// What the words above each row of the tables of calls say.
    /// The schema of the type of this name, and those it names, put among `found`.
    pub(super) fn describe(&self, name: &str, found: &mut BTreeMap<String, Value>) {
        if found.contains_key(name) {
            return;
        }
        // Its place is taken first: a type may name itself.
        found.insert(name.to_owned(), Value::Null);
        let schema = leaf(name).unwrap_or_else(|| match self.item(name) {
            (file, Item::Struct(item)) => self.structure((file, name), item, found),
            (_, Item::Enum(item)) => closed_list(name, item),
            _ => panic!("{name} is neither a structure nor a closed list"),
        });
        for inner in references(&schema) {
            self.describe(&inner, found);
        }
        found.insert(name.to_owned(), schema);
    }

    fn item(&self, name: &str) -> &(String, Item) {
        let items = self.items.get(name).unwrap_or_else(|| panic!("there is no type {name} in proto"));
        assert_eq!(items.len(), 1, "there is more than one type {name} in proto");
        &items[0]
    }

    fn structure(&self, of: (&str, &str), item: &ItemStruct, found: &mut BTreeMap<String, Value>) -> Value {
        let (_, name) = of;
        let about = told(&item.attrs);
        let fields = match &item.fields {
            Fields::Named(fields) => fields,
            Fields::Unnamed(fields) if about.transparent => {
                let field = &fields.unnamed[0];
                let mut schema = self.member(of, "0", &field.ty, &told(&field.attrs));
                describe_with(&mut schema, &words(&item.attrs));
                return schema;
            }
            Fields::Unnamed(_) | Fields::Unit => panic!("{name}: what it is on the wire is nowhere said"),
        };
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for field in &fields.named {
            let told = told(&field.attrs);
            let ident = field.ident.as_ref().unwrap().unraw().to_string();
            let key = told.rename.clone().unwrap_or_else(|| renamed(&ident, about.rename_all.as_deref()));
            let mut schema = self.member(of, &key, &field.ty, &told);
            describe_with(&mut schema, &words(&field.attrs));
            for inner in references(&schema) {
                self.describe(&inner, found);
            }
            if !told.optional {
                required.push(json!(key));
            }
            properties.insert(key, schema);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if about.closed {
            schema["additionalProperties"] = json!(false);
        }
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        describe_with(&mut schema, &words(&item.attrs));
        schema
    }

    /// What a name stands for in this file, where it is another name of a type: its own file's, or the only one.
    fn alias(&self, file: &str, name: &str) -> Option<(&str, &Type)> {
        let there = self.items.get(name)?;
        let here = there.iter().find(|(place, _)| place == file);
        match here.or_else(|| there.first().filter(|_| there.len() == 1))? {
            (place, Item::Type(alias)) => Some((place, &alias.ty)),
            _ => None,
        }
    }

    /// The schema of one member.
    fn member(&self, (file, of): (&str, &str), key: &str, ty: &Type, told: &Told) -> Value {
        if let Some((least, bytes)) = told.base64 {
            let most = bytes.div_ceil(3) * 4;
            let mut schema =
                json!({"type": "string", "contentEncoding": "base64", "maxLength": most, "pattern": BASE64});
            if least > 0 {
                schema["minLength"] = least.into();
            }
            return schema;
        }
        let mut schema = self.of(file, &format!("{of}.{key}"), ty);
        if let Some(bound) = bound(of, key) {
            for (name, value) in bound.as_object().unwrap() {
                schema[name] = value.clone();
            }
        }
        let is_unbounded = match schema["type"].as_str() {
            Some("array") => schema.get("maxItems").is_none(),
            Some("string") => ["maxLength", "const", "anyOf"].iter().all(|word| schema.get(word).is_none()),
            _ => false,
        };
        assert!(!is_unbounded, "{of}.{key} has no bound; say it in bounds.rs");
        schema
    }

    fn of(&self, file: &str, place: &str, ty: &Type) -> Value {
        let Type::Path(path) = ty else { panic!("{place}: a type that is no path") };
        let last = path.path.segments.last().unwrap();
        let arguments: Vec<&GenericArgument> = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => arguments.args.iter().collect(),
            _ => Vec::new(),
        };
        let inner = |at: usize| match arguments[at] {
            GenericArgument::Type(ty) => self.of(file, place, ty),
            _ => panic!("{place}: a type was expected"),
        };
        let number = |at: usize| match arguments[at] {
            GenericArgument::Const(Expr::Lit(lit)) => match &lit.lit {
                Lit::Int(number) => number.base10_parse().unwrap(),
                _ => panic!("{place}: a number was expected"),
            },
            GenericArgument::Type(Type::Path(path)) => constant(&path.path.segments.last().unwrap().ident.to_string()),
            _ => panic!("{place}: a number was expected"),
        };
        match last.ident.to_string().as_str() {
            "Option" => inner(0),
            "Vec" => json!({"type": "array", "items": inner(0)}),
            "BTreeMap" => json!({"type": "object", "propertyNames": inner(0), "additionalProperties": inner(1)}),
            "Text" => {
                let (least, most): (usize, usize) = (number(0), number(1));
                json!({"type": "string", "minLength": least, "maxLength": most, "pattern": PRINTABLE})
            }
            "String" => json!({"type": "string"}),
            "bool" => json!({"type": "boolean"}),
            // The largest whole number that every reader of JSON keeps exactly.
            "u64" => json!({"type": "integer", "minimum": 0, "maximum": 1_u64 << 53}),
            "u32" => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            "f64" => json!({"type": "number"}),
            name => match self.alias(file, name) {
                Some((file, alias)) => self.of(file, place, alias),
                None => json!({"$ref": format!("#/components/schemas/{name}")}),
            },
        }
    }
}

/// What may be shown to a person (`lucia_proto::base::text`), as far as one word of two bytes says it.
const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff0-\\uffff]*$";

/// A closed list of words.
fn closed_list(name: &str, item: &ItemEnum) -> Value {
    let about = told(&item.attrs);
    let list: Vec<String> = item
        .variants
        .iter()
        .map(|variant| {
            assert!(matches!(variant.fields, Fields::Unit), "{name}::{} is more than a word", variant.ident);
            let told = told(&variant.attrs);
            told.rename.unwrap_or_else(|| renamed(&variant.ident.to_string(), about.rename_all.as_deref()))
        })
        .collect();
    let mut schema = json!({"type": "string", "enum": list});
    describe_with(&mut schema, &words(&item.attrs));
    schema
}

/// As serde renames: members are written in snake case, variants in Pascal case.
fn renamed(name: &str, rule: Option<&str>) -> String {
    let parts = || -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for c in name.chars() {
            if c == '_' || parts.is_empty() || c.is_uppercase() {
                parts.push(String::new());
            }
            if c != '_' {
                parts.last_mut().unwrap().extend(c.to_lowercase());
            }
        }
        parts
    };
    match rule {
        None => name.to_owned(),
        Some("lowercase") => name.to_lowercase(),
        Some("kebab-case") => parts().join("-"),
        Some("snake_case") => parts().join("_"),
        Some("camelCase") => {
            let mut words = parts().into_iter();
            let first = words.next().unwrap_or_default();
            let rest = words.map(|word| word[..1].to_uppercase() + &word[1..]);
            std::iter::once(first).chain(rest).collect()
        }
        Some(other) => panic!("rename_all = {other:?} is not known here"),
    }
}

fn told(attrs: &[Attribute]) -> Told {
    let mut told = Told::default();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        attr.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().unwrap().to_string();
            let value = if meta.input.peek(syn::Token![=]) {
                Some(meta.value()?.parse::<syn::LitStr>()?.value())
            } else {
                None
            };
            match (name.as_str(), value) {
                ("rename", Some(text)) => told.rename = Some(text),
                ("rename_all", Some(text)) => told.rename_all = Some(text),
                ("default", _) => told.optional = true,
                ("deny_unknown_fields", None) => told.closed = true,
                ("transparent", None) => told.transparent = true,
                ("deserialize_with", Some(text)) => {
                    let (way, rest) = text.split_once("::<").unwrap_or_default();
                    let least = match way {
                        "from_base64" => 0,
                        // One byte is four letters.
                        "some_base64" => 4,
                        _ => panic!("{text} is not known here"),
                    };
                    told.base64 = Some((least, constant(rest.split(',').next().unwrap_or_default())));
                }
                ("skip_serializing_if" | "serialize_with", Some(_)) => {}
                // The words of `Act` in `bounds` are the audit's.
                ("with", Some(text)) if text == "in_audit" => {}
                (name, _) => panic!("serde({name}) is not known here"),
            }
            Ok(())
        })
        .unwrap();
    }
    told
}

/// The words above an item.
fn words(attrs: &[Attribute]) -> String {
    let line = |attr: &Attribute| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    plain(&attrs.iter().filter_map(line).collect::<Vec<_>>().join(" "))
}

/// Without the marks of links in the code's own documentation.
pub(super) fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").trim().to_owned()
}

fn describe_with(schema: &mut Value, words: &str) {
    if !words.is_empty() {
        schema["description"] = json!(words);
    }
}

/// The names of the schemas that one names.
pub(super) fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("$ref", Some(text)) => {
                    text.strip_prefix("#/components/schemas/").map(str::to_owned).into_iter().collect()
                }
                _ => references(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
