//! The operator: opens the window, compares the code, approves, admits.

use std::net::IpAddr;
use std::time::Duration;

use lucia_people::host_api::{ApproveForm, ERASE, KeepForm, Minutes};
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::time::Clock as _;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::pki::key::Fingerprint;
use lucia_worker::config::Settings;
use lucia_worker::home::Home;
use lucia_worker::ledger::{AdmittedBy, Entry, Ledger};
use lucia_worker::survey::{Outlook, SurveyRow, survey};
use tokio::time::sleep;

use super::World;

const ACTOR: &str = "operator:1000";

/// What somebody at the worker sees of a node that was away for too long.
#[derive(Debug)]
pub(crate) struct Lapse {
    /// Since the end of its certificate.
    pub(crate) gone: Duration,
    /// Its address when that was signed.
    pub(crate) then: Option<IpAddr>,
    /// Where it calls from now.
    pub(crate) now: IpAddr,
}

impl World {
    /// Looks every 5 seconds: keeps the window open, and approves the machine of this fingerprint under this name on the
    /// first disk that can be erased, in the place of that node if one is named. Never ends.
    pub(crate) async fn approving(&self, fingerprint: Fingerprint, hostname: &str, replaces: Option<&NodeId>) {
        loop {
            if self.controller_is_up() {
                self.mend_controller().await;
                let controller = self.controller();
                let view = controller.enrollment.onboarding();
                if view.window_expires_at.is_none() {
                    // A full disk or a dying controller is tried again at the next look.
                    let _ = controller.enrollment.open_window(Minutes::new(30).unwrap(), ACTOR);
                }
                let waiting = |phase| phase == DevicePhase::Discovered;
                for device in view.devices.iter().filter(|device| waiting(device.phase)) {
                    assert_eq!(device.fingerprint, fingerprint, "the codes at both ends are one");
                    let mut disks = device.inventory.disks.iter();
                    let disk = disks.rfind(|disk| !disk.is_removable && !disk.is_read_only && disk.size_bytes > 0);
                    // What runs joins as it is.
                    let disk = disk.filter(|_| !device.running).map(|disk| disk.id.clone());
                    let form = ApproveForm {
                        hostname: hostname.parse().unwrap(),
                        confirmation: disk.as_ref().map(|_| ERASE.to_owned()),
                        disk_id: disk,
                        replaces: replaces.cloned(),
                    };
                    let _ = controller.enrollment.approve(&device.device_id, &form, ACTOR);
                }
            }
            sleep(Duration::from_secs(5)).await;
        }
    }

    pub(crate) fn remove(&self, id: &NodeId) {
        self.controller().enrollment.remove(id, ACTOR).unwrap();
    }

    /// Keeps the holder of this start.
    pub(crate) fn keep(&self, id: &NodeId, start_id: StartId) {
        self.controller().fleet.keep_clone(id, &KeepForm { start_id }, ACTOR).unwrap();
    }

    /// Keeps neither holder.
    pub(crate) fn split(&self, id: &NodeId) {
        self.controller().enrollment.split_clone(id, ACTOR).unwrap();
    }

    /// The worker asks nobody: a grant in the journal is enough from now on.
    pub(crate) fn admit_by_journal(&self) {
        std::fs::write(self.path("admission.toml"), "admission = \"journal\"\n").unwrap();
        self.restart_worker();
    }

    /// `lucia-enrollment-worker admit`: whoever has a shell on the worker's host compares the fingerprint there. Says
    /// whether there was something to admit. A name that another key has goes to this one (`--replaces`).
    pub(crate) fn admit(&self, fingerprint: &Fingerprint) -> bool {
        let text = std::fs::read_to_string(self.path("worker.toml")).unwrap();
        let config = Settings::parse(&text).unwrap().resolve().unwrap();
        let home = Home::open(&config).unwrap();
        let held = Ledger::hold(&home.dir).unwrap();
        let mut ledger = Ledger::load(&home.dir).unwrap();
        let now = self.worker_clock().now();
        let found = survey(&config, &home, ledger.records(), now);
        let waits = |row: &&SurveyRow| {
            let waits = matches!(row.outlook, Outlook::AwaitsAdmission | Outlook::AwaitsReplacement);
            row.fingerprint == *fingerprint && waits
        };
        let Some(row) = found.requests.iter().find(waits) else { return false };
        let mut transaction = ledger.begin(&home.dir, held).unwrap();
        if row.outlook == Outlook::AwaitsReplacement {
            let owner = transaction.records().owner_of(&row.hostname).unwrap().names.clone();
            transaction.add(now, Entry::Replaced { node: owner, successor: row.node_id.clone() }).unwrap();
        }
        transaction.add(now, Entry::Admitted { node: row.names.clone(), by: AdmittedBy::Operator }).unwrap();
        transaction.commit().unwrap();
        true
    }

    /// `lucia-enrollment-worker release-lapse`: whoever has a shell on the worker's host, and what is seen there.
    pub(crate) fn release_lapse(&self, id: &NodeId) -> Lapse {
        let text = std::fs::read_to_string(self.path("worker.toml")).unwrap();
        let config = Settings::parse(&text).unwrap().resolve().unwrap();
        let home = Home::open(&config).unwrap();
        let held = Ledger::hold(&home.dir).unwrap();
        let mut ledger = Ledger::load(&home.dir).unwrap();
        let now = self.worker_clock().now();
        let record = ledger.records().node(id).unwrap().clone();
        let (serial, ended) = record.leaf.clone().unwrap();
        let seen =
            Lapse { gone: now.since(ended), then: record.address, now: self.journal().device(id).unwrap().address };
        let mut transaction = ledger.begin(&home.dir, held).unwrap();
        transaction.add(now, Entry::LapseReleased { node: record.names, serial }).unwrap();
        transaction.commit().unwrap();
        seen
    }

    /// A crash may have cut the ledger's last line off: the worker drops it by itself.
    pub(crate) fn mend_ledger(&self) {
        self.worker_turn(self.worker_clock().now());
        assert_eq!(self.worker_trouble(), None);
        assert_eq!(std::fs::read(self.path("worker/ledger.jsonl")).unwrap().last(), Some(&b'\n'));
    }
}
