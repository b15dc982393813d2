//! The two access rules that lead those of the directory's database (managed-nodes.md "Enrollment"): no reader reads any
//! `userPassword`, and a reader reads everything else and writes nothing. For everybody else both rules step aside.
//!
//! Decides only; [`prepare`](super::prepare) asks and writes.

use lucia_proto::directory::Dn;
use thiserror::Error;

/// What every rule about readers mentions: one that is not ours is somebody's change, and not ours to judge.
const MARK: &str = "uid=node-";

/// What is to be done about a database's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Both rules lead already.
    Nothing,
    /// Neither is there: these values are to be added, which moves all others behind them.
    Add([String; 2]),
}

/// The rules are not as this program leaves or finds them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Drift {
    /// A value without its place.
    #[error("the rule {rule:?} has no place in front of it; this is no cn=config database that is understood")]
    NoPlace {
        /// The value.
        rule: String,
    },
    /// A rule about readers that is not ours, or not where ours belong.
    #[error(
        "rule {{{place}}} is about node readers and is not what it must be: {rule:?}; nothing was changed: compare it with \
         the two rules that --check prints, correct or delete it by hand, then run this again"
    )]
    Other {
        /// Which one.
        place: usize,
        /// The rule.
        rule: String,
    },
}

/// The rules for readers below this base, in their order, without their places.
#[must_use]
pub fn rules(base: &Dn) -> [String; 2] {
    // The base's grammar leaves the dot as the only sign that means something in a regular expression.
    let base = base.as_str().to_ascii_lowercase().replace('.', "[.]");
    let readers = format!("dn.regex=\"^uid=node-[0-9a-f]{{32}},ou=services,{base}$\"");
    [format!("to attrs=userPassword by {readers} none by * break"), format!("to * by {readers} read by * break")]
}

/// The values of `olcAccess`, put in their order.
///
/// # Errors
/// [`Drift::NoPlace`].
pub fn in_order(values: &[String]) -> Result<Vec<String>, Drift> {
    let mut rules = Vec::with_capacity(values.len());
    for value in values {
        let parts = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let read = parts.and_then(|(place, rule)| place.parse::<usize>().ok().map(|place| (place, rule.to_owned())));
        rules.push(read.ok_or_else(|| Drift::NoPlace { rule: value.clone() })?);
    }
    rules.sort_by_key(|(place, _)| *place);
    Ok(rules.into_iter().map(|(_, rule)| rule).collect())
}

/// What is to be done, when these are the rules, in their order.
///
/// # Errors
/// [`Drift::Other`].
pub fn plan(found: &[String], base: &Dn) -> Result<Plan, Drift> {
    let ours = rules(base);
    let leads = found.len() >= ours.len() && found.iter().zip(&ours).all(|(found, ours)| same(found, ours));
    let skipped = if leads { ours.len() } else { 0 };
    let strange = found.iter().enumerate().skip(skipped).find(|(_, rule)| rule.to_ascii_lowercase().contains(MARK));
    if let Some((place, rule)) = strange {
        return Err(Drift::Other { place, rule: rule.clone() });
    }
    if leads {
        return Ok(Plan::Nothing);
    }
    let [first, second] = ours;
    Ok(Plan::Add([format!("{{0}}{first}"), format!("{{1}}{second}")]))
}

/// Whether two rules say the same: slapd may give one back with other spaces than it got.
#[must_use]
pub fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Dn {
        "dc=lucia,dc=home,dc=arpa".parse().unwrap()
    }

    fn texts(rules: &[&str]) -> Vec<String> {
        rules.iter().map(|rule| (*rule).to_owned()).collect()
    }

    // spec: LD-10
    #[test]
    fn two_rules_lead_and_are_added_once() {
        let [deny, read] = rules(&base());
        assert_eq!(
            deny,
            "to attrs=userPassword by dn.regex=\"^uid=node-[0-9a-f]{32},ou=services,dc=lucia,dc=home,dc=arpa$\" none by * break"
        );
        let site = texts(&["to attrs=userPassword by anonymous auth by * none", "to * by users read"]);
        let Plan::Add(added) = plan(&site, &base()).unwrap() else { panic!("nothing to add?") };
        assert_eq!(added, [format!("{{0}}{deny}"), format!("{{1}}{read}")]);
        let after = [vec![deny, read.replace(" by ", "  by ")], site].concat();
        assert_eq!(plan(&after, &base()), Ok(Plan::Nothing));
        assert!(matches!(plan(&[], &base()), Ok(Plan::Add(_))));
        assert!(rules(&"dc=a.b".parse().unwrap())[0].contains("dc=a[.]b"));
    }

    // spec: LD-11
    #[test]
    fn a_rule_about_readers_that_is_not_ours_is_drift() {
        let [deny, read] = rules(&base());
        let weak = read.replace(" read ", " write ");
        for (name, found, place) in [
            ("the other way round", vec![read.clone(), deny.clone()], 0),
            ("one alone", vec![deny.clone()], 0),
            ("behind another", vec!["to * by * read".to_owned(), deny.clone(), read.clone()], 1),
            ("weakened", vec![deny.clone(), weak.clone()], 0),
            ("a third one", vec![deny.clone(), read.clone(), weak], 2),
            ("of another base", texts(&["to * by dn.regex=\"^UID=node-.*\" write"]), 0),
        ] {
            assert!(matches!(plan(&found, &base()), Err(Drift::Other { place: at, .. }) if at == place), "{name}");
        }
    }

    #[test]
    fn rules_are_read_in_their_order() {
        let found = in_order(&texts(&["{10}c", "{2}b", "{0}a"])).unwrap();
        assert_eq!(found, ["a", "b", "c"]);
        for bad in ["to *", "{x}to *", "{1to *"] {
            assert!(in_order(&texts(&[bad])).is_err(), "{bad}");
        }
    }
}
