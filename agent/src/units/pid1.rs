//! PID 1 over D-Bus (org.freedesktop.systemd1(5)): transient units whose end and output are waited for, and jobs of
//! services.
//!
//! A connection is made for each question and dropped after it: questions are rare, and a bus that was restarted since
//! is no matter. The unit is held by reference (`AddRef`) until its exit status was read, then systemd forgets it,
//! failed or not, so that no number of failures fills its memory (threats.md B-32).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use zbus::export::futures_core::Stream as _;
use zbus::proxy::SignalStream;
use zbus::zvariant::{Fd, ObjectPath, OwnedObjectPath, Value};
use zbus::{Connection, Proxy, connection};

use super::program::{ENVIRONMENT, Invocation};
use super::{Ended, Program, Runner, ServiceAct, UnitError};
use crate::host::failed::Failed;
use crate::host::random::{self, NoRandomness};

/// The system's bus, whatever the environment says.
const BUS: &str = "unix:path=/run/dbus/system_bus_socket";
const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
/// Waited on top of a program's own limit for PID 1 to say that it ended.
const GRACE: Duration = Duration::from_secs(10);
/// A service takes this long to restart at most: systemd's own limit for a start is 90 s.
const JOB_LIMIT: Duration = Duration::from_secs(120);
/// How long the pipe is read after the program ended: what it left behind may still hold it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// `CLD_EXITED` (waitid(2)): the program ended by itself.
const EXITED: i32 = 1;

/// PID 1 of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Pid1;

/// The manager, and the signal by which it tells that a job is over.
struct Manager {
    proxy: Proxy<'static>,
    removed: SignalStream<'static>,
    connection: Connection,
}

/// What a job came to, in systemd's word: `done`, `failed`, `timeout`, ...
type JobResult = String;

fn bus(doing: &'static str) -> impl Fn(zbus::Error) -> Failed {
    move |error| Failed::of(format!("PID 1 cannot be asked over D-Bus to {doing}"), error)
}

impl Manager {
    async fn connect(doing: &'static str) -> Result<Self, Failed> {
        let failed = bus(doing);
        let connection = connection::Builder::address(BUS).map_err(&failed)?.build().await.map_err(&failed)?;
        let proxy = Proxy::new(&connection, SYSTEMD, MANAGER_PATH, MANAGER).await.map_err(&failed)?;
        let removed = proxy.receive_signal("JobRemoved").await.map_err(&failed)?;
        proxy.call::<_, _, ()>("Subscribe", &()).await.map_err(&failed)?;
        Ok(Self { proxy, removed, connection })
    }

    /// Waits until `job` is over; the signal was subscribed to before the job was made.
    async fn over(&mut self, job: &OwnedObjectPath, doing: &'static str) -> Result<JobResult, Failed> {
        loop {
            let signal = poll_fn(|cx| Pin::new(&mut self.removed).poll_next(cx)).await;
            let signal = signal.ok_or_else(|| bus(doing)(zbus::Error::InterfaceNotFound))?;
            let body = signal.body();
            let parts = body.deserialize::<(u32, ObjectPath<'_>, &str, &str)>().map_err(bus(doing))?;
            if parts.1 == **job {
                return Ok(parts.3.to_owned());
            }
        }
    }
}

impl Runner for Pid1 {
    async fn run(&self, program: &Program) -> Result<Ended, UnitError> {
        let run = program.invocation();
        let limit = run.limit.saturating_add(GRACE);
        Ok(within(limit, run.word, run_unit(&run)).await?)
    }

    async fn act(&self, act: ServiceAct) -> Result<(), UnitError> {
        let doing = act.words();
        let done = async {
            let mut manager = Manager::connect(doing).await?;
            let (unit, method) = act.job();
            let job: OwnedObjectPath = manager.proxy.call(method, &(unit, "replace")).await.map_err(bus(doing))?;
            manager.over(&job, doing).await
        };
        match within(JOB_LIMIT, doing, done).await?.as_str() {
            "done" | "skipped" => Ok(()),
            result => Err(UnitError::Job { doing, result: result.to_owned() }),
        }
    }
}

async fn within<T>(
    limit: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(silent(what, limit)))
}

fn silent(what: &'static str, limit: Duration) -> Failed {
    Failed::new(format!("{what} did not end within {} s", limit.as_secs()))
}

