//! What happened to the window, to devices and to nodes.

use clap::Args;
use lucia_people::host_api::{EventLine, EventsView};
use lucia_people::words;

use super::nodes::holder;
use crate::happened::Happened;
use crate::names::Names;
use crate::problem::Failure;
use crate::session::Session;
use crate::table::{Row, plain};
use crate::tell::write;

/// Shows what happened to the window, to devices and to nodes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  luciactl events\n  luciactl events --follow\n  luciactl events -o wide")]
pub(crate) struct Events {
    /// Goes on showing events as they happen.
    #[arg(long, short)]
    follow: bool,
    /// Only events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
}

pub(super) async fn events(session: &Session, asked: Events) -> Result<(), Failure> {
    let (mut after, wide) = (asked.after, session.out.wide);
    let mut list = Happened::new(&["NUMBER", "AT", "WHAT", "BY", "NODE", "MORE"], &["NODE ID"], wide);
    loop {
        let view: EventsView = session.client.events(after, asked.follow).await?;
        let line = |event: &EventLine, names: &Names| (row(event, names, wide), under(event));
        list.write(session, &view.events, asked.follow, |event| event.device_id.iter(), line).await?;
        after = view.events.last().map_or(after, |event| event.sequence);
        let caught_up = after >= view.last_sequence || view.events.is_empty();
        if caught_up {
            list.cut()?;
        }
        if !asked.follow && caught_up {
            if after == 0 && !session.out.json {
                write(b"No events yet.\n")?;
            }
            return Ok(());
        }
    }
}

fn row(line: &EventLine, names: &Names, wide: bool) -> Row {
    let names_of = line.names.as_ref();
    let mut cells = vec![
        plain(line.sequence),
        plain(line.at),
        plain(words::event_named(line.kind.as_str())),
        plain(words::actor(line.actor.as_str())),
        plain(line.device_id.as_ref().map(|id| names.of(id)).unwrap_or_default()),
        plain(names_of.map(|names| format!("{} -> {}", names.from, names.to)).unwrap_or_default()),
    ];
    if wide {
        cells.push(plain(line.device_id.as_ref().map(ToString::to_string).unwrap_or_default()));
    }
    cells
}

/// Who held an identity, under the event that it froze.
fn under(event: &EventLine) -> String {
    event.holders.iter().map(|who| format!("        {}\n", holder(who))).collect()
}
