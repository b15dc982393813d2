//! The two access rules that lead those of the directory's database (managed-nodes.md "Enrollment"): no reader reads any
//! `userPassword`, and a reader reads everything else and writes nothing. For everybody else both rules step aside.
//!
//! Decides only; [`prepare`](super::prepare) asks and writes.

use lucia_proto::node::directory::Dn;
use thiserror::Error;

/// What every rule about readers mentions: one that is not ours is somebody's change, and not ours to judge.
const MARK: &str = "uid=node-";

/// What is to be done about a database's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Both rules lead already.
    Nothing,
    /// Neither is there: these are to be added at this place, which moves all from there on behind them.
    Add(usize, [String; 2]),
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
    [denial("userPassword", base), format!("to * by {} read by * break", readers(base))]
}

fn readers(base: &Dn) -> String {
    // The base's grammar leaves the dot as the only sign that means something in a regular expression.
    let base = base.as_str().to_ascii_lowercase().replace('.', "[.]");
    format!("dn.regex=\"^uid=node-[0-9a-f]{{32}},ou=services,{base}$\"")
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

/// A rule that keeps more attributes from readers, and changes nothing for anybody else. A site may lead with such ones.
#[must_use]
pub fn denial(attributes: &str, base: &Dn) -> String {
    format!("to attrs={attributes} by {} none by * break", readers(base))
}

/// The attributes that leading rules of the site keep from readers, one list a rule.
#[must_use]
pub fn denied<'a>(found: &'a [String], base: &Dn) -> Vec<&'a str> {
    let [ours, _] = rules(base);
    let attributes = |rule: &'a String| {
        let list = rule.split_whitespace().nth(1)?.strip_prefix("attrs=")?;
        (same(rule, &denial(list, base)) && !same(rule, &ours)).then_some(list)
    };
    found.iter().map_while(attributes).collect()
}

/// What is to be done, when these are the rules, in their order.
///
/// # Errors
/// [`Drift::Other`].
pub fn plan(found: &[String], base: &Dn) -> Result<Plan, Drift> {
    let (ours, before) = (rules(base), denied(found, base).len());
    let rest = found.get(before..).unwrap_or_default();
    let leads = rest.len() >= ours.len() && rest.iter().zip(&ours).all(|(found, ours)| same(found, ours));
    let skipped = before + if leads { ours.len() } else { 0 };
    let strange = found.iter().enumerate().skip(skipped).find(|(_, rule)| rule.to_ascii_lowercase().contains(MARK));
    if let Some((place, rule)) = strange {
        return Err(Drift::Other { place, rule: rule.clone() });
    }
    Ok(if leads { Plan::Nothing } else { Plan::Add(before, ours) })
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
        assert_eq!(plan(&site, &base()), Ok(Plan::Add(0, [deny.clone(), read.clone()])));
        let after = [vec![deny, read.replace(" by ", "  by ")], site].concat();
        assert_eq!(plan(&after, &base()), Ok(Plan::Nothing));
        assert!(matches!(plan(&[], &base()), Ok(Plan::Add(0, _))));
        assert!(rules(&"dc=a.b".parse().unwrap())[0].contains("dc=a[.]b"));
    }

    // spec: LD-27
    #[test]
    fn a_site_may_lead_with_more_that_readers_do_not_read() {
        let [deny, read] = rules(&base());
        let more = [denial("sambaNTPassword,krbPrincipalKey", &base()), denial("pwdHistory", &base())];
        let site = texts(&["to * by users read"]);
        let before = [more.to_vec(), site.clone()].concat();
        assert_eq!(denied(&before, &base()), ["sambaNTPassword,krbPrincipalKey", "pwdHistory"]);
        assert_eq!(plan(&before, &base()), Ok(Plan::Add(2, [deny.clone(), read.clone()])));
        let after = [more.to_vec(), vec![deny.clone(), read.clone()], site].concat();
        assert_eq!(plan(&after, &base()), Ok(Plan::Nothing));
        assert!(denied(&[deny.clone(), read.clone()], &base()).is_empty());
        // Behind the rule that lets readers read it keeps nothing from them.
        let [first, _] = more;
        let behind = [deny, read, first.clone()];
        assert!(matches!(plan(&behind, &base()), Err(Drift::Other { place: 2, .. })));
        for weak in [first.replace(" none ", " read "), first.replace(" break", " stop"), first.replace("{32}", "*")] {
            assert!(matches!(plan(&[weak], &base()), Err(Drift::Other { place: 0, .. })));
        }
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
