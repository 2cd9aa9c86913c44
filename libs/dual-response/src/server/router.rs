//! The REST endpoints. They have no CORS, authentication or tracing; wrap the router in the layers of your
//! program.

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;

use super::{Access, DualResponseServer, Error, Export, ExportQuery};
use crate::wire::{Failure, MIME_CSV, MIME_NDJSON, Metadata, Page, PageQuery, Pinned, Row, Sort};

/// The largest size of a request body, far more than any page query needs.
const BODY_BYTES_MAX: usize = 64 << 10;

impl DualResponseServer {
    /// The endpoints, to be nested at the path of `base_url`: `app.nest("/resources", server.router())`. The
    /// router fits into an app with any state.
    ///
    /// | | | |
    /// |---|---|---|
    /// | GET | `/{id}` | metadata |
    /// | POST | `/{id}` | a page of rows; with `Accept: application/x-ndjson` or `text/csv`, all of them |
    /// | PUT | `/{id}` | pin |
    /// | DELETE | `/{id}` | delete |
    /// | GET | `/{id}/rows?offset=&limit=&sort=-enrollment,name` | the same page, as a link |
    /// | GET | `/{id}/export?format=ndjson&sort=` | all rows as a file, `ndjson` or `csv` |
    pub fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        Router::new()
            .route("/{id}", get(metadata).post(page).put(pin).delete(delete))
            .route("/{id}/rows", get(rows))
            .route("/{id}/export", get(export))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(middleware::from_fn(keep_private))
            .with_state(self.clone())
    }
}

async fn metadata(Caller(access): Caller, Id(id): Id) -> Result<Json<Metadata>, Error> {
    Ok(Json(access.metadata(&id).await?))
}

async fn page(
    Caller(access): Caller,
    Id(id): Id,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<Response, Error> {
    let body = body.map_err(|_| Error::LimitExceeded {
        what: format!("the body can have at most {BODY_BYTES_MAX} bytes"),
    })?;
    let query = read_body(&body)?;
    match wanted(&headers) {
        None => Ok(Json(access.page(&id, &query).await?).into_response()),
        Some(format) => {
            let PageQuery { offset, limit, sort } = query;
            let export = access.export(&id, &ExportQuery { offset, limit, sort }).await?;
            Ok(stream(export, format, false))
        }
    }
}

async fn pin(Caller(access): Caller, Id(id): Id) -> Result<Json<Pinned>, Error> {
    Ok(Json(access.pin(&id).await?))
}

async fn delete(Caller(access): Caller, Id(id): Id) -> Result<StatusCode, Error> {
    access.delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsQuery {
    offset: Option<u64>,
    limit: Option<u64>,
    sort: Option<String>,
}

async fn rows(
    State(server): State<DualResponseServer>,
    Caller(access): Caller,
    Id(id): Id,
    query: Result<Query<RowsQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Error> {
    let Query(RowsQuery { offset, limit, sort }) = query.map_err(invalid_page)?;
    let sort = sort.unwrap_or_default();
    let asked = PageQuery { offset, limit, sort: read_sort(&sort) };
    let page: Page = access.page(&id, &asked).await?;
    let next = page.next_offset.zip(server.url_of(&id)).map(|(next, url)| {
        let mut url = url::Url::parse(&format!("{url}/rows"))
            .expect("the base URL was checked, and an id needs no escapes");
        url.query_pairs_mut().append_pair("offset", &next.to_string());
        if let Some(limit) = limit {
            url.query_pairs_mut().append_pair("limit", &limit.to_string());
        }
        if !sort.is_empty() {
            url.query_pairs_mut().append_pair("sort", &sort);
        }
        let link = format!("<{url}>; rel=\"next\"");
        [(header::LINK, HeaderValue::try_from(link).expect("a URL is plain ASCII"))]
    });
    Ok((next, Json(page)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportParams {
    format: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
    sort: Option<String>,
    /// Requests the end marker in a format that has none by default.
    #[serde(default)]
    end: bool,
}

async fn export(
    Caller(access): Caller,
    Id(id): Id,
    headers: HeaderMap,
    params: Result<Query<ExportParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Error> {
    let Query(params) = params.map_err(invalid_page)?;
    let format = match params.format.as_deref() {
        None => wanted(&headers).unwrap_or(Format::Ndjson),
        Some("ndjson") => Format::Ndjson,
        #[cfg(feature = "csv")]
        Some("csv") => Format::Csv,
        Some(other) => {
            let what = format!("there is no format `{other}`; use {}", Format::NAMES);
            return Err(Error::InvalidPage { what });
        }
    };
    let sort = read_sort(&params.sort.unwrap_or_default());
    let query = ExportQuery { offset: params.offset, limit: params.limit, sort };
    let export = access.export(&id, &query).await?;
    let file = format!("attachment; filename=\"{id}.{}\"", format.extension());
    let mut response = stream(export, format, params.end);
    let file = HeaderValue::try_from(file).expect("an id is plain ASCII");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, file);
    Ok(response)
}

#[derive(Clone, Copy)]
enum Format {
    Ndjson,
    #[cfg(feature = "csv")]
    Csv,
}

impl Format {
    const NAMES: &str = if cfg!(feature = "csv") { "ndjson or csv" } else { "ndjson" };

    fn extension(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            #[cfg(feature = "csv")]
            Self::Csv => "csv",
        }
    }
}

/// The stream format that a request accepts; `None` if it asks for a page.
fn wanted(headers: &HeaderMap) -> Option<Format> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    let asked =
        |mime: &str| accept.split(',').any(|part| part.split(';').next().unwrap_or("").trim() == mime);
    if asked(MIME_NDJSON) {
        return Some(Format::Ndjson);
    }
    #[cfg(feature = "csv")]
    if asked(MIME_CSV) {
        return Some(Format::Csv);
    }
    let _ = MIME_CSV;
    None
}

/// All rows as a body. An error in between aborts the connection, which every HTTP client reports.
fn stream(export: Export, format: Format, end_marker: bool) -> Response {
    let total = HeaderValue::from(export.count_max());
    let (mime, body) = match format {
        Format::Ndjson => (MIME_NDJSON, Body::from_stream(export.ndjson())),
        #[cfg(feature = "csv")]
        Format::Csv => ("text/csv; charset=utf-8; header=present", Body::from_stream(export.csv(end_marker))),
    };
    let _ = end_marker;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(mime)),
        (HeaderName::from_static("x-total-count"), total),
    ];
    (headers, body).into_response()
}

/// The id in a path. A path that can't be decoded names no resource.
struct Id(String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let Path(id) = Path::from_request_parts(parts, state).await.map_err(|_| Error::NotFound)?;
        Ok(Self(id))
    }
}

/// The access of the principal that sent a request.
struct Caller(Access);

impl FromRequestParts<DualResponseServer> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, server: &DualResponseServer) -> Result<Self, Error> {
        let principal = server.inner.authorizer.principal(&parts.headers).await?;
        Ok(Self(server.access(principal)))
    }
}

