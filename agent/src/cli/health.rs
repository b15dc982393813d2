//! What is true of the agent now, from its status, its lock and the time since boot: one cause of all that hold, with its
//! cure. Nothing in here reads anything.
//!
//! Of several causes the first in the order of [`Cause`] counts. What an owner or a person ended comes first, then a daemon
//! that does not run, since nothing else changes before it does; then what keeps every call from being answered; an
//! ended certificate before whatever heartbeats were refused for, since only a renewal is sent then. Only where nothing else
//! holds is the agent healthy.

use std::time::Duration;

use lucia_proto::base::ids::BootId;
use lucia_proto::base::limits::HEARTBEAT_INTERVAL;
use lucia_proto::base::text::{counted, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::DirectoryState;
use serde::Serialize;

use crate::host::run::{End, Run};
use crate::host::status::{Doing, OtherName, Reason, Refusal, Status};

/// An accepted heartbeat that is older makes a node silent: three are missing.
const SILENT: Duration = HEARTBEAT_INTERVAL.saturating_mul(3);
/// Runs that begin within this of a failed one are one trouble.
const RESTARTING: Duration = Duration::from_secs(60);
/// The worker's time is asked for with each heartbeat, and comes with the next.
const ASKING: Duration = Duration::from_secs(120);
/// A clock that differs by more is in need of a cure.
const SKEW: u64 = 30;
/// Exit codes after which systemd does not start the daemon again (`RestartPreventExitStatus=` of its unit).
const FINAL: [u8; 8] = [10, 11, 12, 13, 14, 15, 64, 78];
/// The verb of the daemon, as the lease names it.
const DAEMON: &str = "managed-run";

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// What the agent wrote last; nothing where it never ran.
    pub(super) status: Option<&'a Status>,
    /// Whether that is of this boot's `/run`, not the copy that outlives a reboot.
    pub(super) hot: bool,
    /// The verb that holds the agent's directory, if one does.
    pub(super) holder: Option<&'a str>,
    /// This boot.
    pub(super) boot: Option<&'a BootId>,
    /// Time since it.
    pub(super) since_boot: Duration,
    /// By this machine's clock.
    pub(super) now: UnixTime,
}

/// What is so: of several the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cause {
    /// An owner removed the identity.
    Removed,
    /// An owner decided that another machine goes on as this node, or none.
    Stopped,
    /// There is no status of any run.
    NeverStarted,
    /// Not a node yet: discovery, approval, installation, or a new key.
    Onboarding,
    /// The daemon does not run.
    NotRunning,
    /// It runs, and one or more runs before it ended soon.
    Restarting,
    /// Calls fail for this machine's clock.
    Clock,
    /// The certificate has ended; what its renewal waits for counts, and no heartbeat is sent.
    CertificateEnded,
    /// The first certificate is refused.
    Enrollment,
    /// Heartbeats are refused or not answered.
    Heartbeat,
    /// No heartbeat was accepted for a while, and nothing says why.
    Silent,
    /// Two machines hold the identity, or one that lost its memory.
    Frozen,
    /// The renewal of a certificate in force is refused.
    Renewal,
    /// Something else is refused or failed.
    HeldUp,
    /// Something that needs nobody's help has yet to happen.
    Waiting,
    /// The directory failed.
    Directory,
    /// The machine has another name than the fleet has for it.
    OtherName,
    /// No order is taken, for want of the worker's time.
    WorkerTime,
    /// The clock is wrong, and nothing failed for it yet.
    ClockSkew,
    /// None of these.
    Healthy,
}

/// What `why` says, and `--json` with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    /// Whether nothing needs anybody: what the exit code says.
    pub(super) healthy: bool,
    /// Whether the daemon runs.
    pub(super) running: bool,
    /// What counts.
    pub(super) cause: Cause,
    /// In words, without an end.
    pub(super) message: String,
    /// What cures it, where anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cure: Option<String>,
    /// Age of the last heartbeat that was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) heartbeat_age_seconds: Option<u64>,
}

/// Of several causes the one that counts.
pub(super) fn first(causes: &[Cause]) -> Cause {
    causes.iter().copied().min().unwrap_or(Cause::Healthy)
}

/// Of several refusals the one that counts: those of an ended certificate's heartbeats do not.
pub(super) fn refusals(status: &Status, ended: bool) -> Vec<&Refusal> {
    let mut all: Vec<_> = status.refusals.iter().filter(|last| !(ended && last.call == "heartbeat")).collect();
    all.sort_by_key(|last| of_refusal(last, ended));
    all
}

