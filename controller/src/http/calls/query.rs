//! What may follow a path.

use std::time::Duration;

use lucia_people::host_api::{EVENTS_PER_ANSWER_MAX, EVENTS_WAIT_MAX};
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::NODES_PER_ANSWER_MAX;
use lucia_proto::base::names::Hostname;
use lucia_proto::pki::key::VerificationCode;

use crate::http::error::ApiError;

/// Reads `after=CODE`, once at most.
pub(super) fn code_after(query: &str) -> Result<Option<VerificationCode>, ApiError> {
    if query.is_empty() {
        return Ok(None);
    }
    let code = query.strip_prefix("after=").and_then(|text| text.parse().ok());
    let message = "drafts are asked for with after alone, the code of a draft";
    code.map(Some).ok_or_else(|| ApiError::new(Code::InvalidOnboardingRequest, message))
}

/// Reads `after=HOSTNAME` and `limit=1..1000`, each once at most.
pub(super) fn part_of_nodes(query: &str) -> Result<(Option<Hostname>, usize), ApiError> {
    let refused = || {
        let message =
            format!("nodes are asked for with after, a hostname, and limit, 1 to {NODES_PER_ANSWER_MAX}, once each");
        ApiError::new(Code::InvalidOnboardingRequest, &message)
    };
    let (mut after, mut limit) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("after", name)) if after.is_none() => after = Some(name.parse().map_err(|_| refused())?),
            Some(("limit", number)) if limit.is_none() => {
                let plain = number.len() <= 4 && number.bytes().all(|b| b.is_ascii_digit());
                let number = plain.then(|| number.parse().ok()).flatten();
                limit = Some(number.filter(|number| (1..=NODES_PER_ANSWER_MAX).contains(number)).ok_or_else(refused)?);
            }
            _ => return Err(refused()),
        }
    }
    Ok((after, limit.unwrap_or(NODES_PER_ANSWER_MAX)))
}

/// What events are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) after: u64,
    pub(super) limit: usize,
    pub(super) wait: Duration,
}

impl Wanted {
    /// Reads `after=N`, `limit=1..500` and `wait=0..25`, each once at most.
    pub(super) fn parse(query: &str) -> Result<Self, ApiError> {
        let (mut after, mut limit, mut wait) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = Some(value)
                .filter(|text| text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|text| text.parse::<u64>().ok())
                // No number of ours is one that JSON does not keep.
                .filter(|number| *number <= 1 << 53);
            let slot = match name {
                "after" => &mut after,
                "limit" => &mut limit,
                "wait" => &mut wait,
                _ => return Err(refused("a query of after, limit and wait alone")),
            };
            match number {
                Some(number) if slot.is_none() => *slot = Some(number),
                _ => return Err(refused("after, limit and wait once each, as numbers")),
            }
        }
        let limit = usize::try_from(limit.unwrap_or(100)).unwrap_or(usize::MAX);
        if limit == 0 || limit > EVENTS_PER_ANSWER_MAX {
            return Err(refused("limit must be 1 to 500"));
        }
        let wait = Duration::from_secs(wait.unwrap_or(0));
        if wait > EVENTS_WAIT_MAX {
            return Err(refused("wait must be 0 to 25 seconds"));
        }
        Ok(Self { after: after.unwrap_or(0), limit, wait })
    }
}

fn refused(rule: &str) -> ApiError {
    ApiError::new(Code::InvalidOnboardingRequest, &format!("events are asked for with {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AP-9
    #[test]
    fn a_query_for_nodes_is_a_name_and_a_number() {
        let name = |text: &str| text.parse::<Hostname>().unwrap();
        for (query, want) in [
            ("", Some((None, 1000))),
            ("after=web-1", Some((Some(name("web-1")), 1000))),
            ("limit=7&after=web-1", Some((Some(name("web-1")), 7))),
            ("limit=1000", Some((None, 1000))),
            ("limit=1001", None),
            ("limit=0", None),
            ("limit=+7", None),
            ("limit=", None),
            ("limit", None),
            ("limit=7&limit=7", None),
            ("after=", None),
            ("after=WEB", None),
            ("after=a&after=b", None),
            ("wait=1", None),
        ] {
            assert_eq!(part_of_nodes(query).ok(), want, "{query}");
        }
    }

    // spec: HT-13
    #[test]
    fn a_query_for_events_is_three_numbers() {
        let wanted = |after, limit, wait| Some(Wanted { after, limit, wait: Duration::from_secs(wait) });
        for (query, want) in [
            ("", wanted(0, 100, 0)),
            ("after=7", wanted(7, 100, 0)),
            ("wait=25&limit=500&after=0", wanted(0, 500, 25)),
            ("wait=26", None),
            ("limit=0", None),
            ("limit=501", None),
            ("after=-1", None),
            ("after=", None),
            ("after", None),
            ("after=1&after=2", None),
            ("after=9007199254740992", wanted(1 << 53, 100, 0)),
            ("after=9007199254740993", None),
            ("after=99999999999999999999", None),
            ("token=x", None),
            ("AFTER=1", None),
            ("after=%31", None),
        ] {
            assert_eq!(Wanted::parse(query).ok(), want, "{query}");
        }
    }
}
