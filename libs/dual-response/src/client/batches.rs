//! Fetches all rows, page by page. The loop ends for every server, whatever its replies say.

use futures_util::{Stream, TryStreamExt, stream};
use serde::de::DeserializeOwned;

use super::parsed::{FetchOptions, FetchResult, ParsedDualResponse};
use super::{ClientError, ndjson};
use crate::wire::{Row, Sort};

const BATCH_ROWS_ALL_DEFAULT: u64 = 500;
const BATCH_ROWS_STREAM_DEFAULT: u64 = 100;

/// Options for fetching many rows.
#[derive(Default)]
#[non_exhaustive]
pub struct BatchOptions {
    /// The number of rows fetched at a time. Default: 500 when all rows are collected, 100 for a stream.
    pub batch_size: Option<u64>,
    /// The order of the rows.
    pub sort: Vec<Sort>,
    on_progress: Option<Box<dyn FnMut(u64, u64) + Send>>,
}

impl BatchOptions {
    /// Options with all defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fetches this many rows at a time.
    pub fn batch_size(self, rows: u64) -> Self {
        Self { batch_size: Some(rows), ..self }
    }

    /// Sorts by this field. A further call adds a field that orders rows which are equal so far.
    pub fn sort(mut self, sort: Sort) -> Self {
        self.sort.push(sort);
        self
    }

    /// Calls a function after each batch, with the number of rows fetched so far and the total.
    pub fn on_progress(self, on_progress: impl FnMut(u64, u64) + Send + 'static) -> Self {
        Self { on_progress: Some(Box::new(on_progress)), ..self }
    }
}

impl ParsedDualResponse {
    /// Fetches all rows into memory. If they may not fit, use [`ParsedDualResponse::fetch_stream`].
    pub async fn fetch_all(&self, options: BatchOptions) -> Result<Vec<Row>, ClientError> {
        self.fetch_all_as(options).await
    }

    /// Fetches all rows, as the caller's own type.
    pub async fn fetch_all_as<T: DeserializeOwned + Send + 'static>(
        &self,
        mut options: BatchOptions,
    ) -> Result<Vec<T>, ClientError> {
        options.batch_size.get_or_insert(BATCH_ROWS_ALL_DEFAULT);
        self.fetch_stream_as(options).try_concat().await
    }

    /// Fetches all rows page by page, and yields each page as it arrives.
    pub fn fetch_stream(
        &self,
        options: BatchOptions,
    ) -> impl Stream<Item = Result<Vec<Row>, ClientError>> + Send + 'static {
        self.fetch_stream_as(options)
    }

    /// As `fetch_stream`, with rows of the caller's own type.
    pub fn fetch_stream_as<T: DeserializeOwned + Send + 'static>(
        &self,
        options: BatchOptions,
    ) -> impl Stream<Item = Result<Vec<T>, ClientError>> + Send + 'static {
        let limit = options.batch_size.unwrap_or(BATCH_ROWS_STREAM_DEFAULT);
        let reader = Reader { parsed: self.clone(), options, limit, offset: Some(0), fetched: 0 };
        stream::try_unfold(reader, async |mut reader| Ok(reader.next().await?.map(|data| (data, reader))))
    }

    /// Fetches all rows as one NDJSON stream: a single request, memory for a few rows, and an error if the
    /// server stops before the end. `batch_size` and `on_progress` do not apply; a batch is the rows that
    /// arrived together.
    pub fn export(
        &self,
        sort: Vec<Sort>,
    ) -> impl Stream<Item = Result<Vec<Row>, ClientError>> + Send + 'static {
        ndjson::export(self.clone(), sort)
    }

    /// As `export`, with rows of the caller's own type.
    pub fn export_as<T: DeserializeOwned + Send + 'static>(
        &self,
        sort: Vec<Sort>,
    ) -> impl Stream<Item = Result<Vec<T>, ClientError>> + Send + 'static {
        ndjson::export(self.clone(), sort)
    }
}

struct Reader {
    parsed: ParsedDualResponse,
    options: BatchOptions,
    limit: u64,
    /// The beginning of the next page; `None` after the last one.
    offset: Option<u64>,
    fetched: u64,
}

impl Reader {
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, ClientError> {
        let Some(offset) = self.offset.take() else { return Ok(None) };
        let query =
            FetchOptions { offset: Some(offset), limit: Some(self.limit), sort: self.options.sort.clone() };
        let page: FetchResult<T> = self.parsed.fetch_as(query).await?;
        // If rows are deleted meanwhile, a server may promise a next page for ever. So an empty page ends the
        // loop, and so does a next offset that is not larger than the present one.
        if page.data.is_empty() {
            return Ok(None);
        }
        let next = page.next_offset.unwrap_or(offset + page.returned_count);
        self.offset = (page.has_next && next > offset).then_some(next);
        self.fetched += page.returned_count;
        if let Some(on_progress) = &mut self.options.on_progress {
            on_progress(self.fetched, page.total_count);
        }
        Ok(Some(page.data))
    }
}
