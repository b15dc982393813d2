//! What an agent can do beyond the heartbeat itself, so that the controller asks without comparing versions
//! (managed-nodes.md "Extension points").

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, de};
use thiserror::Error;

use crate::base::limits::FEATURES_MAX;
use crate::checked_text;

checked_text! {
    /// The name of something an agent can do; new names may appear with newer agents.
    FeatureName, BadFeatureName, "a feature name: a-z first, then up to 31 of a-z, 0-9 and -",
    |text| {
        text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    }
}

/// The features of one agent, at most 64; names that this version does not know are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Features(BTreeSet<FeatureName>);

/// Not a list of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at most {FEATURES_MAX} features, each once")]
pub struct BadFeatures;

impl Features {
    /// Whether the agent can do this.
    #[must_use]
    pub fn has(&self, feature: &str) -> bool {
        self.0.iter().any(|name| name.as_str() == feature)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every name, in order.
    pub fn names(&self) -> impl Iterator<Item = &FeatureName> {
        self.0.iter()
    }
}

impl TryFrom<Vec<FeatureName>> for Features {
    type Error = BadFeatures;
    fn try_from(names: Vec<FeatureName>) -> Result<Self, BadFeatures> {
        let count = names.len();
        let set = names.into_iter().collect::<BTreeSet<_>>();
        if count > FEATURES_MAX || set.len() < count { Err(BadFeatures) } else { Ok(Self(set)) }
    }
}

impl<'de> Deserialize<'de> for Features {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Vec::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HB-3
    #[test]
    fn unknown_features_are_kept_and_the_list_is_bounded() {
        let read = |names: Vec<&str>| {
            Features::try_from(names.iter().map(|n| n.parse::<FeatureName>().unwrap()).collect::<Vec<_>>())
        };
        let features = read(vec!["teleport", "exec"]).unwrap();
        assert!(features.has("exec"));
        assert_eq!(serde_json::to_string(&features).unwrap(), r#"["exec","teleport"]"#);
        assert!(!read(vec!["executive"]).unwrap().has("exec"));
        assert_eq!(read(vec!["exec", "exec"]), Err(BadFeatures));
        let many = (0..=FEATURES_MAX).map(|n| format!("f{n}")).collect::<Vec<_>>();
        assert_eq!(read(many.iter().map(String::as_str).collect()), Err(BadFeatures));
        assert!(read(many.iter().skip(1).map(String::as_str).collect()).is_ok());
        for bad in ["", "Exec", "-exec", "e x", &"e".repeat(33)] {
            assert!(bad.parse::<FeatureName>().is_err(), "{bad:?}");
        }
    }
}
