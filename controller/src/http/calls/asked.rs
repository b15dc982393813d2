//! A call whose head, body and caller were judged, and what handlers do alike.

use std::net::IpAddr;

use http::header::HeaderMap;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::calls::Call;
use lucia_proto::node::report::HeaderProof;
use lucia_proto::pki::key::VerificationCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::answer::HttpAnswer;
use crate::http::edge;
use crate::http::error::ApiError;
use crate::http::route::RouteTarget;
use crate::http::site::{Edge, blocking};
use crate::parts::{AuditedChange, By, Parts, Refusal};

/// Who makes a call.
pub(in crate::http) enum Asking {
    /// Nobody of the roster: a machine, or somebody who is met with.
    Stranger(IpAddr),
    /// The operator, or somebody of the roster.
    Person(By),
    /// A program with an automation token: it knows nobody and changes nothing.
    Token,
}

/// A call whose head, body and caller were judged.
pub(super) struct Asked<'a> {
    pub(super) target: &'a RouteTarget,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    pub(super) by: &'a Asking,
}

impl Asked<'_> {
    pub(super) fn id(&self) -> Result<&NodeId, ApiError> {
        self.target.id()
    }

    pub(super) fn code(&self) -> Result<&VerificationCode, ApiError> {
        self.target.code()
    }

    pub(super) fn query(&self) -> &str {
        self.target.query.as_deref().unwrap_or_default()
    }

    pub(super) fn read<C: Call<Request: DeserializeOwned>>(&self) -> Result<C::Request, ApiError> {
        edge::read::<C>(self.body)
    }

    pub(super) fn proof(&self) -> Result<HeaderProof, ApiError> {
        edge::proof(self.headers)
    }

    pub(super) fn by(&self) -> Result<&By, ApiError> {
        match self.by {
            Asking::Person(by) => Ok(by),
            Asking::Stranger(_) | Asking::Token => Err(not_here()),
        }
    }

    pub(super) fn from(&self) -> Result<IpAddr, ApiError> {
        match self.by {
            Asking::Stranger(from) => Ok(*from),
            Asking::Person(_) | Asking::Token => Err(not_here()),
        }
    }
}

pub(super) fn not_here() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path").closing()
}

/// A change that somebody asks for by this row, and the note of it in the same turn: a caller who goes away ends neither.
pub(super) async fn changing<T, F>(edge: &Edge, asked: &Asked<'_>, call: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Parts, &str) -> Result<T, Refusal> + Send + 'static,
{
    let (by, id) = (asked.by()?.clone(), asked.target.id.clone());
    let act = asked.target.row.person().and_then(|person| person.act).ok_or_else(not_here)?;
    let act = AuditedChange::new(act, id);
    blocking(edge, move |parts| parts.audit.audited(&by, &act, || call(parts, &by.actor()))).await
}

/// The answer of a call, of the type that its row names.
pub(super) fn whole<C: Call<Answer: Serialize>>(answer: Result<C::Answer, ApiError>) -> Result<HttpAnswer, ApiError> {
    answer.map(|answer| HttpAnswer::ok(&answer))
}
