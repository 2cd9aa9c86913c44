//! The addresses to which the client sends requests, and the headers that it sends: the address comes from a
//! tool result and is not trusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Redirect;
use axum::routing::any;
use mcp_dual_response::client::{DualResponseClient, FetchOptions};
use mcp_dual_response::reqwest;
use serde_json::{Value, json};

use crate::client::result_at;
use crate::support::*;

/// A server that answers every request with a page of one row, which contains the headers of the request.
async fn echo() -> String {
    let (listener, base_url) = listen().await;
    let reply = async |headers: HeaderMap| {
        let headers: serde_json::Map<String, Value> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or_default())))
            .collect();
        axum::Json(json!({
            "data": [headers], "total_count": 1, "returned_count": 1, "offset": 0, "has_next": false, "next_offset": null,
        }))
    };
    serve(listener, Router::new().fallback(any(reply)));
    base_url
}

async fn headers_at(client: &DualResponseClient, url: &str) -> Value {
    let parsed = client.parse(&result_at(&format!("{url}/abc"))).unwrap();
    Value::Object(parsed.fetch(FetchOptions::new()).await.unwrap().data.remove(0))
}

#[tokio::test]
async fn default_headers_go_with_every_request() {
    let client = client_with(|builder| builder.header("x-client", "report"));
    assert_eq!(headers_at(&client, &echo().await).await["x-client"], "report");
}

#[tokio::test]
async fn headers_per_origin_stay_there() {
    let (ours, theirs) = (echo().await, echo().await);
    let client = client_with(|builder| builder.header_for(&ours, "authorization", "Bearer secret"));
    assert_eq!(headers_at(&client, &ours).await["authorization"], "Bearer secret");
    assert_eq!(headers_at(&client, &theirs).await["authorization"], Value::Null);
}

#[tokio::test]
async fn a_credential_needs_an_address_of_ones_own() {
    let build = |base_url: Option<String>| {
        let builder = DualResponseClient::builder().header("Authorization", "Bearer secret");
        match base_url {
            Some(base_url) => builder.base_url(base_url),
            None => builder,
        }
        .build()
    };
    assert_eq!(build(None).unwrap_err().code().as_str(), "INVALID_OPTION");
    let base_url = echo().await;
    let client = build(Some(base_url)).unwrap();
    let headers = headers_at(&client, "https://elsewhere.example/resources").await;
    assert_eq!(headers["authorization"], "Bearer secret", "and base_url overrides what the result says");
}

#[tokio::test]
async fn ssrf_requests_are_not_even_sent() {
    for url in ["https://169.254.169.254/latest", "http://rows.example/abc", "https://10.1.2.3/abc"] {
        let parsed = client().parse(&result_at(url)).unwrap();
        let error = parsed.fetch(FetchOptions::new()).await.unwrap_err();
        assert_eq!(error.code().as_str(), "URL_REFUSED", "{url}");
        assert_eq!(parsed.pin().await.unwrap_err().code().as_str(), "URL_REFUSED");
        assert_eq!(parsed.delete().await.unwrap_err().code().as_str(), "URL_REFUSED");
    }
}

#[tokio::test]
async fn redirects_stay_within_their_origin() {
    let (elsewhere, away) = listen().await;
    let reached = Arc::new(AtomicBool::new(false));
    let note = reached.clone();
    serve(elsewhere, Router::new().fallback(any(async move || note.store(true, Ordering::SeqCst))));
    let (listener, base_url) = listen().await;
    let app = Router::new()
        .route("/resources/away", any(async move || Redirect::temporary(&away)))
        .route("/resources/near", any(async || Redirect::temporary("/resources/here")))
        .route("/resources/here", any(async || axum::Json(json!({
            "data": [], "total_count": 0, "returned_count": 0, "offset": 0, "has_next": false, "next_offset": null,
        }))));
    serve(listener, app);
    let fetch = async |client: DualResponseClient, path: &str| {
        let parsed = client.parse(&result_at(&format!("{base_url}/{path}"))).unwrap();
        parsed.fetch(FetchOptions::new()).await
    };
    assert!(fetch(client(), "near").await.is_ok());
    assert_eq!(fetch(client(), "away").await.unwrap_err().code().as_str(), "FETCH_ERROR");
    assert!(!reached.load(Ordering::SeqCst), "nothing was even asked of the other origin");
    let injected = client_with(|builder| builder.http(reqwest::Client::new()));
    assert_eq!(fetch(injected, "away").await.unwrap_err().code().as_str(), "FETCH_ERROR");
}
