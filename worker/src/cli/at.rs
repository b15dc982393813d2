//! What commands share: where the settings are, what a fleet begins with, and how something is said.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use lucia_daemon::exit::Exit;
use serde::Serialize;

use crate::config::DEFAULT_PATH;

#[derive(Debug, Args)]
pub(super) struct At {
    /// The settings file.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub(super) config: PathBuf,
}

/// With `[ca] kind = "step-ca"`: what the fleet begins with.
#[derive(Debug, Args)]
pub(super) struct GivenFiles {
    /// step-ca's root certificate, with `[ca] kind = "step-ca"`.
    #[arg(long, value_name = "FILE", requires = "root_key", requires = "issuing")]
    pub(super) root: Option<PathBuf>,
    /// The root's key, unencrypted PKCS #8: signs the first bundle and is not kept.
    #[arg(long, value_name = "FILE", requires = "root")]
    pub(super) root_key: Option<PathBuf>,
    /// step-ca's intermediate certificate.
    #[arg(long, value_name = "FILE", requires = "root")]
    pub(super) issuing: Option<PathBuf>,
}

/// Writes to standard output; a closed pipe (`| head`) is no error.
pub(super) fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, Exit> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(text + "\n")
}
