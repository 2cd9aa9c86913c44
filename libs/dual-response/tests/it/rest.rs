//! The endpoints, checked with a plain HTTP client, byte by byte.

use mcp_dual_response::reqwest::{self, Method, StatusCode};
use mcp_dual_response::server::{DualResponseServer, NewResource, PageRequest};
use mcp_dual_response::{Column, Row};
use serde_json::{Value, json};

use crate::support::*;

async fn call(url: &str, method: Method, body: Option<Value>) -> (StatusCode, Value) {
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let response = request.send().await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn post(url: &str, body: Value) -> (StatusCode, Value) {
    call(url, Method::POST, Some(body)).await
}

async fn institutions() -> (DualResponseServer, Clock, String) {
    let (server, clock) = served(|builder| builder).await;
    let response = server.create_response(live()).await.unwrap();
    (server, clock, response.resource_url.unwrap())
}

#[tokio::test]
async fn get_gives_metadata() {
    let (_server, _, url) = institutions().await;
    let (status, body) = call(&url, Method::GET, None).await;
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "status": "ready",
            "name": NAME,
            "total_count": 847,
            "columns": columns(),
            "created_at": "2025-01-15T10:30:00Z",
            "expires_at": "2025-01-15T10:45:00Z",
            "access_count": 0,
        })
    );
    for _ in 0..3 {
        post(&url, json!({})).await;
    }
    let (_, body) = call(&url, Method::GET, None).await;
    assert_eq!(body["access_count"], 3);
}

