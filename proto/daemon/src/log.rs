//! Logs go to standard error, where the service manager adds time, unit and priority.
//!
//! A log that cannot be written (its disk is full, its reader gone) ends no daemon: tracing would tell on the same standard
//! error, and telling there panics. A second start in one process, which only tests make, keeps the first one's log.

use serde::Deserialize;
use tracing::Level;
use tracing::subscriber::set_global_default;

/// What entries are, as settings name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One line of text an entry, for people.
    #[default]
    Text,
    /// One JSON object an entry, for programs.
    Json,
}

/// Starts the log that the settings ask for. Who has no such setting, and no JSON in its program, takes [`text`].
pub fn start(format: LogFormat, level: Level) {
    match format {
        LogFormat::Text => text(level),
        LogFormat::Json => json(level),
    }
}

/// One line of text an entry.
pub fn text(level: Level) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).log_internal_errors(false);
    let log = log.with_max_level(level).with_target(false).with_ansi(false).without_time();
    let _ = set_global_default(log.finish());
}

fn json(level: Level) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).log_internal_errors(false);
    let log = log.with_max_level(level).with_target(false).with_ansi(false).json().flatten_event(true);
    let _ = set_global_default(log.finish());
}
