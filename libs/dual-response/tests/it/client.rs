//! The client against a real server, and against servers that misbehave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use mcp_dual_response::client::{BatchOptions, BodyStream, FetchOptions, HttpSend, ParsedDualResponse};
use mcp_dual_response::wire::Status;
use mcp_dual_response::{BoxError, Row, Sort};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn parse_gives_every_property() {
    let (server, _) = server();
    let (response, parsed) = parsed(&server, live()).await;
    assert_eq!(parsed.sample, response.sample);
    assert_eq!(parsed.total_count, 847);
    assert_eq!(parsed.resource_uri, "resource://abc1");
    assert_eq!(parsed.resource_url.as_ref().unwrap().as_str(), "http://127.0.0.1:9/resources/abc1");
    assert_eq!((parsed.name.as_str(), parsed.columns), (NAME, columns()));
    assert_eq!((parsed.expires_at, parsed.executed_at), (response.expires_at, Some(response.created_at)));
}

#[tokio::test]
async fn parse_takes_four_shapes() {
    let (server, _) = server();
    let response = server.create_response(live()).await.unwrap();
    let structured = response.to_structured_content();
    let text = structured.to_string();
    for shape in [
        response.to_mcp_tool_result(),
        structured.clone(),
        json!({"content": [{"type": "text", "text": "Found"}, {"type": "text", "text": text}]}),
        Value::String(text.clone()),
    ] {
        assert_eq!(client().parse(&shape).unwrap().total_count, 847);
    }
    assert_eq!(client().parse_structured(&structured).unwrap().total_count, 847);
}

#[test]
fn parse_gives_none_for_anything_else() {
    for other in [
        json!(null),
        json!(1),
        json!("Found 847 results."),
        json!({}),
        json!({"content": [{"type": "text", "text": "no rows"}]}),
        json!({"structuredContent": {"results": []}}),
        json!({"resource": {"uri": "resource://a"}, "results": []}),
        json!({"resource": {"uri": "resource://a"}, "metadata": {"total_count": 1}}),
        json!({"resource": {"uri": "resource://a"}, "metadata": {"total_count": 1, "expires_at": "soon"}, "results": []}),
    ] {
        assert!(client().parse(&other).is_none(), "{other}");
        assert!(client().parse_structured(&other).is_none(), "{other}");
        assert_eq!(client().try_parse(&other).unwrap_err().code().as_str(), "PARSE_ERROR", "{other}");
    }
}

#[test]
fn parse_takes_the_sample_from_where_it_is() {
    let with = |fields: Value| {
        let mut reply = object(json!({"resource": {"uri": "kenning://rows/abc"}, "total_count": 9}));
        reply.extend(object(fields));
        client().parse(&Value::Object(reply)).unwrap()
    };
    for field in ["results", "items", "patterns", "data"] {
        assert_eq!(with(json!({field: [{"id": 1}]})).sample.len(), 1, "{field}");
    }
    let both = with(json!({"data": [], "items": [{"id": 1}], "results": [{"id": 1}, {"id": 2}]}));
    assert_eq!(both.sample.len(), 2, "`results` goes first");
    assert_eq!((both.total_count, both.resource_url), (9, None));
}

#[tokio::test]
async fn without_an_address_the_sample_is_there_and_fetching_says_why_not() {
    let reply = json!({"resource": {"uri": "kenning://rows/abc"}, "total_count": 9, "results": [{"id": 1}]});
    let parsed = client().parse(&reply).unwrap();
    let error = parsed.fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "PARSE_ERROR");
}

#[test]
fn addresses_are_found_in_order() {
    let result = |url: Value, meta: Value, uri: &str| {
        json!({
            "_meta": {"io.kenning/dual": {"url": meta}},
            "structuredContent": {
                "results": [], "metadata": {"total_count": 0}, "resource": {"uri": uri, "url": url},
            },
        })
    };
    let url = |client: &mcp_dual_response::client::DualResponseClient, result: Value| {
        client.parse(&result).unwrap().resource_url.map(String::from)
    };
    let (own, meta) = (json!("https://a.example/r/abc"), json!("https://b.example/r/abc"));
    let plain = client();
    assert_eq!(
        url(&plain, result(own.clone(), meta.clone(), "resource://abc")).unwrap(),
        "https://a.example/r/abc"
    );
    assert_eq!(
        url(&plain, result(json!(null), meta.clone(), "resource://abc")).unwrap(),
        "https://b.example/r/abc"
    );
    assert_eq!(
        url(&plain, result(json!("ftp://a/abc"), json!(null), "https://c.example/abc")).unwrap(),
        "https://c.example/abc"
    );
    let based = client_with(|builder| builder.base_url("https://proxy.example/rows/"));
    assert_eq!(
        url(&based, result(own, meta, "resource://query/abc")).unwrap(),
        "https://proxy.example/rows/abc"
    );
    assert!(based.parse(&result(json!(null), json!(null), "resource://..")).is_none());
}