fn read_body(body: &[u8]) -> Result<PageQuery, Error> {
    if body.is_empty() {
        return Ok(PageQuery::default());
    }
    // Parsed as an object first, because serde would also read a struct from an array.
    let fields: Row = serde_json::from_slice(body).map_err(invalid_page)?;
    serde_json::from_value(fields.into()).map_err(invalid_page)
}

/// Parses a sort such as `-enrollment,name`; a minus sorts the largest values first.
fn read_sort(text: &str) -> Vec<Sort> {
    let fields = text.split(',').filter(|field| !field.is_empty());
    fields
        .map(|field| match field.strip_prefix('-') {
            Some(field) => Sort::descending(field),
            None => Sort::ascending(field),
        })
        .collect()
}

fn invalid_page(error: impl std::fmt::Display) -> Error {
    Error::InvalidPage { what: format!("the request cannot be read: {error}") }
}

/// Forbids caches to keep a response, because rows belong to a caller.
async fn keep_private(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    // A browser must not guess another type: a row is data, whatever it looks like.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, error) = match &self {
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Self::Expired => (StatusCode::GONE, "expired"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::InvalidSort { .. } => (StatusCode::BAD_REQUEST, "invalid_sort"),
            Self::InvalidPage { .. } | Self::InvalidOption { .. } => {
                (StatusCode::BAD_REQUEST, "invalid_page")
            }
            Self::LimitExceeded { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "limit_exceeded"),
            Self::NotDurable => (StatusCode::CONFLICT, "not_durable"),
            Self::ExecutorMissing { .. } => (StatusCode::SERVICE_UNAVAILABLE, "executor_missing"),
            Self::Storage(_) => (StatusCode::SERVICE_UNAVAILABLE, "storage_error"),
            Self::QueryExecutionFailed(_) | Self::CountExecutionFailed(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "query_failed")
            }
        };
        if status.is_server_error() {
            tracing::error!(error = &self as &dyn std::error::Error, code = %self.code(), "a request failed");
        }
        let failure = Failure {
            error: error.to_owned(),
            message: self.to_string(),
            code: self.code().as_str().to_owned(),
            retryable: self.is_retryable(),
        };
        (status, Json(failure)).into_response()
    }
}
