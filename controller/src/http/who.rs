//! Who makes a call of `/api/host` over the network: by proof of an owner key, or in a session of the page.

use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderMap, Method, header};
use lucia_people::audit::AuditVia;
use lucia_people::calls::{PeopleCall, Person, Takes, on};
use lucia_people::sign_in::SESSION_COOKIE;
use lucia_proto::base::code::Code;
use lucia_proto::orders::owner::{PageOrigin, Role};
use lucia_proto::orders::owner_proof::{Method as ProofMethod, OWNER_PROOF_HEADER};

use super::edge;
use super::error::ApiError;
use super::route::Row;
use super::site::Edge;
use crate::parts::{By, OwnerCall};
use crate::refusal::Refusal;

/// Who of the roster makes this call, if they may. A proof goes before a cookie.
///
/// # Errors
/// As [`prove`]; `actor_required` for a session that is none, for a change that another page made the browser send,
/// and for what confirms a passkey; `too_many_requests` for changes; `role_required`; `owners_sign` for what else takes
/// the owner key itself.
pub(super) fn of(
    edge: &Edge,
    row: Row,
    asks: Person,
    parts: &Parts,
    body: &[u8],
    from: IpAddr,
) -> Result<By, ApiError> {
    let Person { role, takes, .. } = asks;
    let Some(token) = token(&parts.headers).filter(|_| !parts.headers.contains_key(OWNER_PROOF_HEADER)) else {
        return prove(edge, role, parts, body, from);
    };
    if matches!(takes, Takes::Proof) {
        return Err(Refusal::actor("a session does what takes an owner key").into());
    }
    let uses = parts.method != Method::GET || !parts.headers.contains_key(super::pages::BACKGROUND);
    let session = edge.shared.parts.people.session(token, uses)?;
    if parts.method != Method::GET {
        is_from(edge.shared.origin.as_ref(), &parts.headers)?;
        edge.shared.parts.people.count_change(&session.id, from)?;
    }
    if session.role < role {
        let message = "this is for owners; a viewer may look only";
        return Err(ApiError::new(Code::RoleRequired, message).log(format!("{} is a viewer", session.name)));
    }
    if let Takes::Key(command) = takes {
        let message = format!("Signing in is not enough for this; it takes an owner key: {command}");
        return Err(Refusal::new(Code::OwnersSign, message).into());
    }
    if takes_a_place(row, body) {
        let message = "Signing in is not enough for this, since it removes a node; it takes an owner key: luciactl approve \
                       CODE --fingerprint HEX --hostname NAME --disk ID --replaces NODE";
        return Err(Refusal::new(Code::OwnersSign, message).into());
    }
    Ok(By::Owner { id: session.id, name: session.name, from, via: AuditVia::Session })
}

/// Who of the roster makes this very call, if they may.
///
/// # Errors
/// As `edge::owner_proof` and `People::owner`; `role_required`.
fn prove(edge: &Edge, role: Role, parts: &Parts, body: &[u8], from: IpAddr) -> Result<By, ApiError> {
    let proof = edge::owner_proof(&parts.headers)?;
    let unknown = || ApiError::new(Code::NotFound, "there is nothing at this path");
    let method = ProofMethod::of_word(parts.method.as_str()).ok_or_else(unknown)?;
    let target = parts.uri.path_and_query().ok_or_else(unknown)?.as_str();
    let verified = edge.shared.parts.people.owner(&OwnerCall { proof: &proof, method, target, body }, from)?;
    let owner = verified.owner();
    verified.may(role).map_err(|code| {
        ApiError::new(code, "this is for owners; a viewer may look only").log(format!("{} is a viewer", owner.name))
    })?;
    Ok(By::Owner { id: owner.id.clone(), name: owner.name.clone(), from, via: AuditVia::Key })
}

/// Whether a call says who of the roster makes it: by a proof, which is checked once the body is there, or in a session
/// that goes on.
pub(super) fn is_named(edge: &Edge, headers: &HeaderMap) -> bool {
    headers.contains_key(OWNER_PROOF_HEADER)
        || token(headers).is_some_and(|token| edge.shared.parts.people.session_goes_on(token))
}

/// Whether an approval puts a machine in the place of a node, and so removes that node. A body that is none is refused by
/// who answers the call.
fn takes_a_place(row: Row, body: &[u8]) -> bool {
    let form = || edge::read::<on::Approve>(body);
    row == Row::People(PeopleCall::Approve) && form().is_ok_and(|form| form.replaces.is_some())
}

/// Whether the browser says that the page itself made this call.
///
/// # Errors
/// `actor_required` when it says anything else, or nothing.
pub(super) fn is_from(page: Option<&PageOrigin>, headers: &HeaderMap) -> Result<(), ApiError> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next(), page) {
        (Some(one), None, Some(page)) if one.as_bytes() == page.as_str().as_bytes() => Ok(()),
        _ => Err(Refusal::actor("the call comes from another page than ours").into()),
    }
}

/// What the browser keeps of its session: the one cookie of that name, of the one form that we make.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let mut found = None;
    for line in headers.get_all(header::COOKIE) {
        for pair in line.to_str().ok()?.split("; ") {
            let Some(value) = pair.strip_prefix(SESSION_COOKIE).and_then(|rest| rest.strip_prefix('=')) else {
                continue;
            };
            let formed =
                value.len() == 43 && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if !formed || found.is_some() {
                return None;
            }
            found = Some(value);
        }
    }
    found
}

/// The cookie of a session, and with no token the end of one.
pub(super) fn cookie(token: Option<&str>) -> String {
    let fate = if token.is_some() { "" } else { "; Max-Age=0" };
    format!("{SESSION_COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Strict{fate}", token.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, line.parse().unwrap());
        }
        headers
    }

    // spec: PG-7
    #[test]
    fn a_cookie_is_read_in_its_one_form_and_a_change_comes_from_the_page() {
        let token_of = |lines: &[&str]| token(&headers(header::COOKIE, lines)).map(str::to_owned);
        let good = "A".repeat(43);
        let line = format!("{SESSION_COOKIE}={good}");
        assert_eq!(token_of(&[&line]), Some(good.clone()));
        assert_eq!(token_of(&[&format!("a=b; {line}; c=d")]), Some(good));
        for lines in [
            vec![],
            vec!["lucia-session=x"],
            vec![line.as_str(), line.as_str()],
            vec!["__Host-lucia-session="],
            vec!["__Host-lucia-session=AAAA"],
        ] {
            assert_eq!(token_of(&lines), None, "{lines:?}");
        }
        assert_eq!(token_of(&[&format!("{line}; {line}")]), None);
        assert_eq!(token_of(&[&format!("{line}!")]), None);
        let page: PageOrigin = "https://controller.test:8443".parse().unwrap();
        for (lines, ok) in [
            (vec!["https://controller.test:8443"], true),
            (vec!["https://controller.test"], false),
            (vec!["https://evil.test"], false),
            (vec!["null"], false),
            (vec![], false),
            (vec!["https://controller.test:8443", "https://controller.test:8443"], false),
        ] {
            assert_eq!(is_from(Some(&page), &headers(header::ORIGIN, &lines)).is_ok(), ok, "{lines:?}");
            assert!(is_from(None, &headers(header::ORIGIN, &lines)).is_err());
        }
        let begun = cookie(Some("x"));
        assert_eq!(begun, "__Host-lucia-session=x; Path=/; Secure; HttpOnly; SameSite=Strict");
        assert!(cookie(None).ends_with("; Max-Age=0"));
    }
}
