//! Machines that are no nodes yet, and the window through which they come.

use lucia_people::calls::PeopleCall;
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use lucia_people::host_api::{DeviceView, Minutes, OnboardingView, OpenWindow};
use lucia_people::why::Next;
use lucia_proto::base::names::DiskId;
use lucia_proto::base::text::{bytes, counted, shown, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::pki::key::VerificationCode;

use crate::find::device;
use crate::problem::Failure;
use crate::session::Session;
use crate::table::{Screen, Tone, paint};
use crate::tell::Out;
use crate::text::{compared, left, line};

/// Shows the discovery window, the enrollment worker and every device that is no node yet.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl onboarding\n  luciactl --json onboarding")]
pub(crate) struct Onboarding;

pub(super) async fn onboarding(session: &Session, _: Onboarding) -> Result<(), Failure> {
    say(session.out, &session.client.call(PeopleCall::Onboarding, &"").await?)
}

/// Opens or closes the discovery window.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  luciactl window open --minutes 30\n  luciactl window close")]
pub(crate) enum Window {
    /// Lets machines introduce themselves for a while.
    #[command(after_help = "Example:\n  luciactl window open --minutes 30")]
    Open {
        /// For how long, 1 to 60 minutes.
        #[arg(long, value_name = "N", default_value = "15")]
        minutes: Minutes,
    },
    /// Ends that at once.
    #[command(after_help = "Example:\n  luciactl window close")]
    Close,
}

pub(super) async fn window(session: &Session, asked: Window) -> Result<(), Failure> {
    let client = &session.client;
    say(
        session.out,
        &match asked {
            Window::Open { minutes } => client.post(PeopleCall::OpenWindow, &"", &OpenWindow { minutes }).await?,
            Window::Close => client.call(PeopleCall::CloseWindow, &"").await?,
        },
    )
}

/// Rejects a discovered device.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl reject 1a2b-3c4d-5e6f")]
pub(crate) struct Reject {
    /// The verification code, as the machine shows it.
    code: VerificationCode,
}

pub(super) async fn reject(session: &Session, asked: Reject) -> Result<(), Failure> {
    change(session, PeopleCall::Reject, asked.code).await
}

/// Removes a discovered, rejected or failed machine from the list.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl dismiss 1a2b-3c4d-5e6f")]
pub(crate) struct Dismiss {
    /// The verification code, as the machine shows it.
    code: VerificationCode,
}

pub(super) async fn dismiss(session: &Session, asked: Dismiss) -> Result<(), Failure> {
    change(session, PeopleCall::Dismiss, asked.code).await
}

/// Puts a rejected device back on the list.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl restore 1a2b-3c4d-5e6f")]
pub(crate) struct Restore {
    /// The verification code, as the machine shows it.
    code: VerificationCode,
}

pub(super) async fn restore(session: &Session, asked: Restore) -> Result<(), Failure> {
    change(session, PeopleCall::Restore, asked.code).await
}

async fn change(session: &Session, endpoint: PeopleCall, code: VerificationCode) -> Result<(), Failure> {
    let client = &session.client;
    let device = device(client, code).await?;
    say(session.out, &client.call(endpoint, &device.device_id).await?)
}

/// The answer of most changes.
pub(super) fn say(out: Out, view: &OnboardingView) -> Result<(), Failure> {
    out.say(view, || words(view, out.screen))
}

fn words(view: &OnboardingView, screen: Screen) -> String {
    let now = view.server_time;
    let mut out = String::new();
    match view.window_expires_at {
        Some(until) => line(&mut out, "window", &paint(&format!("open for {}", left(now, until)), Tone::Good, screen)),
        None => line(&mut out, "window", "closed"),
    }
    let worker = match (&view.worker.message, view.worker.ready) {
        (_, true) => paint("ready", Tone::Good, screen),
        (Some(message), false) => paint(&format!("not ready: {}", shown(message.as_str())), Tone::Bad, screen),
        (None, false) => paint("not ready", Tone::Bad, screen),
    };
    line(&mut out, "worker", &worker);
    if view.devices.is_empty() {
        out.push('\n');
        out.push_str(match view.window_expires_at {
            None => "No devices. Open the window (luciactl window open), then start the installer on a machine.\n",
            Some(_) => "No devices yet. Start the installer on a machine; it appears here when it has called.\n",
        });
    }
    for device in &view.devices {
        out.push('\n');
        machine(&mut out, device, now, screen);
    }
    out
}

/// `node` and `why` of a machine that is no node yet.
pub(super) fn no_node(device: &DeviceView, now: UnixTime, screen: Screen) -> String {
    let mut out = String::new();
    machine(&mut out, device, now, screen);
    out.push_str("It is no node yet; luciactl onboarding shows it with every other.\n");
    out
}

fn machine(out: &mut String, device: &DeviceView, now: UnixTime, screen: Screen) {
    let code = device.verification_code.as_str();
    let _ = writeln!(out, "{code}  {}", paint(&format!("{:?}", device.phase), tone(device.phase), screen));
    // Whole and on its own: this is what is compared with the machine's screen.
    compared(out, "fingerprint", &device.fingerprint);
    let inventory = &device.inventory;
    let texts = [&inventory.manufacturer, &inventory.model];
    let mut machine: Vec<String> = texts.into_iter().flatten().map(|text| shown(text.as_str())).collect();
    machine.push(counted(u64::from(inventory.logical_cpu_count), "CPU"));
    machine.push(bytes(inventory.memory_bytes));
    line(out, "machine", &machine.join(", "));
    if let Some(address) = device.address {
        line(out, "address", &address.to_string());
    }
    if let Some(task) = &device.task {
        line(out, "hostname", task.hostname.as_str());
        line(out, "disk", task.disk_id.as_ref().map_or("none: it joins as it runs", DiskId::as_str));
        if let Some(old) = &task.replaces {
            line(out, "replaces", &format!("{old}, which was removed with the approval"));
        }
    } else if device.running {
        line(out, "disk", "none is erased: it runs, and joins as it is");
    } else {
        for disk in &inventory.disks {
            let model = disk.model.as_ref().map(|model| shown(model.as_str())).unwrap_or_default();
            let fixed = match (disk.is_removable, disk.is_read_only) {
                (true, _) => " removable",
                (false, true) => " read-only",
                (false, false) => "",
            };
            let text = format!("{}  {} {} {model}{fixed}", disk.id, bytes(disk.size_bytes), disk.path);
            line(out, "disk", text.trim_end());
        }
    }
    if let Some(message) = &device.message {
        line(out, "says", &shown(message.as_str()));
    }
    line(out, "next", &next(device, now));
}

/// What brings a device further, with what is typed for it.
fn next(device: &DeviceView, now: UnixTime) -> String {
    let code = device.verification_code.as_str();
    match Next::of(device, now) {
        Next::Compare(left) => {
            let disks = device.inventory.disks.iter().find(|disk| !disk.is_removable && !disk.is_read_only);
            let disk = disks.map_or("DISK", |disk| disk.id.as_str());
            let disk = if device.running { String::new() } else { format!(" --disk {disk}") };
            format!(
                "compare both rows of the fingerprint with the machine's screen; if equal, within {}:\n{:15}luciactl approve \
                 {code} --hostname NAME{disk} --fingerprint HEX\n{:15}HEX is both rows of that screen, in quotes; \
                 without --fingerprint you are asked for them",
                span(left),
                "",
                ""
            )
        }
        Next::TakeName(hostname) => format!(
            "its name was another key's, so on the worker's host:\n{:15}lucia-enrollment-worker admit {code} --replaces \
             {hostname} --fingerprint {}",
            "", device.fingerprint
        ),
        Next::Failed => format!("start the installer on it again, or take it off the list: luciactl dismiss {code}"),
        Next::Rejected => format!("luciactl restore {code}, or luciactl dismiss {code}"),
        Next::Barred => format!("{}: luciactl reject {code}", Next::Barred),
        next => next.to_string(),
    }
}

const fn tone(phase: DevicePhase) -> Tone {
    match phase {
        DevicePhase::Discovered | DevicePhase::AwaitingEnrollment => Tone::Attention,
        DevicePhase::Approved | DevicePhase::Installing => Tone::Plain,
        DevicePhase::Managed => Tone::Good,
        DevicePhase::Failed | DevicePhase::Rejected => Tone::Bad,
    }
}
