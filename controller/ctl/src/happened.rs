//! A list of what happened: its heading once, then lines as they come.

use lucia_proto::base::ids::NodeId;
use serde::Serialize;

use crate::names::Names;
use crate::problem::Failure;
use crate::session::Session;
use crate::table::{Growing, LEFT_OUT, Row};
use crate::tell::{in_json, write};
use crate::text::wrapped;

pub(crate) struct Happened {
    table: Growing,
    names: Names,
    told: bool,
}

impl Happened {
    /// One of which nothing came yet; `ids` are columns that only a wide one has.
    pub(crate) fn new(heading: &[&str], ids: &[&str], wide: bool) -> Self {
        let ids = if wide { ids } else { &[] };
        Self { table: Growing::new(&[heading, ids].concat()), names: Names::default(), told: false }
    }

    /// Writes these lines: whom each is about, its row, and what hangs under that.
    pub(crate) async fn write<'a, T: Serialize, I: Iterator<Item = &'a NodeId>>(
        &mut self,
        session: &Session,
        lines: &'a [T],
        follow: bool,
        ids: impl Fn(&'a T) -> I,
        row: impl Fn(&T, &Names) -> (Row, String),
    ) -> Result<(), Failure> {
        if session.out.json {
            return lines.iter().try_for_each(|line| Ok(write(format!("{}\n", in_json(line)?).as_bytes())?));
        }
        self.names.learn(&session.client, lines.iter().flat_map(ids), follow).await;
        let rows: Vec<_> = lines.iter().map(|line| row(line, &self.names)).collect();
        let text = self.table.more(&rows, session.out.screen);
        Ok(write(wrapped(&text, session.out.screen.width).as_bytes())?)
    }

    /// Says once the list is caught up with, and only once, that something stands in a column that does not fit.
    pub(crate) fn cut(&mut self) -> Result<(), Failure> {
        if self.table.lost && !std::mem::replace(&mut self.told, true) {
            write(LEFT_OUT.as_bytes())?;
        }
        Ok(())
    }
}
