//! `create_response`: the queries that it runs, the data that it keeps, and its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_dual_response::server::{
    Backing, ContentStyle, DualResponseServer, MemoryStore, NewResource, PageRequest, Principal,
};
use mcp_dual_response::wire::PageQuery;
use mcp_dual_response::{Column, Row};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn a_response_has_every_property() {
    let (server, clock) = server();
    let response = server.create_response(live()).await.unwrap();
    assert_eq!(response.resource_id, "abc1");
    assert_eq!(response.resource_uri, "resource://abc1");
    assert_eq!(response.resource_url.as_deref(), Some("http://127.0.0.1:9/resources/abc1"));
    assert_eq!(response.sample, all_rows()[..15]);
    assert_eq!(response.total_count, 847);
    assert_eq!(response.columns, columns());
    assert_eq!(response.created_at, clock.now());
    let life = response.expires_at.unwrap().duration_since(response.created_at);
    assert_eq!(life.as_millis(), 900_000);
}

#[tokio::test]
async fn options_of_one_response_override_the_servers() {
    let (server, clock) = server();
    let new = live()
        .sample_size(20)
        .expiration(Duration::from_secs(30 * 60))
        .metadata(json!({"queryParams": {"state": "NJ"}}));
    let response = server.create_response(new).await.unwrap();
    assert_eq!(response.sample.len(), 20);
    assert_eq!(response.expires_at.unwrap().duration_since(clock.now()).as_secs(), 1800);
    let kept = server.get_resource(&response.resource_id).await.unwrap().unwrap();
    assert_eq!(kept.metadata, json!({"queryParams": {"state": "NJ"}}));
}

#[tokio::test]
async fn options_of_the_server_are_used() {
    let clock = Clock::new();
    let server = builder(&clock)
        .store(MemoryStore::new())
        .default_expiration(Duration::from_secs(60))
        .default_sample_size(3)
        .content_style(ContentStyle::Summary)
        .build()
        .unwrap();
    let response = server.create_response(live()).await.unwrap();
    assert_eq!(response.sample.len(), 3);
    assert_eq!(response.expires_at.unwrap().duration_since(clock.now()).as_secs(), 60);
    assert_eq!(
        response.to_mcp_content()[0]["text"],
        "Found 847 results. Sample data and full dataset link included."
    );
}

#[tokio::test]
async fn a_kept_resource_has_every_field() {
    let (server, clock) = server();
    let response = server.create_response(live().owner(Principal::anonymous())).await.unwrap();
    let kept = server.get_resource("abc1").await.unwrap().unwrap();
    let fields = serde_json::to_value(&kept).unwrap();
    let names: Vec<&str> = [
        "id",
        "name",
        "query",
        "columns",
        "total_count",
        "sample_data",
        "created_at",
        "expires_at",
        "access_count",
        "last_accessed_at",
        "metadata",
    ]
    .into();
    for name in names {
        assert!(fields.get(name).is_some(), "{name}");
    }
    assert_eq!((kept.id.as_str(), kept.name.as_str()), ("abc1", NAME));
    assert_eq!(kept.query, Backing::Live);
    assert_eq!((kept.columns, kept.total_count), (columns(), TOTAL));
    assert_eq!(kept.sample_data, response.sample);
    assert_eq!((kept.created_at, kept.expires_at), (clock.now(), response.expires_at));
    assert_eq!((kept.access_count, kept.last_accessed_at), (0, None));
}

#[tokio::test]
async fn a_failing_query_has_its_code_and_hides_its_cause() {
    let (server, _) = server();
    let fails = |_: PageRequest| async { Err::<Vec<Row>, _>("syntax error near SELECT secret") };
    let new = NewResource::live(NAME, columns(), fails, count);
    let error = server.create_response(new).await.unwrap_err();
    assert_eq!(error.code().as_str(), "QUERY_EXECUTION_FAILED");
    assert!(!error.to_string().contains("SELECT"));
    assert!(
        std::error::Error::source(&error).unwrap().to_string().contains("SELECT"),
        "the log still gets it"
    );
}

#[tokio::test]
async fn a_failing_count_has_its_code() {
    let (server, _) = server();
    let new = NewResource::live(NAME, columns(), execute, || async { Err::<u64, _>("no such table") });
    let error = server.create_response(new).await.unwrap_err();
    assert_eq!(error.code().as_str(), "COUNT_EXECUTION_FAILED");
}