#[tokio::test]
async fn is_expired_follows_the_clock() {
    let (server, clock) = server();
    let (response, parsed) = parsed(&server, live()).await;
    assert!(!parsed.is_expired_at(clock.now()));
    assert!(parsed.is_expired_at(response.expires_at.unwrap()));
    assert!(parsed.is_expired(), "2025 is over");
}

#[tokio::test]
async fn fetch_gives_a_page() {
    let (server, _) = served(|builder| builder).await;
    let (_, parsed) = parsed(&server, live()).await;
    let options = FetchOptions::new().offset(100).limit(100).sort(Sort::descending("id"));
    let page = parsed.fetch(options).await.unwrap();
    assert_eq!(page.data[0], row(746));
    assert_eq!((page.total_count, page.returned_count, page.offset), (847, 100, 100));
    assert_eq!((page.has_next, page.has_previous, page.next_offset), (true, true, Some(200)));
    let first = parsed.fetch(FetchOptions::new()).await.unwrap();
    assert_eq!((first.offset, first.has_previous, first.returned_count), (0, false, 100));
    let last = parsed.fetch(FetchOptions::new().offset(800)).await.unwrap();
    assert_eq!((last.has_next, last.next_offset), (false, None));
}

#[derive(Deserialize, Debug, PartialEq)]
struct Institution {
    id: u64,
    name: String,
}

#[tokio::test]
async fn fetch_as_gives_your_own_type() {
    let (server, _) = served(|builder| builder).await;
    let (_, parsed) = parsed(&server, live()).await;
    let page = parsed.fetch_as::<Institution>(FetchOptions::new().limit(1)).await.unwrap();
    assert_eq!(page.data, [Institution { id: 0, name: "College 0".into() }]);
    let all: Vec<Institution> = parsed.fetch_all_as(BatchOptions::new()).await.unwrap();
    assert_eq!(all.len(), 847);
    let wrong = parsed.fetch_as::<Vec<u8>>(FetchOptions::new()).await.unwrap_err();
    assert_eq!(wrong.code().as_str(), "FETCH_ERROR");
}

#[tokio::test]
async fn fetch_all_tells_its_progress() {
    let (server, _) = served(|builder| builder).await;
    let (_, parsed) = parsed(&server, live()).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = told.clone();
    let options = BatchOptions::new().batch_size(500).on_progress(move |fetched, total| {
        note.lock().unwrap().push((fetched, total));
    });
    assert_eq!(parsed.fetch_all(options).await.unwrap(), all_rows());
    assert_eq!(*told.lock().unwrap(), [(500, 847), (847, 847)]);
    let sorted = BatchOptions::new().sort(Sort::descending("id"));
    assert_eq!(parsed.fetch_all(sorted).await.unwrap()[0], row(846));
}

#[tokio::test]
async fn fetch_stream_gives_batches() {
    let (server, _) = served(|builder| builder).await;
    let (_, parsed) = parsed(&server, live()).await;
    let batches: Vec<Vec<Row>> = parsed.fetch_stream(BatchOptions::new()).try_collect().await.unwrap();
    assert_eq!(
        batches.iter().map(Vec::len).collect::<Vec<_>>(),
        [100, 100, 100, 100, 100, 100, 100, 100, 47]
    );
    assert_eq!(batches.concat(), all_rows());
}

#[tokio::test]
async fn export_gives_every_row_in_one_request() {
    let (server, _) = served(|builder| builder).await;
    let (_, parsed) = parsed(&server, live()).await;
    let rows: Vec<Row> = parsed.export(vec![]).try_concat().await.unwrap();
    assert_eq!(rows, all_rows());
    let typed: Vec<Institution> = parsed.export_as(vec![Sort::descending("id")]).try_concat().await.unwrap();
    assert_eq!(typed[0].id, 846);
    assert_eq!(parsed.metadata().await.unwrap().access_count, 2);
}

