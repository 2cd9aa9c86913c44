//! The state after a restart, which is simulated by a new server on the same file.

use std::path::Path;

use mcp_dual_response::Sort;
use mcp_dual_response::reqwest::{self, Method};
use mcp_dual_response::server::{
    Backing, DualResponseServer, NewResource, Principal, Resource, ResourceStore, ServerBuilder, SqliteStore,
};
use mcp_dual_response::wire::PageQuery;
use serde_json::{Value, json};

use crate::support::*;

fn start(file: &Path, clock: &Clock) -> ServerBuilder {
    builder(clock).store(SqliteStore::open(file).unwrap())
}

fn in_nj() -> NewResource {
    NewResource::query::<Institutions>(NAME, columns(), &InState { state: "NJ".into() })
}

async fn code(server: &DualResponseServer, id: &str) -> &'static str {
    let access = server.access(Principal::anonymous());
    access.page(id, &PageQuery::default()).await.unwrap_err().code().as_str()
}

#[tokio::test]
async fn an_executor_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.db");
    let clock = Clock::new();
    let before = start(&file, &clock).executor(Institutions).build().unwrap();
    let made = before.create_response(in_nj()).await.unwrap();
    let everybody = Principal::anonymous();
    let sort = Sort::descending("enrollment");
    let ask = |offset| PageQuery::new(offset, 100).sorted(sort.clone());
    let first = before.access(everybody.clone()).page("abc1", &ask(0)).await.unwrap();
    before.shutdown().await.unwrap();
    drop(before);

    let after = start(&file, &clock).executor(Institutions).build().unwrap();
    let second =
        after.access(everybody.clone()).page("abc1", &ask(first.next_offset.unwrap())).await.unwrap();
    assert_eq!((second.offset, second.returned_count, second.total_count), (100, 100, made.total_count));
    let kept = after.get_resource("abc1").await.unwrap().unwrap();
    assert_eq!((kept.sample_data, kept.access_count), (made.sample, 2));
    let ids = |rows: &[mcp_dual_response::Row]| rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    assert!(ids(&second.data).iter().all(|id| !ids(&first.data).contains(id)));
}

#[tokio::test]
async fn a_closure_is_gone_with_410() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.db");
    let clock = Clock::new();
    let before = start(&file, &clock).build().unwrap();
    before.create_response(live()).await.unwrap();
    before.shutdown().await.unwrap();

    let (after, _) = served(|builder| builder.store(SqliteStore::open(&file).unwrap())).await;
    for method in [Method::GET, Method::POST, Method::PUT] {
        let response =
            reqwest::Client::new().request(method, after.url_of("abc1").unwrap()).send().await.unwrap();
        assert_eq!(response.status(), 410);
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!((&body["error"], &body["code"]), (&json!("expired"), &json!("RESOURCE_EXPIRED")));
    }
    assert!(after.get_resource("abc1").await.unwrap().is_none());
}

#[tokio::test]
async fn a_snapshot_stays() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.db");
    let clock = Clock::new();
    let before = start(&file, &clock).build().unwrap();
    before.create_response(NewResource::snapshot(NAME, columns(), all_rows())).await.unwrap();
    before.create_response(live().materialize()).await.unwrap();
    before.shutdown().await.unwrap();

    let after = start(&file, &clock).build().unwrap();
    let access = after.access(Principal::anonymous());
    for id in ["abc1", "abc2"] {
        let page = access.page(id, &PageQuery::new(840, 100)).await.unwrap();
        assert_eq!((page.data.as_slice(), page.total_count), (&all_rows()[840..], TOTAL));
        let sorted = access.page(id, &PageQuery::new(0, 3).sorted(Sort::descending("id"))).await.unwrap();
        assert_eq!(sorted.data, [row(846), row(845), row(844)]);
    }
}

#[tokio::test]
async fn an_unknown_executor_is_503_and_keeps_the_resource() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.db");
    let clock = Clock::new();
    let before = start(&file, &clock).executor(Institutions).build().unwrap();
    before.create_response(in_nj()).await.unwrap();
    before.shutdown().await.unwrap();

    let (without, _) = served(|builder| builder.store(SqliteStore::open(&file).unwrap())).await;
    let response = reqwest::Client::new().post(without.url_of("abc1").unwrap()).send().await.unwrap();
    assert_eq!(response.status(), 503);
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!((&body["code"], &body["retryable"]), (&json!("EXECUTOR_MISSING"), &json!(true)));
    without.shutdown().await.unwrap();

    let with = start(&file, &clock).executor(Institutions).build().unwrap();
    assert!(with.access(Principal::anonymous()).page("abc1", &PageQuery::default()).await.is_ok());
}

#[tokio::test]
async fn creating_over_an_unknown_executor_fails() {
    let (server, _) = server();
    let error = server.create_response(in_nj()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "EXECUTOR_MISSING");
}

#[tokio::test]
async fn other_versions_are_migrated_or_expired() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.db");
    let clock = Clock::new();
    let store = SqliteStore::open(&file).unwrap();
    for (id, version, args) in [
        ("old", 1, json!({"region": "NJ"})),
        ("newer", 3, json!({"state": "NJ"})),
        ("unreadable", 2, json!({"province": "NJ"})),
    ] {
        let query = Backing::Query { executor: "institutions".into(), version, args };
        let mut resource = Resource::new(id, query, clock.now());
        resource.total_count = 283;
        store.save(&resource).await.unwrap();
    }
    let server = start(&file, &clock).executor(Institutions).build().unwrap();
    let page = server.access(Principal::anonymous()).page("old", &PageQuery::default()).await.unwrap();
    assert!(page.data.iter().all(|row| row["state"] == "NJ") && page.data.len() == 100);
    assert_eq!(code(&server, "newer").await, "RESOURCE_EXPIRED");
    assert_eq!(code(&server, "unreadable").await, "RESOURCE_EXPIRED");
}

#[tokio::test]
async fn a_closure_cannot_be_promised_to_last() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let server = start(&directory.path().join("rows.db"), &clock).build().unwrap();
    server.create_response(live()).await.unwrap();
    assert_eq!(server.pin_resource("abc1").await.unwrap_err().code().as_str(), "NOT_DURABLE");
    assert_eq!(server.create_response(live().pinned()).await.unwrap_err().code().as_str(), "NOT_DURABLE");
    server.create_response(live().materialize()).await.unwrap();
    assert!(server.pin_resource("abc3").await.unwrap());
}

#[tokio::test]
async fn a_snapshot_has_a_bound() {
    let clock = Clock::new();
    let server = builder(&clock).snapshot_bytes_max(10_000).build().unwrap();
    for new in [NewResource::snapshot(NAME, columns(), all_rows()), live().materialize()] {
        assert_eq!(server.create_response(new).await.unwrap_err().code().as_str(), "LIMIT_EXCEEDED");
    }
}
