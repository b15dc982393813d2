//! What a process promises before it reads a key: no core file of it, and no other process of its user reads it.

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The kernel refused to protect this process.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses to {what}, so a key in memory could reach a file; nothing was read")]
pub struct Unprotected {
    /// What was refused.
    what: &'static str,
    #[source]
    source: nix::Error,
}

/// Allows no core file and no tracing by others. To be called before any key is read.
///
/// # Errors
/// When the kernel refuses. The agent then reads no key; the others, whose units forbid core files as well, go on.
pub fn protect() -> Result<(), Unprotected> {
    prctl::set_dumpable(false).map_err(|source| Unprotected { what: "make the process undumpable", source })?;
    // An undumpable process leaves no core whatever its limit; the limit holds even if that is undone. In our unit it
    // is 0 already (LimitCORE=) and the call itself is not allowed.
    if getrlimit(Resource::RLIMIT_CORE).is_ok_and(|limits| limits == (0, 0)) {
        return Ok(());
    }
    match setrlimit(Resource::RLIMIT_CORE, 0, 0) {
        Ok(()) | Err(nix::Error::EPERM) => Ok(()),
        Err(source) => Err(Unprotected { what: "set the core file limit to 0", source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AG-2, SD-242
    #[test]
    fn a_protected_process_leaves_no_core_file() {
        protect().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        assert!(!prctl::get_dumpable().unwrap());
    }
}
