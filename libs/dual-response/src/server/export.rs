//! Streams all rows of a resource: memory holds only one batch, however many rows there are.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};

use super::executor::Rows;
use super::{Error, PageRequest, Resource};
use crate::wire::{Column, EndMarker, Row, Sort};

/// The rows of an export.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExportQuery {
    /// The first row, counted from 0.
    pub offset: Option<u64>,
    /// The largest number of rows. Default: all.
    pub limit: Option<u64>,
    /// The order of the rows.
    pub sort: Vec<Sort>,
}

impl ExportQuery {
    /// All rows, in this order.
    pub fn sorted(sort: Vec<Sort>) -> Self {
        Self { sort, ..Self::default() }
    }
}

/// An export in progress.
pub struct Export {
    /// The name of the resource.
    pub name: String,
    /// The columns of a row.
    pub columns: Vec<Column>,
    rows: Arc<dyn Rows>,
    sort: Vec<Sort>,
    /// The positions of the rows that are not sent yet.
    range: Range<u64>,
    batch: u64,
    after: Option<Row>,
    sent: u64,
}

impl Export {
    pub(super) fn new(
        resource: Resource,
        rows: Arc<dyn Rows>,
        sort: Vec<Sort>,
        range: Range<u64>,
        batch: u64,
    ) -> Self {
        Self {
            name: resource.name,
            columns: resource.columns,
            rows,
            sort,
            range,
            batch,
            after: None,
            sent: 0,
        }
    }

    /// The number of rows in the export, if none are deleted meanwhile.
    pub fn count_max(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The rows in batches. The stream ends with the first empty batch, or after the number of rows that was
    /// counted at creation.
    pub fn batches(self) -> impl Stream<Item = Result<Vec<Row>, Error>> + Send + 'static {
        stream::try_unfold(self, async |mut export| Ok(export.next_rows().await?.map(|rows| (rows, export))))
    }

    /// The rows as NDJSON, with the end marker as the last line. A failure ends the stream with an error, so
    /// the marker is only there if all rows are.
    pub fn ndjson(self) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        stream::try_unfold(Some(self), async |export| {
            let Some(mut export) = export else { return Ok(None) };
            if let Some(lines) = export.next_lines().await? {
                return Ok(Some((Bytes::from(lines), Some(export))));
            }
            let marker = EndMarker { end: true, count: export.sent };
            let mut line = serde_json::to_vec(&marker).expect("a flag and a number are JSON");
            line.push(b'\n');
            Ok(Some((Bytes::from(line), None)))
        })
    }

    /// The rows as comma-separated values, after a line with the names of the columns. With `end_marker`, the
    /// last line is `_end,n`.
    #[cfg(feature = "csv")]
    pub fn csv(self, end_marker: bool) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        let mut head = Vec::new();
        crate::csv::write_header(&mut head, &self.columns);
        let rows = stream::try_unfold(Some(self), move |export: Option<Self>| async move {
            let Some(mut export) = export else { return Ok(None) };
            let mut out = Vec::new();
            if let Some(rows) = export.next_rows().await? {
                for row in &rows {
                    crate::csv::write_row(&mut out, &export.columns, row);
                }
                return Ok(Some((Bytes::from(out), Some(export))));
            }
            let last = if end_marker { format!("_end,{}\r\n", export.sent) } else { String::new() };
            Ok(Some((Bytes::from(last), None)))
        });
        futures_util::StreamExt::chain(stream::once(async move { Ok(Bytes::from(head)) }), rows)
    }

    async fn next_rows(&mut self) -> Result<Option<Vec<Row>>, Error> {
        let Some(page) = self.next_page() else { return Ok(None) };
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut rows = self.rows.execute(page).await.map_err(Error::QueryExecutionFailed)?;
        rows.truncate(limit);
        let last = rows.last().cloned();
        Ok(self.advance(rows.len() as u64, last).then_some(rows))
    }

    async fn next_lines(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(page) = self.next_page() else { return Ok(None) };
        let lines = self.rows.lines(page).await.map_err(Error::QueryExecutionFailed)?;
        Ok(self.advance(lines.count, lines.last).then_some(lines.text))
    }

    fn next_page(&mut self) -> Option<PageRequest> {
        let limit = self.count_max().min(self.batch);
        let page = || PageRequest {
            offset: self.range.start,
            limit,
            sort: self.sort.clone(),
            after: self.after.take(),
        };
        (limit > 0).then(page)
    }

    /// Moves on past the rows of a page; false if the page was empty, which is the end.
    fn advance(&mut self, count: u64, last: Option<Row>) -> bool {
        self.range.start += count;
        self.sent += count;
        self.after = last;
        count > 0
    }
}
