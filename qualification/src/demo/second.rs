//! A second machine, in its installer, which nobody approved yet: what there is to do on the page.

use std::fs;

use lucia_proto::key::{Fingerprint, VerificationCode};

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

/// The machine, as its own screen shows it.
pub(super) struct Second {
    pub(super) fingerprint: Fingerprint,
    pub(super) code: VerificationCode,
    /// Runs as long as this is held.
    _installer: Node,
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
        let made =
            fs::write(&kept, &shown).and_then(|()| site.place.command(SCREEN, &format!("cat {}", quoted_path(&kept))));
        made.map_err(|err| DemoError::Place { path: kept, err })?;
        on(
            &installer,
            &["systemd-run", "--quiet", "--unit", "wait-install", "/usr/bin/lucia-node-agent", "wait-install"],
        )?;
        Ok(Self { fingerprint, code, _installer: installer })
    }
}
