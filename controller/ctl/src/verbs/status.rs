//! The controller itself.

use clap::Args;
use lucia_people::calls::PeopleCall;
use lucia_people::host_api::StatusView;
use lucia_people::words;
use lucia_proto::base::text::{bytes, counted, shown};

use crate::problem::Failure;
use crate::session::Session;
use crate::text::line;

/// So many calls are refused in the days of any controller: a page whose session ended, a clock that was off.
const REFUSED_USUAL: u64 = 50;

/// Shows the controller itself: version, certificate, what it counted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl status\n  luciactl status -o wide")]
pub(crate) struct Status;

pub(super) async fn status(session: &Session, _: Status) -> Result<(), Failure> {
    let view = session.client.call(PeopleCall::Status, &"").await?;
    session.out.say(&view, || words(&view, session.out.wide))
}

fn words(view: &StatusView, wide: bool) -> String {
    let mut out = String::new();
    line(&mut out, "version", &shown(&view.version));
    line(&mut out, "started", &view.started_at.to_string());
    match view.certificate_expires_at {
        Some(until) => line(&mut out, "certificate", &format!("until {until}")),
        None => line(&mut out, "certificate", "none yet: the enrollment worker signs it; is the worker running?"),
    }
    line(&mut out, "worker", if view.worker_available { "ready" } else { "not ready" });
    line(&mut out, "audit", &format!("{} on its disk; nothing deletes it", bytes(view.audit_bytes)));
    line(&mut out, "heartbeats", &format!("{} taken since the start", view.counters.heartbeats));
    let refused: u64 = view.counters.refusals.values().fold(0, |all, one| all.saturating_add(*one));
    if refused > 0 {
        let usual = if refused <= REFUSED_USUAL { ", which is nothing unusual" } else { "" };
        line(&mut out, "turned away", &format!("{} since the start{usual}", counted(refused, "call")));
    }
    // A handful says nothing to anybody who does not look for it.
    if wide || refused > REFUSED_USUAL {
        for (refusal, count) in &view.counters.refusals {
            let code = if wide { format!(" ({})", refusal.as_str()) } else { String::new() };
            line(&mut out, "", &format!("{}: {}{code}", counted(*count, "call"), words::call_refused(*refusal)));
        }
    }
    // How much it computed says something to whoever measures, and nothing to anybody else.
    if wide {
        line(&mut out, "signatures", &format!("{} checked since the start", view.counters.public_key_operations));
    }
    out
}
