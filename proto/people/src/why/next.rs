//! What brings a machine further that is no node yet: one judgement, for `luciactl` and for the page.

use std::fmt;
use std::time::Duration;

use crate::host_api::DeviceView;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{shown, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::DevicePhase;

/// A certificate request that waits longer than this waits for a person.
const WORKER_PATIENCE: Duration = Duration::from_secs(10);

/// What is next. Its text says so, without the commands and buttons that only one of both has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The worker bars its key.
    Barred,
    /// Nobody decided in time.
    Over,
    /// A person compares and approves, within this.
    Compare(Duration),
    /// Its installer asks for the permission, within this.
    Asks(Option<Duration>),
    /// Its installer has the permission, and its system is to call within this.
    Installs(Option<Duration>),
    /// Its system starts and asks for a certificate.
    Starts,
    /// The worker has the request and is about to answer.
    Answers,
    /// The worker has the request for this long: the key is to be admitted.
    Admit(Duration),
    /// The same, and it takes this name from another key.
    TakeName(Hostname),
    /// The worker refused it, in these words.
    Refused(String),
    /// It runs, and this is typed on it.
    Here(&'static str),
    /// It is a node.
    Nothing,
    /// Its installation failed.
    Failed,
    /// It was rejected.
    Rejected,
}

impl Next {
    /// What brings this machine further at `now`.
    #[must_use]
    pub fn of(device: &DeviceView, now: UnixTime) -> Self {
        let task = device.task.as_ref();
        let until = task.and_then(|task| task.progress_expires_at).map(|until| until.since(now));
        let asked = task.is_some_and(|task| task.enrollment_pending_since.is_some() || task.refused.is_some());
        match device.phase {
            _ if device.barred => Self::Barred,
            DevicePhase::Discovered if device.running && device.expires_at <= now => {
                Self::Here("its discovery is over: open the window and run lucia-node-agent discover on it again")
            }
            DevicePhase::Approved if device.running && until.is_none() => Self::Here(
                "it is approved: run lucia-node-agent wait-install on it, then lucia-node-agent rekey --finish",
            ),
            DevicePhase::Approved | DevicePhase::Installing if device.running => {
                Self::Here("it has its permission: run lucia-node-agent rekey --finish on it")
            }
            DevicePhase::AwaitingEnrollment if device.running && !asked => {
                Self::Here("it is ready: run systemctl start lucia-node-agent on it, which asks for its certificate")
            }
            DevicePhase::Failed if device.running => {
                Self::Here("run lucia-node-agent discover on it again, or dismiss it")
            }
            DevicePhase::Discovered if device.expires_at <= now => Self::Over,
            DevicePhase::Discovered => Self::Compare(device.expires_at.since(now)),
            DevicePhase::Approved if until.is_some() => Self::Installs(until),
            DevicePhase::Approved => Self::Asks(task.map(|task| task.authority_expires_at.since(now))),
            DevicePhase::Installing => Self::Installs(until),
            DevicePhase::AwaitingEnrollment => {
                if let Some(why) = task.and_then(|task| task.refused.as_ref()) {
                    return Self::Refused(shown(why.as_str()));
                }
                let Some(since) = task.and_then(|task| task.enrollment_pending_since) else { return Self::Starts };
                match (task.filter(|task| task.replaces.is_some()), now.since(since)) {
                    (Some(task), _) => Self::TakeName(task.hostname.clone()),
                    (None, waited) if waited > WORKER_PATIENCE => Self::Admit(waited),
                    (None, _) => Self::Answers,
                }
            }
            DevicePhase::Managed => Self::Nothing,
            DevicePhase::Failed => Self::Failed,
            DevicePhase::Rejected => Self::Rejected,
        }
    }

    /// The text as a sentence of its own.
    #[must_use]
    pub fn sentence(&self) -> String {
        let text = self.to_string();
        let mut letters = text.chars();
        letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str())).unwrap_or_default()
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barred => f.write_str(
                "the worker bars its key, since its node was removed: give the machine a new key (lucia-node-agent rekey, or \
                 install it again) and reject this entry",
            ),
            Self::Over => f.write_str("its discovery is over: open the window and start the installer on it again"),
            Self::Compare(left) => {
                write!(f, "compare the fingerprint at its console and approve it within {}", span(*left))
            }
            Self::Asks(Some(left)) => {
                write!(f, "its installer asks for its permission by itself, within {}, and then goes on", span(*left))
            }
            Self::Asks(None) => f.write_str("its installer asks for its permission by itself, and then goes on"),
            Self::Installs(Some(left)) => write!(
                f,
                "its installer has its permission and goes on by itself; its system has to call within {}",
                span(*left)
            ),
            Self::Installs(None) => f.write_str("its installer goes on by itself"),
            Self::Starts => f.write_str("it starts its new system and asks for its certificate by itself"),
            Self::Answers => f.write_str("it asked for its certificate, and the worker answers within seconds"),
            Self::Admit(waited) => write!(
                f,
                "it has waited for its certificate for {}: the worker issues it once an owner's admit order is signed, or \
                 somebody admits it on the worker's host, where lucia-enrollment-worker pending says what it waits for",
                span(*waited)
            ),
            Self::TakeName(name) => write!(
                f,
                "it asked for its certificate, but its name {name} was another key's: the worker issues it once an admit \
                 order in that node's place is signed, or somebody admits it so on the worker's host"
            ),
            Self::Refused(why) => write!(f, "the worker refuses its certificate, and no order changes that: {why}"),
            Self::Here(text) => f.write_str(text),
            Self::Nothing => f.write_str("nothing: it is a node"),
            Self::Failed => f.write_str("start the installer on it again, or dismiss it"),
            Self::Rejected => f.write_str("it was rejected: restore or dismiss it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    fn device(phase: &str, task: &str) -> DeviceView {
        let (id, at) = ("0123456789abcdef".repeat(2), NOW);
        let task = match task {
            "" => String::new(),
            more => format!(
                r#","task":{{"taskId":"00000000-0000-4000-8000-000000000000","phase":"Approved","hostname":"web-1",
                "diskId":"d1","authorityExpiresAt":"{}"{more}}}"#,
                NOW.plus(Duration::from_secs(600))
            ),
        };
        let text = format!(
            r#"{{"deviceId":"{id}","fingerprint":"{id}{id}","verificationCode":"0123-4567-89ab","phase":"{phase}",
            "discoveredAt":"{at}","expiresAt":"{end}","inventoryRevision":1,"inventory":{{"architecture":"x86_64",
            "bootMode":"Uefi","logicalCpuCount":4,"memoryBytes":8200000000,"interfaces":[{{"name":"eth0",
            "macAddress":"52:54:00:12:34:56","addresses":[]}}],"disks":[]}}{task}}}"#,
            end = NOW.plus(Duration::from_secs(1800)),
        );
        lucia_proto::base::json::from_str(&text, 1 << 16, 24).unwrap()
    }

    // spec: PG-110, PG-341
    #[test]
    fn what_is_next_is_said_with_the_time_that_there_is_for_it() {
        let after = |name: &str, secs: u64| format!(r#","{name}":"{}""#, NOW.plus(Duration::from_secs(secs)));
        let since = |secs: u64| format!(r#","enrollmentPendingSince":"{}""#, NOW.minus(Duration::from_secs(secs)));
        let replaces = format!(r#","replaces":"{}"{}"#, "ab".repeat(16), since(1));
        let mut shown = String::new();
        let (ten, long) = (Duration::from_secs(600), Duration::from_secs(7140));
        for (phase, task, want) in [
            ("Discovered", String::new(), Next::Compare(Duration::from_secs(1800))),
            ("Approved", " ".to_owned(), Next::Asks(Some(ten))),
            ("Approved", after("progressExpiresAt", 7140), Next::Installs(Some(long))),
            ("Installing", after("progressExpiresAt", 7140), Next::Installs(Some(long))),
            ("AwaitingEnrollment", " ".to_owned(), Next::Starts),
            ("AwaitingEnrollment", since(10), Next::Answers),
            ("AwaitingEnrollment", since(11), Next::Admit(Duration::from_secs(11))),
            ("AwaitingEnrollment", replaces, Next::TakeName("web-1".parse().unwrap())),
            (
                "AwaitingEnrollment",
                format!(r#"{},"refused":"hostname""#, since(600)),
                Next::Refused("hostname".to_owned()),
            ),
            ("Managed", String::new(), Next::Nothing),
            ("Failed", String::new(), Next::Failed),
            ("Rejected", String::new(), Next::Rejected),
        ] {
            let next = Next::of(&device(phase, &task), NOW);
            assert_eq!(next, want, "{phase}");
            shown.push_str(&format!("{next}\n"));
            assert!(next.sentence().ends_with('.') && next.sentence().starts_with(char::is_uppercase), "{next}");
        }
        expect_test::expect_file!["snapshots/next.txt"].assert_eq(&shown);
        let late = NOW.plus(Duration::from_secs(1800));
        assert_eq!(Next::of(&device("Discovered", ""), late), Next::Over);
    }
}
