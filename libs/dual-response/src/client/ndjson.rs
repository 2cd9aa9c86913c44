//! Reads an export: one row per line, and a last line that confirms that no row is missing.

use futures_util::{Stream, TryStreamExt, stream};
use http::Method;
use serde::de::DeserializeOwned;

use super::ClientError;
use super::parsed::{ParsedDualResponse, broken_off, within};
use super::transport::BodyStream;
use crate::wire::{EndMarker, MIME_NDJSON, PageQuery, Sort};

/// The beginning of the last line. A row may begin in the same way; it is a row if another line follows it.
const MARKER_START: &[u8] = b"{\"_end\"";

pub(super) fn export<T: DeserializeOwned + Send + 'static>(
    parsed: ParsedDualResponse,
    sort: Vec<Sort>,
) -> impl Stream<Item = Result<Vec<T>, ClientError>> + Send + 'static {
    let reader = Reader { parsed, sort, body: None, lines: Lines::default() };
    stream::try_unfold(reader, async |mut reader| Ok(reader.next().await?.map(|rows| (rows, reader))))
}

struct Reader {
    parsed: ParsedDualResponse,
    sort: Vec<Sort>,
    /// `None` before the request was sent.
    body: Option<BodyStream>,
    lines: Lines,
}

impl Reader {
    /// The rows of the next piece of the stream that completes at least one row.
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, ClientError> {
        let timeout = self.parsed.client.inner.timeout;
        let bytes_max = self.parsed.client.inner.response_bytes_max;
        let body = match &mut self.body {
            Some(body) => body,
            None => {
                let query = PageQuery { sort: self.sort.clone(), ..PageQuery::default() };
                let response = self.parsed.send(Method::POST, Some(&query), MIME_NDJSON).await?;
                self.body.insert(response.into_body())
            }
        };
        loop {
            let chunk = within(timeout, async { body.try_next().await.map_err(broken_off) }).await?;
            let Some(chunk) = chunk else {
                return self.lines.finish().map(|()| None);
            };
            let rows = self.lines.take(&chunk, bytes_max)?;
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
    }
}

/// The state between two pieces of a stream.
#[derive(Default)]
struct Lines {
    /// A line whose end has not arrived yet.
    partial: Vec<u8>,
    /// A line that is the end marker, unless another line follows it.
    marker: Option<Vec<u8>>,
    rows: u64,
}

impl Lines {
    /// The rows that a piece completes.
    fn take<T: DeserializeOwned>(&mut self, chunk: &[u8], bytes_max: usize) -> Result<Vec<T>, ClientError> {
        let Some(last) = chunk.iter().rposition(|byte| *byte == b'\n') else {
            self.keep(chunk, bytes_max)?;
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        let mut lines = chunk[..last].split(|byte| *byte == b'\n');
        if !self.partial.is_empty() {
            let mut first = std::mem::take(&mut self.partial);
            first.extend_from_slice(lines.next().unwrap_or_default());
            self.line(&first, &mut rows)?;
        }
        for line in lines {
            self.line(line, &mut rows)?;
        }
        self.keep(&chunk[last + 1..], bytes_max)?;
        Ok(rows)
    }

    fn keep(&mut self, part: &[u8], bytes_max: usize) -> Result<(), ClientError> {
        if self.partial.len() + part.len() > bytes_max {
            return Err(unreadable(format!("a row is larger than {bytes_max} bytes")));
        }
        self.partial.extend_from_slice(part);
        Ok(())
    }

    fn line<T: DeserializeOwned>(&mut self, line: &[u8], rows: &mut Vec<T>) -> Result<(), ClientError> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(row) = self.marker.take() {
            self.row(&row, rows)?;
        }
        if line.starts_with(MARKER_START) {
            self.marker = Some(line.to_vec());
            return Ok(());
        }
        self.row(line, rows)
    }

    fn row<T: DeserializeOwned>(&mut self, line: &[u8], rows: &mut Vec<T>) -> Result<(), ClientError> {
        let row = serde_json::from_slice(line);
        rows.push(row.map_err(|error| ClientError::broken("a row cannot be read", error))?);
        self.rows += 1;
        Ok(())
    }

    /// Succeeds if the last line is the end marker and its count is the number of rows that arrived.
    fn finish(&mut self) -> Result<(), ClientError> {
        let came = self.rows;
        let last = self.marker.take().and_then(|line| serde_json::from_slice::<EndMarker>(&line).ok());
        match last {
            Some(EndMarker { count, .. }) if count == came && self.partial.is_empty() => Ok(()),
            Some(EndMarker { count, .. }) => Err(unreadable(format!("{came} of {count} rows came"))),
            None => Err(unreadable(format!("the export broke off after {came} rows"))),
        }
    }
}

fn unreadable(message: String) -> ClientError {
    ClientError::Fetch { status: None, message, source: None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The rows of a stream that is cut into pieces of `size` bytes.
    fn read(text: &str, size: usize) -> Result<Vec<Value>, String> {
        let mut lines = Lines::default();
        let mut rows = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            rows.extend(lines.take::<Value>(chunk, 1000).map_err(|error| error.to_string())?);
        }
        lines.finish().map_err(|error| error.to_string())?;
        Ok(rows)
    }

    #[test]
    fn rows_are_the_same_however_the_stream_is_cut() {
        let text = "{\"id\":1,\"name\":\"é\"}\n{\"id\":2}\n{\"_end\":true,\"count\":2}\n";
        for size in 1..=text.len() {
            assert_eq!(read(text, size), Ok(vec![json!({"id": 1, "name": "é"}), json!({"id": 2})]), "{size}");
        }
        assert_eq!(read("{\"_end\":true,\"count\":0}\n", 5), Ok(vec![]));
    }

    #[test]
    fn a_row_that_looks_like_the_marker_is_a_row() {
        let text = "{\"_end\":true,\"count\":1}\n{\"_end\":true,\"count\":1}\n";
        assert_eq!(read(text, 7), Ok(vec![json!({"_end": true, "count": 1})]));
    }

    #[test]
    fn an_export_without_its_end_is_an_error() {
        assert_eq!(read("{\"id\":1}\n", 100), Err("the export broke off after 1 rows".into()));
        assert_eq!(read("", 100), Err("the export broke off after 0 rows".into()));
        assert_eq!(read("{\"id\":1}\n{\"_end\":true,\"count\":3}\n", 9), Err("1 of 3 rows came".into()));
        assert!(read("{\"id\":1}\n{\"_end\":true,\"count\":1}\n{\"id", 9).is_err());
        assert!(read(&format!("{{\"text\":\"{}\"}}\n", "x".repeat(2000)), 100).is_err(), "rows have a bound");
    }
}
