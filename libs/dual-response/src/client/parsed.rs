//! A parsed response, with the operations on its resource.

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use url::Url;

use super::transport::BodyStream;
use super::{ClientError, DualResponseClient};
use crate::wire::{Column, Failure, MIME_JSON, Metadata, Page, PageQuery, Pinned, Row, Sort};

/// The largest part of a failure's body that is read for its message.
const FAILURE_BYTES_MAX: usize = 64 << 10;

/// The content of a dual response, with access to all of its rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParsedDualResponse {
    /// The rows that the response shows.
    pub sample: Vec<Row>,
    /// The number of all rows.
    pub total_count: u64,
    /// The URI of the resource, such as `resource://abc123`.
    pub resource_uri: String,
    /// The HTTP address of the resource; `None` if the server has no REST endpoints.
    pub resource_url: Option<Url>,
    /// The name of the resource.
    pub name: String,
    /// The columns of a row.
    pub columns: Vec<Column>,
    /// The time at which the resource expires; `None` if it does not.
    pub expires_at: Option<Timestamp>,
    /// The time at which the query ran; `None` if the server does not tell.
    pub executed_at: Option<Timestamp>,
    pub(super) client: DualResponseClient,
}

/// The rows to fetch. For options that are not set, the server uses its defaults.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The first row, counted from 0.
    pub offset: Option<u64>,
    /// The largest number of rows.
    pub limit: Option<u64>,
    /// The order of the rows.
    pub sort: Vec<Sort>,
}

impl FetchOptions {
    /// The first page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at this row.
    pub fn offset(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// Fetches at most this many rows.
    pub fn limit(self, limit: u64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Sorts by this field. A further call adds a field that orders rows which are equal so far.
    pub fn sort(mut self, sort: Sort) -> Self {
        self.sort.push(sort);
        self
    }
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FetchResult<T = Row> {
    /// The rows.
    pub data: Vec<T>,
    /// The number of all rows.
    pub total_count: u64,
    /// The number of rows on this page.
    pub returned_count: u64,
    /// The position of the first row of this page.
    pub offset: u64,
    /// Whether there are rows after this page.
    pub has_next: bool,
    /// Whether there are rows before this page.
    pub has_previous: bool,
    /// The beginning of the next page; `None` at the end.
    pub next_offset: Option<u64>,
}

impl ParsedDualResponse {
    /// Whether the resource has expired, by the clock of this machine.
    pub fn is_expired(&self) -> bool {
        self.is_expired_at(Timestamp::now())
    }

    /// Whether the resource has expired at that time.
    pub fn is_expired_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Fetches a page of rows.
    pub async fn fetch(&self, options: FetchOptions) -> Result<FetchResult, ClientError> {
        self.fetch_as(options).await
    }

    /// Fetches a page of rows, as the caller's own type.
    pub async fn fetch_as<T: DeserializeOwned>(
        &self,
        options: FetchOptions,
    ) -> Result<FetchResult<T>, ClientError> {
        let FetchOptions { offset, limit, sort } = options;
        let page: Page<T> = self.ask(Method::POST, Some(&PageQuery { offset, limit, sort })).await?;
        Ok(FetchResult {
            returned_count: page.data.len() as u64,
            data: page.data,
            total_count: page.total_count,
            offset: page.offset,
            has_next: page.has_next,
            has_previous: page.offset > 0,
            next_offset: page.next_offset,
        })
    }

    /// Fetches the present metadata of the resource.
    pub async fn metadata(&self) -> Result<Metadata, ClientError> {
        self.ask(Method::GET, None).await
    }

    /// Pins the resource, so that it no longer expires; false if the server's reply has an expiry all the
    /// same.
    pub async fn pin(&self) -> Result<bool, ClientError> {
        let pinned: Pinned = self.ask(Method::PUT, None).await?;
        Ok(pinned.expires_at.is_none())
    }

    /// Deletes the resource.
    pub async fn delete(&self) -> Result<bool, ClientError> {
        let response = self.send(Method::DELETE, None, MIME_JSON).await?;
        Ok(response.status().is_success())
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        query: Option<&PageQuery>,
    ) -> Result<T, ClientError> {
        let inner = &self.client.inner;
        let answer = async {
            let response = self.send(method, query, MIME_JSON).await?;
            let body = read_body(response.into_body(), inner.response_bytes_max).await?;
            serde_json::from_slice(&body)
                .map_err(|error| ClientError::broken("the server's answer cannot be read", error))
        };
        within(inner.timeout, answer).await
    }

    /// Sends a request and returns the reply if it is a success.
    pub(super) async fn send(
        &self,
        method: Method,
        query: Option<&PageQuery>,
        accept: &'static str,
    ) -> Result<Response<BodyStream>, ClientError> {
        let inner = &self.client.inner;
        let request = self.request(method, query, accept)?;
        let answer = async {
            let response = inner.http.send(request).await;
            let response = response.map_err(|error| ClientError::broken("the request failed", error))?;
            match response.status() {
                status if status.is_success() => Ok(response),
                status => Err(failure(status, response.into_body()).await),
            }
        };
        within(inner.timeout, answer).await
    }

    fn request(
        &self,
        method: Method,
        query: Option<&PageQuery>,
        accept: &'static str,
    ) -> Result<Request<Bytes>, ClientError> {
        let inner = &self.client.inner;
        let url = self.resource_url.as_ref();
        let url = url.ok_or_else(|| ClientError::parse("the response does not say where its rows are"))?;
        inner.guard.check(url)?;
        let body = match query {
            Some(query) => Bytes::from(serde_json::to_vec(query).expect("a page query is JSON")),
            None => Bytes::new(),
        };
        let mut request = Request::builder().method(method).uri(url.as_str()).body(body).map_err(|_| {
            ClientError::UrlRefused { url: url.to_string(), why: "it is not an address for HTTP" }
        })?;
        let headers = request.headers_mut();
        headers.extend(inner.headers.clone());
        let here = url.origin();
        for (origin, name, value) in &inner.headers_for {
            if *origin == here {
                headers.insert(name, value.clone());
            }
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if query.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MIME_JSON));
        }
        Ok(request)
    }
}

/// The result of a future, or a timeout error.
pub(super) async fn within<T>(
    after: std::time::Duration,
    wanted: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(after, wanted).await.unwrap_or(Err(ClientError::Timeout { after }))
}

async fn read_body(mut body: BodyStream, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
    let mut out = Vec::new();
    while let Some(chunk) = body.try_next().await.map_err(broken_off)? {
        if out.len() + chunk.len() > bytes_max {
            let message = format!("the answer is larger than {bytes_max} bytes");
            return Err(ClientError::Fetch { status: None, message, source: None });
        }
        out.extend_from_slice(&chunk);
    }
    Ok(out)
}

pub(super) fn broken_off(error: crate::BoxError) -> ClientError {
    ClientError::broken("the answer broke off", error)
}

/// The error for a failure reply, with the server's message if it has one.
async fn failure(status: StatusCode, body: BodyStream) -> ClientError {
    let body = read_body(body, FAILURE_BYTES_MAX).await.unwrap_or_default();
    let message = match serde_json::from_slice::<Failure>(&body) {
        Ok(failure) => failure.message,
        Err(_) => format!("the server answered {status}"),
    };
    match status {
        StatusCode::NOT_FOUND => ClientError::NotFound { message },
        StatusCode::GONE => ClientError::Expired { message },
        status => ClientError::Fetch { status: Some(status.as_u16()), message, source: None },
    }
}
