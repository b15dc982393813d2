//! Calls with an automation token: who presents one, and whether its scopes have what is asked.
//!
//! A token knows nobody: what changes anything, or is anybody's own, has no scope, and its handler asks who calls.

use std::net::IpAddr;

use http::{HeaderMap, header};
use lucia_people::calls::Person;
use lucia_proto::base::code::Code;
use lucia_proto::orders::owner_proof::OWNER_PROOF_HEADER;

use super::calls::Asking;
use super::error::ApiError;
use super::site::Edge;

/// Whether a call is one with a token. A proof goes before it, and it goes before a cookie.
pub(super) fn is_presented(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) && !headers.contains_key(OWNER_PROOF_HEADER)
}

/// The token of the one `Authorization` header, where it is of that scheme.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (lines.next(), lines.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Whether a call with a token may be made.
///
/// # Errors
/// As `People::token`; `role_required` for what no token may, or this one may not.
pub(super) fn of(edge: &Edge, asks: Person, headers: &HeaderMap, from: IpAddr) -> Result<Asking, ApiError> {
    let looking = edge.shared.parts.people.token(presented(headers), from)?;
    let refused = |message: &str| {
        ApiError::new(Code::RoleRequired, message).log(format!("the token {} may not: {message}", looking.name))
    };
    let scope = asks.scope.ok_or_else(|| refused("no token does this; it takes an owner"))?;
    if looking.scopes.have(scope) {
        Ok(Asking::Token)
    } else {
        Err(refused(&format!("this token has no scope {scope}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_people::calls::PeopleCall;
    use lucia_people::token::TokenScope;

    // spec: AP-22
    // spec: CO-401
    #[test]
    fn a_token_looks_at_what_changes_nothing_and_is_nobodys_own() {
        let scope_of = |row: &PeopleCall| row.person().and_then(|person| person.scope);
        for row in PeopleCall::ALL.iter().filter(|row| scope_of(row).is_some()) {
            assert_eq!(row.method(), "GET", "{row:?}");
            let own = ["sessions", "passkeys", "tokens", "stream"];
            assert!(own.iter().all(|word| !row.path().contains(word)), "{row:?}");
        }
        // Each scope is for something, but the one that only stored tokens have.
        for scope in TokenScope::ALL {
            let opens = PeopleCall::ALL.iter().any(|row| scope_of(row) == Some(*scope));
            assert_eq!(opens, *scope != TokenScope::SshKeys, "{scope}");
        }
    }

    // spec: AP-23
    #[test]
    fn a_token_stands_in_one_header_of_one_scheme() {
        let of = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, line.parse().unwrap());
            }
            presented(&headers).map(str::to_owned)
        };
        assert_eq!(of(&["Bearer t1.x"]).as_deref(), Some("t1.x"));
        assert_eq!(of(&["bearer t1.x"]).as_deref(), Some("t1.x"));
        for lines in [vec![], vec!["Basic t1.x"], vec!["t1.x"], vec!["Bearer"], vec!["Bearer a", "Bearer b"]] {
            assert_eq!(of(&lines), None, "{lines:?}");
        }
        let mut both = HeaderMap::new();
        both.insert(header::AUTHORIZATION, "Bearer t1.x".parse().unwrap());
        assert!(is_presented(&both));
        both.insert(OWNER_PROOF_HEADER, "x".parse().unwrap());
        assert!(!is_presented(&both), "a proof goes before it");
    }
}
