//! The machine the agent runs on: the only place that touches the operating system by name.

pub mod boot;
pub mod clock;
pub mod notify;
pub mod random;
pub mod root;
#[cfg(test)]
pub(crate) mod scratch;
pub mod secrets;
pub mod state;
pub mod status;

/// An error and everything that caused it, in one line. The one place where a chain is put together.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