#[tokio::test]
async fn a_failing_store_has_its_code() {
    let clock = Clock::new();
    let server = builder(&clock).store(MemoryStore::with_limit(1)).build().unwrap();
    server.create_response(live()).await.unwrap();
    let error = server.create_response(live()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE_ERROR");
}

#[tokio::test]
async fn execute_and_count_run_at_once() {
    let (server, _) = server();
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let (of_execute, of_count) = (barrier.clone(), barrier);
    // Each closure waits for the other, so the test would never end if they ran one after the other.
    let new = NewResource::live(
        NAME,
        columns(),
        move |page| {
            let barrier = of_execute.clone();
            async move {
                barrier.wait().await;
                execute(page).await
            }
        },
        move || {
            let barrier = of_count.clone();
            async move {
                barrier.wait().await;
                count().await
            }
        },
    );
    let made = tokio::time::timeout(Duration::from_secs(10), server.create_response(new));
    assert_eq!(made.await.unwrap().unwrap().total_count, TOTAL);
}

#[tokio::test]
async fn what_is_known_is_not_asked_again() {
    let (server, _) = server();
    let asked = Arc::new(AtomicBool::new(false));
    let note = asked.clone();
    let spy = move |page: PageRequest| {
        note.store(true, Ordering::SeqCst);
        execute(page)
    };
    let new =
        NewResource::live(NAME, columns(), spy, count).sample(all_rows()[..5].to_vec()).total_count(TOTAL);
    let response = server.create_response(new).await.unwrap();
    assert_eq!((response.sample.len(), response.total_count), (5, TOTAL));
    assert!(!asked.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_sample_of_large_rows_is_cut_and_says_so() {
    let (server, _) = server();
    let rows = (0..15).map(|id| object(json!({"id": id, "text": "x".repeat(2000)}))).collect();
    let columns = [Column::number("id"), Column::string("text")];
    let response = server.create_response(NewResource::snapshot(NAME, columns, rows)).await.unwrap();
    assert!(response.truncated && response.sample.len() < 15);
    let content = response.to_structured_content();
    assert!(content["results"].to_string().len() <= 8 << 10);
    assert_eq!(content["metadata"]["truncated"], true);
    assert_eq!(content["metadata"]["sample_count"], response.sample.len());
    assert_eq!(content["metadata"]["total_count"], 15);
}

#[tokio::test]
async fn the_sample_costs_a_fraction_of_the_whole() {
    let (server, _) = server();
    let response = server.create_response(live()).await.unwrap();
    let whole = serde_json::to_string(&all_rows()).unwrap().len();
    let text = response.to_mcp_content()[0]["text"].as_str().unwrap().len();
    assert!(whole / text >= 20, "{whole} / {text}");
}

#[tokio::test]
async fn custom_schemes_name_the_same_resource() {
    let clock = Clock::new();
    let server = builder(&clock).uri_scheme("knowledge").uri_path("query").build().unwrap();
    let response = server.create_response(live()).await.unwrap();
    assert_eq!(response.resource_uri, "knowledge://query/abc1");
    let link = &response.to_mcp_content()[1];
    assert_eq!(link["uri"], "knowledge://query/abc1");
    let parsed = client().parse(&response.to_mcp_tool_result()).unwrap();
    assert_eq!(parsed.resource_url.unwrap().as_str(), "http://127.0.0.1:9/resources/abc1");
}

#[tokio::test]
async fn without_rest_no_address_is_named() {
    let server = DualResponseServer::without_rest().cleanup_interval(None).build().unwrap();
    let response = server.create_response(live()).await.unwrap();
    let result = response.to_mcp_tool_result();
    assert!(!result.to_string().contains("http"), "{result}");
    let parsed = client().parse(&result).unwrap();
    assert_eq!((parsed.resource_url, parsed.total_count), (None, TOTAL));
    let page =
        server.access(Principal::anonymous()).page(&response.resource_id, &PageQuery::new(840, 10)).await;
    assert_eq!(page.unwrap().data, all_rows()[840..]);
}

#[tokio::test]
async fn no_rows_are_a_response_too() {
    let (server, _) = server();
    let response = server.create_response(NewResource::snapshot(NAME, columns(), vec![])).await.unwrap();
    assert_eq!((response.total_count, response.sample.len()), (0, 0));
    assert!(response.to_mcp_content()[0]["text"].as_str().unwrap().starts_with("Found 0 results."));
    assert_eq!(response.to_structured_content()["results"], Value::Array(vec![]));
}
