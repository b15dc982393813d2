//! Asking for a place in the roster, by the one call that carries its own proof.

use lucia_people::owner_api::Applied;
use lucia_proto::orders::application::Application;
use lucia_proto::pki::key::VerificationCode;

use crate::client::{Client, Me};
use crate::problem::{FAILED, Failure, problems};

problems! {
    /// Why the controller is not believed.
    pub(crate) enum ApplyError {
        OtherCode(own: VerificationCode, sent: VerificationCode) = "code_mismatch", FAILED,
            ["the controller answered with the code {sent}, and this key's is {own}. No context was written."],
            ["It is faulty or lies: approve neither, and look at the way to it"];
    }
}

/// Asks for the key of this code; an answer about another one ends it.
pub(crate) async fn apply(me: &Me, application: &Application, own: &VerificationCode) -> Result<Applied, Failure> {
    let applied: Applied = Client::apply(me, application).await?;
    if applied.verification_code == *own {
        return Ok(applied);
    }
    Err(ApplyError::OtherCode(own.clone(), applied.verification_code).into())
}
