//! A site with many simulated nodes, driven from CPU 1 while the controller has CPU 0.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lucia_proto::base::ids::TaskId;
use lucia_tests::laid;
use lucia_tests::programs::{CONTROLLER_NAME, Running, Site};
use lucia_tests::sim::{Failure, SimNode, Target};
use nix::unistd::Pid;
use tokio::runtime::{Builder, Runtime};

use crate::cost;

/// A running site and its nodes.
pub(crate) struct Fleet {
    pub(crate) site: Site,
    pub(crate) target: Target,
    pub(crate) controller: Running,
    pub(crate) nodes: Vec<SimNode>,
    /// Resident bytes of the controller before it knew any node.
    pub(crate) resident_empty: u64,
    _worker: Running,
}

/// Where laid nodes call from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All from one address, for which the settings were opened.
    OneAddress,
    /// Each from its own, with the connections that the settings have by default.
    OwnAddresses,
    /// All from one address, and the page at `localhost`.
    WithPage,
}

/// 127.1.0.1: where addresses of nodes begin.
const OWN_ADDRESSES: u32 = 0x7f01_0001;

type Job = Box<dyn FnOnce(&Runtime, &mut Fleet) + Send>;

/// The thread that drives the nodes: its runtime has their connections, its CPU is 1.
pub(crate) struct Driver {
    /// Gone only while it ends.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The controller's process id.
    pub(crate) controller: i32,
    /// Resident bytes of the controller before it knew any node.
    pub(crate) resident_empty: u64,
}

impl Driver {
    /// Brings up a site whose `count` nodes were all enrolled.
    pub(crate) fn enrolled(bin: &Path, count: u32) -> Result<Self, Failure> {
        let bin = bin.to_path_buf();
        Self::up(move |runtime| runtime.block_on(Fleet::enrolled(&bin, count)))
    }

    /// Brings up a site whose `count` nodes were laid as files.
    pub(crate) fn laid(bin: &Path, count: u32, layout: Layout) -> Result<Self, Failure> {
        let bin = bin.to_path_buf();
        Self::up(move |runtime| runtime.block_on(Fleet::laid(&bin, count, layout)))
    }

    fn up(fleet: impl FnOnce(&Runtime) -> Result<Fleet, Failure> + Send + 'static) -> Result<Self, Failure> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || {
            let up = cost::pin(1).and_then(|()| {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                let fleet = fleet(&runtime)?;
                Ok((runtime, fleet))
            });
            // The receiver waits for this one message.
            match up {
                Ok((runtime, mut fleet)) => {
                    let _ = ready.send(Ok((fleet.controller.pid(), fleet.resident_empty)));
                    for job in inbox {
                        job(&runtime, &mut fleet);
                    }
                }
                Err(err) => drop(ready.send(Err(err))),
            }
        });
        let (controller, resident_empty) = is_ready.recv()??;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), controller, resident_empty })
    }

    /// Has the driver do `work` and waits for what it returns.
    pub(crate) fn drive<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Runtime, &mut Fleet) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, receiver) = mpsc::channel();
        let job: Job = Box::new(move |runtime, fleet| drop(sender.send(work(runtime, fleet))));
        let jobs = self.jobs.as_ref().ok_or("the driver has ended")?;
        jobs.send(job).map_err(|_| "the driver is gone")?;
        receiver.recv()?
    }
}

