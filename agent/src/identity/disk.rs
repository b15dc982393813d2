//! What the private directory holds of an identity. What cannot be read there counts as absent: all but the key can be had again.

use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::node::answer::{Answer, SignedAnswer};

use crate::directory::{Access, Orders};
use crate::host::state::{State, StateError, StateFile};

/// A file's bytes; what cannot be read counts as absent here, since all but the key can be had again.
pub(super) fn read(state: &State, file: StateFile) -> Option<Vec<u8>> {
    let told = |error: &StateError| tracing::warn!("{} is passed over: {}", file.as_str(), crate::host::chain(error));
    state.read(file).inspect_err(told).ok().flatten()
}

/// What an answer says of a directory.
pub(super) fn orders(answer: &Answer) -> Orders {
    let Some(access) = answer.directory.clone() else { return Orders::None };
    Orders::Ldap(Box::new(Access { access, csr_sha256: answer.csr_sha256 }))
}

/// What a kept answer says. It was checked before it was kept, in a directory that is ours alone.
pub(super) fn payload(signed: &SignedAnswer) -> Option<Answer> {
    json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).ok()
}
