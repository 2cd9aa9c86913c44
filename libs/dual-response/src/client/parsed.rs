//! A parsed response, and everything that can be done with what it points at.

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use url::Url;

use super::transport::BodyStream;
use super::{ClientError, DualResponseClient};
use crate::wire::{Column, Failure, MIME_JSON, Metadata, Page, PageQuery, Pinned, Row, Sort};

/// How much of a failure's body is read for its message.
const FAILURE_BYTES_MAX: usize = 64 << 10;

/// What a dual response says, and the way to all of its rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParsedDualResponse {
    /// The rows that the response shows.
    pub sample: Vec<Row>,
    /// How many rows there are in all.
    pub total_count: u64,
    /// The URI of the resource, such as `resource://abc123`.
    pub resource_uri: String,
    /// Its HTTP address; none if the server has no REST endpoints.
    pub resource_url: Option<Url>,
    /// What the resource is called.
    pub name: String,
    /// What a row consists of.
    pub columns: Vec<Column>,
    /// When the resource ends; none if it does not.
    pub expires_at: Option<Timestamp>,
    /// When the query ran; none if the server does not say.
    pub executed_at: Option<Timestamp>,
    pub(super) client: DualResponseClient,
}

/// Which rows to fetch. What is not said is the server's default.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The first row, counted from 0.
    pub offset: Option<u64>,
    /// How many rows at most.
    pub limit: Option<u64>,
    /// In which order.
    pub sort: Vec<Sort>,
}

impl FetchOptions {
    /// The first page.
    pub fn new() -> Self {
        Self::default()
    }

    /// From this row on.
    pub fn offset(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// At most so many rows.
    pub fn limit(self, limit: u64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// In this order; called again, what breaks ties.
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
    /// How many rows there are in all.
    pub total_count: u64,
    /// How many rows this page has.
    pub returned_count: u64,
    /// The first row of this page.
    pub offset: u64,
    /// Whether rows follow.
    pub has_next: bool,
    /// Whether rows come before.
    pub has_previous: bool,
    /// Where the next page begins; none at the end.
    pub next_offset: Option<u64>,
}

impl ParsedDualResponse {
    /// Whether the resource has ended, by the clock of this machine.
    pub fn is_expired(&self) -> bool {
        self.is_expired_at(Timestamp::now())
    }

    /// Whether the resource has ended at that time.
    pub fn is_expired_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Fetches a page of rows.
    pub async fn fetch(&self, options: FetchOptions) -> Result<FetchResult, ClientError> {
        self.fetch_as(options).await
    }

    /// Fetches a page of rows of the caller's own type.
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

    /// Fetches what the server knows of the resource now.
    pub async fn metadata(&self) -> Result<Metadata, ClientError> {
        self.ask(Method::GET, None).await
    }

    /// Takes away the end of the resource; false if the server answered something else.
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

    /// Sends a request and gives the answer if it is a success.
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

/// What was wanted, or that it took too long.
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

/// The failure that an answer is, in the server's words where it has any.
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
