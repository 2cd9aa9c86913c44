//! Lists: a limit, a cursor that keeps the transaction number, and pages that end early so that they do not
//! grow too large.

use std::ops::Range;

use kenning_engine::{Engine, Snapshot};
use kenning_model::{Principal, Timestamp, TxId};
use kenning_presentation::cursor::Cursor;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Stop;
use crate::sets::{Attached, Pinned};

/// A list that is being read: the range of rows, and the snapshot from which they are read.
pub struct Listing<'a> {
    engine: &'a Engine,
    pub snapshot: Snapshot<'a>,
    /// The moment at which validity is judged, the same on every page.
    pub asked_at: Timestamp,
    name: String,
    offset: u64,
    limit: u64,
}

/// A page of a list.
#[derive(Serialize, JsonSchema)]
pub struct List<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
    pub total_count: u64,
    pub as_of_tx_id: u64,
    /// Where all rows are, if these are not all.
    #[serde(flatten)]
    pub set: Option<Attached>,
}

impl<T> List<T> {
    /// Adds the result set that has all rows.
    pub(crate) fn with(self, set: Option<Attached>) -> List<T> {
        List { set, ..self }
    }
}

/// Adds the subject to the name of a listing, so that a cursor is valid only for the principal that got it.
/// The owner's cursors have no subject, so that older ones stay valid.
fn of_subject(principal: &Principal, name: String) -> String {
    match principal.is_owner() {
        true => name,
        false => format!("{name} for {}", principal.subject),
    }
}

impl<'a> Listing<'a> {
    /// `name` identifies the list, including its arguments, so a cursor is valid only for the same list.
    pub fn begin(
        engine: &'a Engine,
        principal: &Principal,
        name: String,
        limit: u64,
        cursor: Option<&str>,
        at: Option<TxId>,
    ) -> Result<Listing<'a>, Stop> {
        let name = of_subject(principal, name);
        let now = engine.now();
        let (at, asked_at, offset) = match cursor {
            None => (at, now, 0),
            Some(text) => {
                let cursor = Cursor::open(text, &engine.secret()?, &name, now)?;
                (Some(cursor.at), cursor.asked_at, cursor.offset)
            }
        };
        Ok(Listing { engine, snapshot: engine.snapshot_at(principal, at)?, asked_at, name, offset, limit })
    }

    /// A listing of some rows of a result set, as of the time when the set was made.
    pub(crate) fn pinned(
        engine: &'a Engine,
        principal: &Principal,
        name: String,
        page: Pinned,
    ) -> Result<Listing<'a>, Stop> {
        let Pinned { at, asked_at, offset, limit } = page;
        let snapshot = engine.snapshot_at(principal, Some(at))?;
        Ok(Listing { engine, snapshot, asked_at, name, offset, limit })
    }

    pub fn rows(&self) -> Range<u64> {
        self.offset..self.offset + self.limit
    }

    /// The items on this page, out of all items.
    pub(crate) fn page_of<'b, T>(&self, all: &'b [T]) -> impl Iterator<Item = &'b T> + use<'b, T> {
        let Range { start, end } = self.rows();
        all.iter().skip(start as usize).take((end - start) as usize)
    }

    /// Ends the page after the rows that it shows, and makes the cursor for the next page.
    pub fn end<T>(&self, items: Vec<T>, total_count: u64) -> Result<List<T>, Stop> {
        let offset = self.offset + items.len() as u64;
        let at = self.snapshot.at();
        let next_cursor = match offset < total_count {
            false => None,
            true => {
                let issued_at = self.engine.now();
                let cursor = Cursor { at, asked_at: self.asked_at, issued_at, offset };
                Some(cursor.seal(&self.engine.secret()?, &self.name))
            }
        };
        Ok(List { items, next_cursor, total_count, as_of_tx_id: at.0, set: None })
    }
}
