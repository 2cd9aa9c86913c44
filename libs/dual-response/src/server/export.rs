//! All rows of a resource, streamed: memory holds one batch, however many rows there are.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};

use super::executor::Rows;
use super::{Error, PageRequest};
use crate::wire::{Column, EndMarker, Row, Sort};

/// Which rows an export has.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExportQuery {
    /// The first row, counted from 0.
    pub offset: Option<u64>,
    /// How many rows at most; all if nobody says.
    pub limit: Option<u64>,
    /// In which order.
    pub sort: Vec<Sort>,
}

impl ExportQuery {
    /// All rows, in this order.
    pub fn sorted(sort: Vec<Sort>) -> Self {
        Self { sort, ..Self::default() }
    }
}

/// Rows on their way out.
pub struct Export {
    /// What the resource is called.
    pub name: String,
    /// What a row consists of.
    pub columns: Vec<Column>,
    rows: Arc<dyn Rows>,
    sort: Vec<Sort>,
    range: Range<u64>,
    batch: u64,
}

impl Export {
    pub(super) fn new(
        name: String,
        columns: Vec<Column>,
        rows: Arc<dyn Rows>,
        sort: Vec<Sort>,
        range: Range<u64>,
        batch: u64,
    ) -> Self {
        Self { name, columns, rows, sort, range, batch }
    }

    /// How many rows it has, if none vanish meanwhile.
    pub fn count_max(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The rows in batches. Ends with the first empty one, or where the count taken at creation ends.
    pub fn batches(self) -> impl Stream<Item = Result<Vec<Row>, Error>> + Send + 'static {
        struct Reader {
            export: Export,
            after: Option<Row>,
        }
        let reader = Reader { export: self, after: None };
        stream::try_unfold(reader, async |mut reader| {
            let Export { rows, sort, range, batch, .. } = &mut reader.export;
            let limit = (range.end - range.start).min(*batch);
            if limit == 0 {
                return Ok(None);
            }
            let page =
                PageRequest { offset: range.start, limit, sort: sort.clone(), after: reader.after.take() };
            let mut data = rows.execute(page).await.map_err(Error::QueryExecutionFailed)?;
            data.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            if data.is_empty() {
                return Ok(None);
            }
            range.start += data.len() as u64;
            reader.after = data.last().cloned();
            Ok(Some((data, reader)))
        })
    }

    /// The rows as NDJSON, with the end marker as the last line. A failure on the way ends the stream with an error, so
    /// the marker is there only when every row is.
    pub fn ndjson(self) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        let mut count = 0;
        let lines = self.batches().map_ok(move |rows| {
            let mut out = Vec::with_capacity(rows.len() * 128);
            count += rows.len() as u64;
            for row in &rows {
                write_line(&mut out, row);
            }
            (Bytes::from(out), count)
        });
        with_end(lines, |count| {
            let mut out = Vec::new();
            write_line(&mut out, &EndMarker { end: true, count });
            Bytes::from(out)
        })
    }

    /// The rows as comma-separated values, the names of the columns first. With `end_marker`, a last line `_end,n`.
    #[cfg(feature = "csv")]
    pub fn csv(self, end_marker: bool) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        let columns = self.columns.clone();
        let mut head = Vec::new();
        crate::csv::write_header(&mut head, &columns);
        let head = stream::once(async move { Ok(Bytes::from(head)) });
        let mut count = 0;
        let lines = self.batches().map_ok(move |rows| {
            let mut out = Vec::with_capacity(rows.len() * 64);
            count += rows.len() as u64;
            for row in &rows {
                crate::csv::write_row(&mut out, &columns, row);
            }
            (Bytes::from(out), count)
        });
        let end = move |count| match end_marker {
            true => Bytes::from(format!("_end,{count}\r\n")),
            false => Bytes::new(),
        };
        head.chain(with_end(lines, end))
    }
}

/// The chunks, and once all of them are out, what to say at the end, given how many rows they were.
fn with_end(
    chunks: impl Stream<Item = Result<(Bytes, u64), Error>> + Send + 'static,
    end: impl Fn(u64) -> Bytes + Send + 'static,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
    let state = (Box::pin(chunks), Some((end, 0)));
    stream::try_unfold(state, async |(mut chunks, end)| {
        let Some((end, count)) = end else { return Ok(None) };
        match chunks.try_next().await? {
            Some((chunk, count)) => Ok(Some((chunk, (chunks, Some((end, count)))))),
            None => Ok(Some((end(count), (chunks, None)))),
        }
    })
}

fn write_line(out: &mut Vec<u8>, line: &impl serde::Serialize) {
    serde_json::to_writer(&mut *out, line).expect("JSON values serialise, and memory takes them");
    out.push(b'\n');
}