#[tokio::test]
async fn metadata_pin_and_delete() {
    let (server, clock) = served(|builder| builder).await;
    let (response, parsed) = parsed(&server, live()).await;
    let metadata = parsed.metadata().await.unwrap();
    assert_eq!((metadata.status, metadata.access_count), (Status::Ready, 0));
    assert_eq!((metadata.expires_at, metadata.total_count), (response.expires_at, 847));
    assert!(parsed.pin().await.unwrap());
    clock.forward(Duration::from_secs(3600));
    assert_eq!(parsed.metadata().await.unwrap().expires_at, None);
    assert!(parsed.delete().await.unwrap());
    assert_eq!(parsed.metadata().await.unwrap_err().code().as_str(), "RESOURCE_NOT_FOUND");
    assert_eq!(parsed.delete().await.unwrap_err().code().as_str(), "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn errors_have_codes_and_statuses() {
    let (server, clock) = served(|builder| builder).await;
    let (_, parsed) = parsed(&server, live()).await;
    let bad = parsed.fetch(FetchOptions::new().limit(5000)).await.unwrap_err();
    assert_eq!((bad.code().as_str(), bad.status()), ("FETCH_ERROR", Some(400)));
    assert_eq!(bad.to_string(), "limit is 5000; it can be 1 to 1000", "in the server's words");
    clock.forward(Duration::from_secs(900));
    let gone = parsed.fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!((gone.code().as_str(), gone.status()), ("RESOURCE_EXPIRED", Some(410)));
    server.delete_resource("abc1").await.unwrap();
    let none = parsed.fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!((none.code().as_str(), none.status()), ("RESOURCE_NOT_FOUND", Some(404)));
    let nobody = pointing_at("http://127.0.0.1:9/resources/abc");
    let refused = nobody.fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!((refused.code().as_str(), refused.status()), ("FETCH_ERROR", None));
}

#[tokio::test]
async fn a_slow_server_is_a_timeout() {
    let (listener, base_url) = listen().await;
    serve(listener, Router::new().fallback(any(std::future::pending::<()>)));
    let client = client_with(|builder| builder.timeout(Duration::from_millis(50)));
    let parsed = client.parse(&result_at(&format!("{base_url}/abc"))).unwrap();
    assert_eq!(parsed.fetch(FetchOptions::new()).await.unwrap_err().code().as_str(), "TIMEOUT");
    assert_eq!(parsed.metadata().await.unwrap_err().code().as_str(), "TIMEOUT");
    let first = Box::pin(parsed.export(vec![])).next().await.unwrap();
    assert_eq!(first.unwrap_err().code().as_str(), "TIMEOUT");
}

#[tokio::test]
async fn an_answer_has_a_bound() {
    let (server, _) = served(|builder| builder).await;
    let response = server.create_response(live()).await.unwrap();
    let client = client_with(|builder| builder.response_bytes_max(1000));
    let parsed = client.parse(&response.to_mcp_tool_result()).unwrap();
    assert_eq!(parsed.fetch(FetchOptions::new()).await.unwrap_err().code().as_str(), "FETCH_ERROR");
}

/// A server that returns the same page for ever.
async fn stuck(page: Value) -> ParsedDualResponse {
    let (listener, base_url) = listen().await;
    serve(listener, Router::new().fallback(any(async move || axum::Json(page))));
    pointing_at(&format!("{base_url}/abc"))
}

async fn rows_of(parsed: &ParsedDualResponse) -> usize {
    let all = parsed.fetch_all(BatchOptions::new());
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("it comes to an end").unwrap().len()
}

#[tokio::test]
async fn an_empty_page_never_loops() {
    let page = json!({
        "data": [], "total_count": 847, "returned_count": 0, "offset": 0, "has_next": true, "next_offset": 100,
    });
    assert_eq!(rows_of(&stuck(page).await).await, 0);
}

#[tokio::test]
async fn a_page_that_leads_nowhere_never_loops() {
    let page = json!({
        "data": [{"id": 1}], "total_count": 847, "returned_count": 1, "offset": 0, "has_next": true, "next_offset": 0,
    });
    assert_eq!(rows_of(&stuck(page).await).await, 1);
}

/// Each page reports a smaller total than the one before, and the last pages are empty.
struct Shrinking;

#[async_trait]
impl HttpSend for Shrinking {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<BodyStream>, BoxError> {
        // The reply yields once, so that a client that loops can be stopped.
        tokio::task::yield_now().await;
        let query: Value = serde_json::from_slice(request.body())?;
        let offset = query["offset"].as_u64().unwrap_or(0);
        let total = 800u64.saturating_sub(offset);
        let rows: Vec<Row> = if offset < 400 { (0..100).map(row).collect() } else { vec![] };
        let page = json!({
            "data": rows, "total_count": total, "returned_count": rows.len(), "offset": offset, "has_next": true,
            "next_offset": offset + 100,
        });
        let body: BodyStream = Box::pin(stream::once(async move { Ok(Bytes::from(page.to_string())) }));
        Ok(http::Response::new(body))
    }
}

#[tokio::test]
async fn a_shrinking_total_never_loops() {
    let client = client_with(|builder| builder.transport(Shrinking));
    let parsed = client.parse(&result_at("https://rows.example/abc")).unwrap();
    assert_eq!(rows_of(&parsed).await, 400, "and a transport of one's own is used");
}

pub fn result_at(url: &str) -> Value {
    json!({"results": [], "metadata": {"total_count": 847}, "resource": {"uri": "resource://abc", "url": url}})
}

fn pointing_at(url: &str) -> ParsedDualResponse {
    client().parse(&result_at(url)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_timeout_is_that_of_the_specification() {
    let client = client_with(|builder| builder.transport(Never));
    let parsed = client.parse(&result_at("https://rows.example/abc")).unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(parsed.metadata().await.unwrap_err().code().as_str(), "TIMEOUT");
    assert_eq!(start.elapsed().as_millis(), 30_000);
}

/// A server that never answers.
struct Never;

#[async_trait]
impl HttpSend for Never {
    async fn send(&self, _: http::Request<Bytes>) -> Result<http::Response<BodyStream>, BoxError> {
        std::future::pending().await
    }
}