#[tokio::test]
async fn an_unknown_resource_is_404() {
    let (server, _, _) = institutions().await;
    for id in ["nothing", "a%2Fb", "..%2Fabc1", "%00", "%FF"] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let (status, body) = call(&server.url_of(id).unwrap(), method.clone(), None).await;
            assert_eq!(status, 404, "{method} {id}");
            assert_eq!(body["error"], "not_found");
            assert_eq!(body["message"], "Resource not found or expired");
            assert_eq!(body["code"], "RESOURCE_NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn post_gives_a_page() {
    let (_server, _, url) = institutions().await;
    let (status, body) = post(&url, json!({"offset": 0, "limit": 100})).await;
    assert_eq!(status, 200);
    let expected = json!({
        "data": all_rows()[..100],
        "total_count": 847,
        "returned_count": 100,
        "offset": 0,
        "has_next": true,
        "next_offset": 100,
    });
    assert_eq!(body, expected);
    assert_eq!(
        call(&url, Method::POST, None).await.1,
        expected,
        "what is not said is the first hundred rows"
    );
}

#[tokio::test]
async fn next_offset_is_null_at_the_end() {
    let (_server, _, url) = institutions().await;
    let (_, body) = post(&url, json!({"offset": 800, "limit": 100})).await;
    assert_eq!(body["returned_count"], 47);
    assert_eq!((&body["has_next"], &body["next_offset"]), (&json!(false), &Value::Null));
    let (status, body) = post(&url, json!({"offset": 5000})).await;
    assert_eq!((status.as_u16(), &body["data"], &body["has_next"]), (200, &json!([]), &json!(false)));
}

#[tokio::test]
async fn sort_runs_the_query_again() {
    let (_server, _, url) = institutions().await;
    let sort = json!({"field": "enrollment", "order": "desc"});
    let (_, body) = post(&url, json!({"limit": 1000, "sort": sort})).await;
    let rows: Vec<Row> = serde_json::from_value(body["data"].clone()).unwrap();
    assert_eq!(rows.len(), 847);
    let keys: Vec<_> =
        rows.iter().map(|row| (std::cmp::Reverse(row["enrollment"].as_u64()), row["id"].as_u64())).collect();
    assert!(keys.is_sorted(), "all rows are sorted, ties by id");
}

#[tokio::test]
async fn sorted_pages_do_not_overlap() {
    let (server, _) = served(|builder| builder).await;
    // As in a database, equal rows come in any order: here in another order on each page.
    let restless = |page: PageRequest| async move {
        let mut rows = all_rows();
        rows.rotate_left((page.offset * 3 % TOTAL) as usize);
        Ok::<_, String>(page_of(rows, &page))
    };
    let new = NewResource::live(NAME, columns(), restless, count);
    let url = server.create_response(new).await.unwrap().resource_url.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut offset = 0;
    loop {
        let (_, body) =
            post(&url, json!({"offset": offset, "limit": 100, "sort": {"field": "enrollment"}})).await;
        for row in body["data"].as_array().unwrap() {
            assert!(seen.insert(row["id"].as_u64().unwrap()), "{row} came twice");
        }
        match body["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(seen.len(), 847);
}

#[tokio::test]
async fn a_bad_sort_or_page_is_400_and_runs_nothing() {
    let (server, _) = served(|builder| builder).await;
    let first_only = |page: PageRequest| async move {
        assert_eq!((page.offset, page.limit), (0, 15), "only the sample may be asked for");
        Ok::<_, String>(page_of(all_rows(), &page))
    };
    let columns = [Column::number("id"), Column::string("notes").unsortable()];
    let new = NewResource::live(NAME, columns, first_only, count);
    let url = server.create_response(new).await.unwrap().resource_url.unwrap();
    for (body, code) in [
        (json!({"sort": {"field": "id\"; DROP TABLE institutions; --", "order": "asc"}}), "INVALID_SORT"),
        (json!({"sort": {"field": "notes"}}), "INVALID_SORT"),
        (json!({"sort": {"field": "nothing"}}), "INVALID_SORT"),
        (json!({"sort": {"field": "id", "order": "sideways"}}), "INVALID_PAGE"),
        (json!({"limit": 0}), "INVALID_PAGE"),
        (json!({"limit": 1001}), "INVALID_PAGE"),
        (json!({"offset": -1}), "INVALID_PAGE"),
        (json!({"offset": "0"}), "INVALID_PAGE"),
        (json!({"ofset": 0}), "INVALID_PAGE"),
        (json!([]), "INVALID_PAGE"),
    ] {
        let (status, reply) = post(&url, body.clone()).await;
        assert_eq!((status.as_u16(), &reply["code"]), (400, &json!(code)), "{body}");
        assert_eq!(reply["retryable"], false);
    }
}

#[tokio::test]
async fn put_pins() {
    let (server, clock, url) = institutions().await;
    let (status, body) = call(&url, Method::PUT, None).await;
    assert_eq!((status.as_u16(), body), (200, json!({"status": "pinned", "expires_at": null})));
    clock.forward(std::time::Duration::from_secs(100 * 24 * 3600));
    server.cleanup_once().await.unwrap();
    let (status, body) = call(&url, Method::GET, None).await;
    assert_eq!((status.as_u16(), &body["expires_at"]), (200, &Value::Null));
    assert_eq!(post(&url, json!({})).await.0, 200);
}

#[tokio::test]
async fn delete_gives_204_and_no_body() {
    let (_server, _, url) = institutions().await;
    let (status, body) = call(&url, Method::DELETE, None).await;
    assert_eq!((status.as_u16(), body), (204, Value::String(String::new())));
    assert_eq!(call(&url, Method::GET, None).await.0, 404);
    assert_eq!(call(&url, Method::DELETE, None).await.0, 404);
}

#[tokio::test]
async fn an_expired_resource_is_410() {
    let (_server, clock, url) = institutions().await;
    clock.forward(std::time::Duration::from_secs(900));
    for method in [Method::GET, Method::POST, Method::PUT] {
        let (status, body) = call(&url, method, None).await;
        assert_eq!(status, 410);
        assert_eq!((&body["error"], &body["code"]), (&json!("expired"), &json!("RESOURCE_EXPIRED")));
    }
    assert_eq!(call(&url, Method::DELETE, None).await.0, 204, "what has expired can still be removed");
}

#[tokio::test]
async fn rows_can_be_linked_to() {
    let (_server, _, url) = institutions().await;
    let rows = format!("{url}/rows?offset=10&limit=20&sort=-enrollment,name");
    let response = reqwest::get(&rows).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["cache-control"], "private, no-store");
    let link = response.headers()["link"].to_str().unwrap().to_owned();
    assert_eq!(link, format!("<{url}/rows?offset=30&limit=20&sort=-enrollment%2Cname>; rel=\"next\""));
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let sort = json!([{"field": "enrollment", "order": "desc"}, {"field": "name"}]);
    assert_eq!(body, post(&url, json!({"offset": 10, "limit": 20, "sort": sort})).await.1);
    let (status, body) = call(&format!("{url}/rows?limit=many"), Method::GET, None).await;
    assert_eq!((status.as_u16(), &body["code"]), (400, &json!("INVALID_PAGE")));
    let last = reqwest::get(format!("{url}/rows?offset=840")).await.unwrap();
    assert!(!last.headers().contains_key("link"));
}

#[tokio::test]
async fn a_large_body_is_refused() {
    let (_server, _, url) = institutions().await;
    let (status, body) = post(&url, json!({"sort": {"field": "x".repeat(70_000)}})).await;
    assert_eq!((status.as_u16(), &body["code"]), (413, &json!("LIMIT_EXCEEDED")));
}

#[tokio::test]
async fn a_page_of_large_rows_ends_early() {
    let (server, _) = served(|builder| builder.page_bytes_max(10_000)).await;
    let rows = (0..20).map(|id| object(json!({"id": id, "text": "x".repeat(3000)}))).collect();
    let new = NewResource::snapshot(NAME, [Column::number("id"), Column::string("text")], rows);
    let url = server.create_response(new).await.unwrap().resource_url.unwrap();
    let (mut offset, mut ids) = (0, Vec::new());
    loop {
        let (_, body) = post(&url, json!({"offset": offset, "limit": 10})).await;
        assert!(body.to_string().len() < 11_000);
        ids.extend(body["data"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()));
        match body["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failing_query_is_500_without_its_cause() {
    let (server, _) = served(|builder| builder).await;
    let fails = |_: PageRequest| async { Err::<Vec<Row>, _>("near \"SELECT secret\"") };
    let new = NewResource::live(NAME, columns(), fails, count).sample(vec![]);
    let url = server.create_response(new).await.unwrap().resource_url.unwrap();
    let (status, body) = post(&url, json!({})).await;
    assert_eq!((status.as_u16(), &body["code"]), (500, &json!("QUERY_EXECUTION_FAILED")));
    assert!(!body.to_string().contains("secret"));
}

#[tokio::test]
async fn an_execute_that_gives_too_many_rows_is_cut() {
    let (server, _) = served(|builder| builder).await;
    let ignores = |_: PageRequest| async { Ok::<_, String>(all_rows()) };
    let new = NewResource::live(NAME, columns(), ignores, count);
    let response = server.create_response(new).await.unwrap();
    assert_eq!(response.sample.len(), 15);
    let (_, body) = post(&response.resource_url.unwrap(), json!({"limit": 10})).await;
    assert_eq!((&body["returned_count"], &body["next_offset"]), (&json!(10), &json!(10)));
}
