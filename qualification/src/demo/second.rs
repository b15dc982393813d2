//! A second machine, in its installer, which nobody approved yet: what there is to do on the page.

use std::fs;

use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use super::DemoError;
use super::machine::{AGENT, boot_second_installer, fingerprint_shown, on, shown_after};
use super::place::quoted_path;
use super::screen::{Screen, Who};
use super::site::Site;
use crate::node::Node;

/// The name it is to get.
pub(super) const SECOND: &str = "demo-2";
/// The command that shows its screen.
pub(super) const SCREEN: &str = "demo-2-screen";

/// The unit in which it waits for its approval.
const WAITS: &str = "wait-install";
/// What its screen says once it was approved.
const GRANTED: &str = "Granted: an installer would erase the disk now. In the demo it ends here.";
/// Where the agent keeps the permission it took.
const GRANT: &str = "installation.json";

/// The machine, as its own screen shows it.
pub(super) struct Second {
    pub(super) fingerprint: Fingerprint,
    pub(super) code: VerificationCode,
    /// Runs as long as this is held.
    installer: Node,
}

impl Second {
    /// Boots it and has it introduce itself; then it waits for its approval, as an installer does.
    pub(super) fn boot(site: &Site, screen: &Screen) -> Result<Self, DemoError> {
        site.ctl(&["window", "open", "--minutes", "60"])?;
        let installer = boot_second_installer(site)?;
        let shown = on(&installer, &[AGENT, "discover"])?;
        screen.say(Who::Console, &format!("a second machine in its installer: lucia-node-agent discover\n{shown}"));
        let (fingerprint, code) = (fingerprint_shown(&shown)?, shown_after(&shown, "Verification code:")?);
        let kept = site.place.path("log").join(SCREEN);
        // What it said first, then what it says since: it moves on as the machine does.
        let lines = format!(
            "cat {}\nexec nsenter --target={} --all -- journalctl _SYSTEMD_UNIT={WAITS}.service --output cat --no-pager --quiet\n",
            quoted_path(&kept),
            installer.leader_pid(),
        );
        let made = fs::write(&kept, &shown).and_then(|()| site.place.script(SCREEN, &lines));
        made.map_err(|err| DemoError::Place { path: kept, err })?;
        let waits = format!("lucia-node-agent wait-install && echo '{GRANTED}'");
        on(&installer, &["systemd-run", "--quiet", "--unit", WAITS, "/bin/sh", "-c", &waits])?;
        Ok(Self { fingerprint, code, installer })
    }

    /// Whether it took its permission to install.
    pub(super) fn is_granted(&self) -> bool {
        self.installer.root().join("var/lib/lucia/agent").join(GRANT).exists()
    }
}