impl Drop for Driver {
    /// Waits until its programs have ended: the next figure is not measured beside them, and none outlives the bench.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Fleet {
    /// Brings up worker and controller and takes `count` nodes from discovery to their certificate.
    async fn enrolled(bin: &Path, count: u32) -> Result<Self, Failure> {
        let site = Site::lay(bin, "bench", 2048, "journal")?;
        let (worker, controller) = site.up().await?;
        let resident_empty = cost::resident(controller.pid())?;
        let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem()?)?;
        site.ctl(&["window", "open", "--minutes", "60"])?;
        let mut nodes = Vec::new();
        let mut tasks: Vec<TaskId> = Vec::new();
        for number in 0..count {
            // The controller takes twenty discoveries a second from one address, and a fast machine brings more.
            if number % 16 == 15 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let mut node = SimNode::connect(&target, number).await?;
            let found = node.discover().await?;
            let fingerprint = node.key.public().fingerprint().to_string();
            let hostname = node.hostname.to_string();
            let code = found.verification_code.to_string();
            site.ctl(&[
                "approve",
                &code,
                "--fingerprint",
                &fingerprint,
                "--hostname",
                &hostname,
                "--disk",
                "sim-disk",
                "--yes",
            ])?;
            tasks.push(node.install().await?);
            nodes.push(node);
        }
        for (node, task) in nodes.iter_mut().zip(&tasks) {
            // The one it holds is from its installation, which may be minutes ago by now.
            node.forget_challenge();
            // Asking writes the queue file; the answers come in batches.
            node.enroll(task).await?;
        }
        for (node, task) in nodes.iter_mut().zip(&tasks) {
            let mut tries = 0;
            node.forget_challenge();
            while node.certificate_pem.is_none() && !node.enroll(task).await? {
                tries += 1;
                if tries > 600 {
                    return Err(format!("{} got no certificate", node.hostname).into());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let answer = node.heartbeat().await?;
            if !answer.status.is_success() {
                return Err(format!("first heartbeat: {}", String::from_utf8_lossy(&answer.body)).into());
            }
        }
        drop(controller);
        let mut fleet = Self::begin(site, target, worker, resident_empty).await?;
        for node in &mut nodes {
            node.forget_challenge();
            node.reconnect().await?;
        }
        fleet.nodes = nodes;
        Ok(fleet)
    }

    /// Brings up worker and controller with `count` nodes that were laid as files, each connected.
    async fn laid(bin: &Path, count: u32, layout: Layout) -> Result<Self, Failure> {
        let site = Site::lay(bin, "bench", usize::try_from(count)?, "journal")?;
        if layout == Layout::OwnAddresses {
            let path = site.file("controller.toml");
            let text = std::fs::read_to_string(&path)?;
            let (kept, _) = text.split_once("[connections]").ok_or("no settings of connections")?;
            std::fs::write(&path, kept)?;
        }
        if layout == Layout::WithPage {
            let name = format!("\"{CONTROLLER_NAME}\"");
            let page = format!("page-origin = \"https://localhost:{}\"\n", site.address.port());
            for (file, before) in [("controller.toml", page.as_str()), ("worker.toml", "")] {
                let text = std::fs::read_to_string(site.file(file))?;
                let named = text.replacen(&name, &format!("{name}, \"localhost\""), 1);
                std::fs::write(site.file(file), format!("{before}{named}"))?;
            }
        }
        let (worker, controller) = site.up().await?;
        let resident_empty = cost::resident(controller.pid())?;
        let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem()?)?;
        drop(controller);
        let certificates = laid::lay(&site, count)?;
        let mut fleet = Self::begin(site, target, worker, resident_empty).await?;
        for (number, certificate) in (0..).zip(certificates) {
            let target = match layout {
                Layout::OneAddress | Layout::WithPage => fleet.target.clone(),
                Layout::OwnAddresses => fleet.target.from_source(IpAddr::V4(Ipv4Addr::from(OWN_ADDRESSES + number))),
            };
            let mut node = SimNode::connect(&target, number).await?;
            node.certificate_pem = Some(certificate);
            fleet.nodes.push(node);
        }
        Ok(fleet)
    }

    /// A site whose controller is started now, on CPU 0.
    async fn begin(site: Site, target: Target, worker: Running, resident_empty: u64) -> Result<Self, Failure> {
        let controller = site.start("lucia-controller", &["run", "--config", &site.file("controller.toml")])?;
        let mut fleet = Self { site, target, controller, nodes: Vec::new(), resident_empty, _worker: worker };
        fleet.settle().await?;
        Ok(fleet)
    }

    /// Starts the controller anew, on CPU 0: every connection is cut, and every challenge forgotten.
    pub(crate) async fn restart(&mut self) -> Result<(), Failure> {
        self.controller.end();
        self.controller =
            self.site.start("lucia-controller", &["run", "--config", &self.site.file("controller.toml")])?;
        self.settle().await
    }

    async fn settle(&mut self) -> Result<(), Failure> {
        cost::pin_process(Pid::from_raw(self.controller.pid()), 0)?;
        self.wait_for_controller().await?;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.controller.pid()))? {
            let thread: i32 = thread?.file_name().to_string_lossy().parse()?;
            cost::pin_process(Pid::from_raw(thread), 0)?;
        }
        Ok(())
    }

    async fn wait_for_controller(&self) -> Result<(), Failure> {
        for _ in 0..400 {
            if self.target.connect().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("the controller did not come back: {}", self.controller.said()).into())
    }
}
