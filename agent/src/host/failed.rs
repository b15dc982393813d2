//! A failure that no caller tells apart from others: what failed, and why.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::ops::Deref;

use lucia_daemon::exit::{self, Exit};
use lucia_durable::Crashed;
use thiserror::Error;

use super::state::StateError;

/// Any error, with what was to be done before it. Who must know which error it is takes an enum.
#[derive(Debug)]
pub struct Failed(Box<dyn Error + Send + Sync>);

#[derive(Debug, Error)]
#[error("{what}")]
struct InContext {
    what: Cow<'static, str>,
    source: Box<dyn Error + Send + Sync>,
}

impl Failed {
    /// One that has no cause.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into().into())
    }

    /// What was to be done, and the error that came of it.
    pub fn of(what: impl Into<Cow<'static, str>>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        InContext { what: what.into(), source: error.into() }.into()
    }

    /// The end of a program whose settings it is about.
    #[must_use]
    pub fn config(self) -> Exit {
        Exit::with(exit::CONFIG, &*self)
    }

    /// Whether nobody knows what the private directory holds now.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = Some(&**self);
        while let Some(error) = next {
            if error.is::<Crashed>() || error.downcast_ref().is_some_and(StateError::is_doubtful) {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl Deref for Failed {
    type Target = dyn Error;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<Failed> for Box<dyn Error + Send + Sync> {
    fn from(failed: Failed) -> Self {
        failed.0
    }
}

impl From<Failed> for Exit {
    fn from(failed: Failed) -> Self {
        Self::with(exit::FAILED, &*failed)
    }
}

/// Says what was to be done.
pub trait OrFailed<T> {
    /// The value, or a failure that says `what` before the error.
    ///
    /// # Errors
    /// When there is an error.
    fn or_failed(self, what: impl Into<Cow<'static, str>>) -> Result<T, Failed>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFailed<T> for Result<T, E> {
    fn or_failed(self, what: impl Into<Cow<'static, str>>) -> Result<T, Failed> {
        self.map_err(|error| Failed::of(what, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_to_be_done_stands_before_its_cause_and_doubt_is_found_below_it() {
        let unsure = StateError::Crashed(Crashed { step: "s" });
        let failed = Err::<(), _>(unsure).or_failed("first");
        let failed = failed.or_failed("second").unwrap_err();
        assert!(failed.is_doubtful());
        let told = crate::host::chain(&*failed);
        assert!(told.starts_with("second: first: "), "{told}");
        assert!(!Failed::from(StateError::ReadOnly).is_doubtful());
        assert!(!Failed::new("nothing below").is_doubtful());
    }
}