async fn run_unit(run: &Invocation) -> Result<Ended, Failed> {
    let doing = run.word;
    let failed = bus(doing);
    let mut manager = Manager::connect(doing).await?;
    let (sender, mut receiver) = pipe::pipe()?;
    let output = sender.into_blocking_fd()?;
    let name = unit_name(run)?;
    let properties = properties(run, output);
    let job: OwnedObjectPath = {
        let nothing: Vec<(&str, Vec<(&str, Value<'_>)>)> = Vec::new();
        let asked = (name.as_str(), "fail", properties, nothing);
        manager.proxy.call("StartTransientUnit", &asked).await.map_err(&failed)?
    };
    let mut said = Vec::new();
    // Read while it runs, or a program with much to say would wait for us until it is killed.
    let result = {
        let over = manager.over(&job, doing);
        tokio::pin!(over);
        let mut open = true;
        loop {
            tokio::select! {
                result = &mut over => break result?,
                more = read_some(&mut receiver, &mut said, run.output_max), if open => open = more,
            }
        }
    };
    // What is left in the pipe; a program's orphan that holds it open is not waited for.
    let _ = timeout(LAST_WORDS, async { while read_some(&mut receiver, &mut said, run.output_max).await {} }).await;
    let unit: OwnedObjectPath = manager.proxy.call("GetUnit", &(name.as_str(),)).await.map_err(&failed)?;
    let service = Proxy::new(&manager.connection, SYSTEMD, &unit, SERVICE).await.map_err(&failed)?;
    let code: i32 = service.get_property("ExecMainCode").await.map_err(&failed)?;
    let status: i32 = service.get_property("ExecMainStatus").await.map_err(&failed)?;
    if result == "timeout" {
        return Err(silent(doing, run.limit));
    }
    Ok(Ended { code: (code == EXITED).then_some(status), output: String::from_utf8_lossy(&said).into_owned() })
}

/// Reads once; keeps what there is room for and drops the rest. False at the end.
async fn read_some(from: &mut pipe::Receiver, into: &mut Vec<u8>, max: usize) -> bool {
    let mut chunk = [0; 4096];
    let read = from.read(&mut chunk).await.unwrap_or(0);
    let room = max.saturating_sub(into.len());
    into.extend(chunk.iter().take(read).take(room));
    read > 0
}

/// A name that no unit has: two agents, or two questions at once, never meet in one.
fn unit_name(run: &Invocation) -> Result<String, NoRandomness> {
    let random = random::bytes::<8>()?;
    Ok(format!("lucia-{}-{:016x}.service", run.word, u64::from_be_bytes(*random)))
}

fn properties(run: &Invocation, output: std::os::fd::OwnedFd) -> Vec<(&'static str, Value<'static>)> {
    let argv = std::iter::once(run.path.to_owned()).chain(run.arguments.iter().cloned()).collect::<Vec<_>>();
    // No `$` in an argument is ever a variable (threats.md B-31).
    let exec = vec![(run.path.to_owned(), argv, vec!["no-env-expand".to_owned()])];
    let micros = u64::try_from(run.limit.as_micros()).unwrap_or(u64::MAX);
    let environment = ENVIRONMENT.map(str::to_owned).to_vec();
    let mut properties = vec![
        ("Description", Value::from(format!("Lucia node agent: {}", run.word))),
        ("Type", Value::from("oneshot")),
        ("AddRef", Value::from(true)),
        ("CollectMode", Value::from("inactive-or-failed")),
        ("ExecStartEx", Value::from(exec)),
        ("Environment", Value::from(environment)),
        ("TimeoutStartUSec", Value::from(micros)),
        // getent's word for "not found": no failure of the machine, and no red line in its log.
        ("SuccessExitStatus", Value::from((vec![2_i32], Vec::<i32>::new()))),
        ("StandardInput", Value::from("null")),
        ("KillMode", Value::from("control-group")),
        ("NoNewPrivileges", Value::from(true)),
        ("ProtectSystem", Value::from("strict")),
        ("ProtectHome", Value::from("read-only")),
        ("PrivateTmp", Value::from(true)),
        ("PrivateDevices", Value::from(true)),
        ("LimitCORE", Value::from(0_u64)),
        ("TasksMax", Value::from(16_u64)),
        ("MemoryMax", Value::from(256_u64 << 20)),
    ];
    if run.needs_run_sshd {
        properties.extend([
            ("RuntimeDirectory", Value::from(vec!["sshd".to_owned()])),
            ("RuntimeDirectoryMode", Value::from(0o755_u32)),
            ("RuntimeDirectoryPreserve", Value::from("yes")),
        ]);
    }
    // The same pipe for both: what a program complains of is what a person wants to read.
    if let Ok(twin) = output.try_clone() {
        properties.push(("StandardErrorFileDescriptor", Value::from(Fd::from(twin))));
    }
    properties.push(("StandardOutputFileDescriptor", Value::from(Fd::from(output))));
    properties
}