fn of_refusal(refusal: &Refusal, ended: bool) -> Cause {
    match (refusal.reason, refusal.call.as_str()) {
        (Some(Reason::Clock), _) => Cause::Clock,
        (_, "renew") if ended => Cause::CertificateEnded,
        (_, "renew") => Cause::Renewal,
        (_, "enroll") => Cause::Enrollment,
        (_, "heartbeat") => Cause::Heartbeat,
        _ => Cause::HeldUp,
    }
}

impl<'a> Facts<'a> {
    fn runs(&self) -> bool {
        self.holder == Some(DAEMON)
    }

    /// The run that wrote the status, if it was in this boot.
    fn run(&self) -> Option<&'a Run> {
        self.status?.run.as_ref().filter(|run| Some(&run.boot_id) == self.boot)
    }

    /// Whether the first heartbeats had no time yet to bring what they ask for.
    fn just_began(&self) -> bool {
        self.run().is_some_and(|run| self.since_boot < Duration::from_secs(run.began) + ASKING)
    }

    /// How the last run ended, if it was in this boot.
    fn ended(&self) -> Option<&'a End> {
        let end = self.status?.ended.as_ref().filter(|end| Some(&end.boot_id) == self.boot);
        end.filter(|end| self.runs() || self.run().is_none_or(|run| run.began <= end.began))
    }

    /// This machine's time by the controller's clock, where that is known: its own may be wrong by years.
    pub(super) fn controllers_now(&self) -> UnixTime {
        let offset = self.status.and_then(|status| status.clock_offset_seconds).unwrap_or_default();
        let ahead = Duration::from_secs(offset.unsigned_abs());
        if offset < 0 { self.now.minus(ahead) } else { self.now.plus(ahead) }
    }

    /// Age of the last heartbeat that was accepted: by the time since boot, else by the controller's clock.
    fn heartbeat_age(&self) -> Option<Duration> {
        match self.run() {
            Some(run) if run.heartbeat.is_some() => {
                run.heartbeat.map(|at| self.since_boot.saturating_sub(Duration::from_secs(at)))
            }
            _ => self.status?.last_heartbeat.map(|at| self.controllers_now().since(at)),
        }
    }

    pub(super) fn certificate_ended(&self) -> bool {
        let Some(status) = self.status else { return false };
        status.doing == Doing::Lapsed || status.certificate_until.is_some_and(|until| until < self.controllers_now())
    }

    /// All that holds.
    pub(super) fn causes(&self) -> Vec<Cause> {
        use Cause::{
            CertificateEnded, ClockSkew, Directory, Frozen, NeverStarted, NotRunning, Onboarding, Removed, Restarting,
            Silent, Stopped, Waiting, WorkerTime,
        };
        let Some(status) = self.status else { return vec![if self.runs() { Waiting } else { NeverStarted }] };
        let mut all = Vec::new();
        if !self.runs() {
            all.push(match status.doing {
                Doing::Removed => Removed,
                Doing::Stopped => Stopped,
                Doing::AwaitingApproval | Doing::Granted | Doing::Staged | Doing::Rekeyed => Onboarding,
                _ => NotRunning,
            });
        } else if let (Some(run), Some(end)) = (self.run(), self.ended())
            && end.is_failure()
            && end.began < run.began
            && self.since_boot.saturating_sub(Duration::from_secs(run.began)) < RESTARTING
        {
            all.push(Restarting);
        }
        let ended = self.certificate_ended();
        all.extend(ended.then_some(CertificateEnded));
        all.extend(refusals(status, ended).into_iter().map(|last| of_refusal(last, ended)));
        let beats = status.doing == Doing::Heartbeating;
        if beats {
            all.extend(self.heartbeat_age().is_none_or(|age| age > SILENT).then_some(Silent));
            all.extend(status.frozen.then_some(Frozen));
            all.extend(status.other_name.is_some().then_some(Cause::OtherName));
            all.extend(self.untimely().filter(|_| !self.just_began()).map(|_| WorkerTime));
        } else {
            all.push(Waiting);
        }
        let failed = status.directory.as_ref().is_some_and(|report| report.state == DirectoryState::Failed);
        all.extend(failed.then_some(Directory));
        all.extend(status.clock_offset_seconds.is_some_and(|secs| secs.unsigned_abs() > SKEW).then_some(ClockSkew));
        all
    }

    /// Why no order is taken for want of the worker's time; nothing where it gave it, or nobody orders.
    pub(super) fn untimely(&self) -> Option<&'static str> {
        let owners = self.status?.owners.as_ref().filter(|owners| owners.roster_version != 0)?;
        match (owners.answered_at, owners.taken_until) {
            (None, _) => Some(
                "not known since the start, so no order is taken; it is asked with each heartbeat, and on the worker's host \
                 `lucia-enrollment-worker status` says whether it runs",
            ),
            (Some(_), Some(until)) if until <= self.controllers_now() => Some(
                "which is too long ago, so no order is taken; on the worker's host `lucia-enrollment-worker status` says whether \
                 it runs, and if it does the controller withholds its word",
            ),
            (Some(_), Some(_) | None) => None,
        }
    }

    /// The one cause that counts, in words.
    pub(super) fn health(&self) -> Health {
        let cause = first(&self.causes());
        let (message, cure) = self.words(cause);
        Health {
            healthy: cause == Cause::Healthy,
            running: self.runs(),
            cause,
            message,
            cure,
            heartbeat_age_seconds: self.heartbeat_age().map(|age| age.as_secs()),
        }
    }

    fn words(&self, cause: Cause) -> (String, Option<String>) {
        let nothing = Status::default();
        let status = self.status.unwrap_or(&nothing);
        let cure = |text: &str| Some(text.to_owned());
        let ended = self.certificate_ended();
        let counts = || refusals(status, ended).into_iter().find(|last| of_refusal(last, ended) == cause);
        match cause {
            Cause::NeverStarted => (
                "The agent has not run on this machine yet".to_owned(),
                cure(
                    "run `lucia-node-agent discover` in the installer, or `systemctl start lucia-node-agent` on a node",
                ),
            ),
            Cause::NotRunning => self.not_running(),
            Cause::Restarting => self.restarting(),
            Cause::Clock => (self.clock(counts()), cure(CLOCK_CURE)),
            Cause::CertificateEnded => self.certificate(status, counts()),
            Cause::Enrollment | Cause::Heartbeat | Cause::Renewal | Cause::HeldUp => {
                counts().map_or_else(Default::default, |last| (self.held_up(last), Some(last.cure.clone())))
            }
            Cause::Silent => (
                format!("The agent runs, but {}", self.last_heartbeat()),
                cure("journalctl -u lucia-node-agent shows what it does; systemctl restart lucia-node-agent"),
            ),
            Cause::Frozen => (upper(status.frozen_words()), None),
            Cause::OtherName => (upper(&status.other_name.as_ref().map(OtherName::sentence).unwrap_or_default()), None),
            Cause::WorkerTime => (
                format!(
                    "Heartbeats are accepted; the worker's time for orders: {}",
                    self.untimely().unwrap_or_default()
                ),
                None,
            ),
            Cause::ClockSkew => (format!("Clock skew: {}", self.skew().unwrap_or_default()), cure(SET_CLOCK)),
            Cause::Directory => {
                let what = status.directory.as_ref().and_then(|report| report.message.as_ref());
                let what = what.map(|what| format!(": {what}")).unwrap_or_default();
                (format!("The fleet's directory failed on this node{what}"), None)
            }
            Cause::Removed | Cause::Stopped | Cause::Onboarding | Cause::Waiting => (upper(&status.line()), None),
            Cause::Healthy => (format!("Healthy: {}", self.last_heartbeat()), None),
        }
    }

    fn last_heartbeat(&self) -> String {
        let age = self.heartbeat_age().map(|age| format!("last heartbeat accepted {} ago", span(age)));
        age.unwrap_or_else(|| "no heartbeat was accepted yet".to_owned())
    }

    fn not_running(&self) -> (String, Option<String>) {
        let begin = "systemctl start lucia-node-agent";
        let known = self.status.is_some_and(|status| !self.hot || status.run.is_some() || status.ended.is_some());
        let (how, cure) = match (self.ended(), self.run()) {
            (Some(end), _) => match (end.exit, end.at) {
                (Some(0), at) => (format!(": it was stopped{}", self.ago(at)), begin.to_owned()),
                (Some(exit), at) => {
                    let what = end.what.trim_end_matches('.');
                    let how = format!(": it ended with exit status {exit}{}{}: {what}", self.ago(at), times(end));
                    let again = "systemd starts it again; journalctl -u lucia-node-agent shows more";
                    (how, if FINAL.contains(&exit) { format!("correct that, then {begin}") } else { again.to_owned() })
                }
                (None, _) => (format!(": {}{}", end.what, times(end)), format!("{WORDS}; {begin}")),
            },
            (None, Some(_)) => (": it was killed or crashed".to_owned(), format!("{WORDS}; {begin}")),
            (None, None) if known => (", and has not run since this machine booted".to_owned(), begin.to_owned()),
            (None, None) => (String::new(), begin.to_owned()),
        };
        let last = self.heartbeat_age().map(|_| format!("; {}", self.last_heartbeat())).unwrap_or_default();
        (format!("The agent is not running{how}{last}"), Some(cure))
    }

    fn restarting(&self) -> (String, Option<String>) {
        let end = self.ended();
        let exit = end.and_then(|end| end.exit).map(|exit| format!(" with exit status {exit}")).unwrap_or_default();
        let (what, times) = end.map(|end| (end.what.trim_end_matches('.'), times(end))).unwrap_or_default();
        (
            format!("The agent keeps ending and was just started again; the last time it ended{exit}{times}: {what}"),
            Some(WORDS.to_owned()),
        )
    }

    fn ago(&self, at: Option<u64>) -> String {
        let age = at.map(|at| self.since_boot.saturating_sub(Duration::from_secs(at)));
        age.map(|age| format!(" {} ago", span(age))).unwrap_or_default()
    }

    fn held_up(&self, last: &Refusal) -> String {
        // A clock that was put back since makes a time that is still to come, which says nothing.
        let since = last.since.filter(|at| *at <= self.now).map(|at| format!(" since {at}")).unwrap_or_default();
        format!("{} is held up{since}: {}", last.call, last.what.trim_end_matches('.'))
    }

    /// How far this machine's clock is off, where that is worth a word.
    pub(super) fn skew(&self) -> Option<String> {
        let secs = self.status?.clock_offset_seconds.filter(|secs| secs.unsigned_abs() > SKEW)?;
        let side = if secs > 0 { "behind" } else { "ahead of" };
        Some(format!(
            "this machine's clock is {} {side} the controller's",
            span(Duration::from_secs(secs.unsigned_abs()))
        ))
    }

    fn clock(&self, last: Option<&Refusal>) -> String {
        let what = last.map(|last| self.held_up(last)).unwrap_or_default();
        match self.skew() {
            Some(skew) => format!("Clock skew: {skew}; {what}"),
            None => format!("Clock skew: this machine's clock says {}; {what}", self.now),
        }
    }

    fn certificate(&self, status: &Status, refused: Option<&Refusal>) -> (String, Option<String>) {
        let at = status.certificate_until.map(|until| format!(" at {until}")).unwrap_or_default();
        let message = match refused {
            Some(last) => format!("The certificate expired{at}, and {}", self.held_up(last)),
            None => format!("The certificate expired{at}; waiting for a new one"),
        };
        let cure = match refused {
            Some(last) if last.reason != Some(Reason::Worker) => last.cure.clone(),
            _ => {
                let name = status.hostname.as_ref().map_or("NAME", |name| name.as_str());
                format!(
                    "nothing while the worker is about to answer; key and certificate are kept. A machine that was gone for longer \
                     than the worker's max-lapse is released by an owner, `luciactl release-lapse {name}`, or on the worker's host, \
                     `lucia-enrollment-worker release-lapse {name}`; `lucia-enrollment-worker pending` there says what it waits for"
                )
            }
        };
        (message, Some(cure))
    }
}

const WORDS: &str = "journalctl -u lucia-node-agent shows its last words";
const SET_CLOCK: &str = "set the clock with timedatectl, and see that it is kept right (timedatectl set-ntp true)";
const CLOCK_CURE: &str = "set the clock with timedatectl, and see that it is kept right (timedatectl set-ntp true); if it is right \
     already, the controller's certificate has expired. Key and certificate are kept";

fn times(end: &End) -> String {
    if end.times > 1 { format!(" ({} in a row)", counted(end.times.into(), "time")) } else { String::new() }
}

/// A text with a capital letter first.
pub(super) fn upper(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

#[cfg(test)]
mod tests;
