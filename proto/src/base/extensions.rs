//! What a version does not know: the bounded place in what is otherwise strict (threats.md J-3, design.md V1).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::bounded::{OutOfBounds, Text};
use super::limits::EXTENSIONS_MAX;
use crate::checked_text;

checked_text! {
    /// The name of a member of `extensions`.
    ExtensionName, BadExtensionName, "an extension name: a-z first, then up to 63 of A-Z, a-z, 0-9, . and -",
    |text| {
        text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
    }
}

/// At most 16 members of at most 256 characters: kept, and otherwise ignored by who does not know them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Extensions(BTreeMap<ExtensionName, Text<0, 256>>);

impl Extensions {
    /// Whether there are none; then the member is left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The member of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(member, _)| member.as_str() == name).map(|(_, text)| text.as_str())
    }
}

impl TryFrom<BTreeMap<ExtensionName, Text<0, 256>>> for Extensions {
    type Error = OutOfBounds;

    fn try_from(members: BTreeMap<ExtensionName, Text<0, 256>>) -> Result<Self, OutOfBounds> {
        if members.len() > EXTENSIONS_MAX {
            return Err(OutOfBounds { field: "extensions", rule: "at most 16" });
        }
        Ok(Self(members))
    }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(BTreeMap::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json;

    // spec: VE-402
    #[test]
    fn sixteen_members_of_256_characters_are_kept_and_one_more_is_refused() {
        let members = |count: usize, length: usize| {
            let member = |n: usize| format!("\"x{n}\":\"{}\"", "y".repeat(length));
            format!("{{{}}}", (0..count).map(member).collect::<Vec<_>>().join(","))
        };
        let read = |text: &str| json::from_str::<Extensions>(text, 8192, 2);
        let full = read(&members(16, 256)).unwrap();
        assert_eq!(json::to_string(&full).unwrap().len(), members(16, 256).len());
        assert_eq!(full.get("x15").map(str::len), Some(256));
        assert_eq!(full.get("x16"), None);
        for bad in [members(17, 0), members(1, 257), "[]".to_owned(), r#"{"Upper":""}"#.to_owned()] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
