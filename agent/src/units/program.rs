//! The closed lists: each program with its whole argument array, each service with what is done to it.

use std::iter;
use std::time::Duration;

use lucia_proto::base::names::AccountName;
use lucia_proto::node::directory::GroupDn;

/// The configuration that sshd starts with.
pub const SSHD_CONFIG: &str = "/etc/ssh/sshd_config";
/// Names that one look-up asks for at most: an argument array has an end.
pub const LOOK_UP_MAX: usize = 64;

/// A program, and what of it varies. Holding one is proof that every argument was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Whether sshd would start with its configuration.
    CheckSshd,
    /// What that configuration comes to.
    ShowSshd,
    /// Whether sssd answers with this group.
    LookUpGroup(GroupDn),
    /// Which of these accounts sssd has; [`LOOK_UP_MAX`] of them at most, the rest is not asked for.
    LookUpAccounts(Vec<AccountName>),
}

/// One program as PID 1 is asked to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// A short word for unit names and messages.
    pub word: &'static str,
    /// The program.
    pub path: &'static str,
    /// Its arguments, without its own name.
    pub arguments: Vec<String>,
    /// After this it is killed.
    pub limit: Duration,
    /// Bytes that are kept of what it says.
    pub output_max: usize,
    /// Whether it needs `/run/sshd`, which is only there while sshd runs or after it ran.
    pub needs_run_sshd: bool,
}

/// Environment of every program, on top of the fixed one that PID 1 gives: one language, and sssd's own answer rather
/// than its memory cache, which also speaks while sssd is down.
pub const ENVIRONMENT: [&str; 2] = ["LC_ALL=C", "SSS_NSS_USE_MEMCACHE=NO"];

impl Program {
    /// The whole of what is run.
    #[must_use]
    pub fn invocation(&self) -> Invocation {
        let sshd = |word, flag: &str| Invocation {
            word,
            path: "/usr/sbin/sshd",
            arguments: [flag, "-f", SSHD_CONFIG].map(str::to_owned).to_vec(),
            limit: Duration::from_secs(20),
            output_max: 64 * 1024,
            needs_run_sshd: true,
        };
        let getent = |word, names: &[String]| Invocation {
            word,
            path: "/usr/bin/getent",
            arguments: ["-s", "sss"].into_iter().map(str::to_owned).chain(names.iter().cloned()).collect(),
            limit: Duration::from_secs(30),
            output_max: 64 * 1024,
            needs_run_sshd: false,
        };
        match self {
            Self::CheckSshd => Invocation { output_max: 4096, ..sshd("sshd-check", "-t") },
            Self::ShowSshd => sshd("sshd-show", "-T"),
            Self::LookUpGroup(group) => Invocation {
                limit: Duration::from_secs(20),
                output_max: 16 * 1024,
                ..getent("getent-group", &["group".to_owned(), group.group_name().to_owned()])
            },
            Self::LookUpAccounts(names) => {
                let names = names.iter().take(LOOK_UP_MAX).map(ToString::to_string);
                getent("getent-passwd", &iter::once("passwd".to_owned()).chain(names).collect::<Vec<_>>())
            }
        }
    }
}

/// What is done to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceAct {
    /// sssd reads its configuration only when it starts.
    RestartSssd,
    /// sshd goes on with its connections; one that does not run stays as it is.
    ReloadSshd,
}

impl ServiceAct {
    /// The unit, the method of PID 1's manager, and what it is, for messages.
    const fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::RestartSssd => ("sssd.service", "RestartUnit", "restart sssd.service"),
            Self::ReloadSshd => ("ssh.service", "ReloadOrTryRestartUnit", "reload ssh.service"),
        }
    }

    /// The unit, and the method of PID 1's manager.
    #[must_use]
    pub const fn job(self) -> (&'static str, &'static str) {
        let (unit, method, _) = self.row();
        (unit, method)
    }

    /// What it is, for messages.
    #[must_use]
    pub const fn words(self) -> &'static str {
        self.row().2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever changes this list changes what root runs on every node.
    // spec: UN-1
    #[test]
    fn every_program_is_run_with_exactly_these_arguments() {
        let group = "cn=lucia-owners,ou=Groups,dc=lucia,dc=home,dc=arpa".parse().unwrap();
        let names = ["alice", "bob.b"].map(|name| name.parse().unwrap()).to_vec();
        for (program, line) in [
            (Program::CheckSshd, "/usr/sbin/sshd -t -f /etc/ssh/sshd_config"),
            (Program::ShowSshd, "/usr/sbin/sshd -T -f /etc/ssh/sshd_config"),
            (Program::LookUpGroup(group), "/usr/bin/getent -s sss group lucia-owners"),
            (Program::LookUpAccounts(names), "/usr/bin/getent -s sss passwd alice bob.b"),
        ] {
            let run = program.invocation();
            assert_eq!([vec![run.path.to_owned()], run.arguments].concat().join(" "), line);
            assert!(run.path.starts_with('/') && run.limit <= Duration::from_secs(30) && run.output_max <= 64 * 1024);
        }
        assert_eq!(ENVIRONMENT, ["LC_ALL=C", "SSS_NSS_USE_MEMCACHE=NO"]);
        for (act, line) in [
            (ServiceAct::RestartSssd, ("sssd.service", "RestartUnit")),
            (ServiceAct::ReloadSshd, ("ssh.service", "ReloadOrTryRestartUnit")),
        ] {
            assert_eq!(act.job(), line);
        }
    }

    // spec: UN-1
    #[test]
    fn no_look_up_has_an_endless_argument_array() {
        let names = (0..1000).map(|n| format!("user{n}").parse().unwrap()).collect();
        assert_eq!(Program::LookUpAccounts(names).invocation().arguments.len(), 3 + LOOK_UP_MAX);
    }
}
