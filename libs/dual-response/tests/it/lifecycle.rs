//! The life of a resource, and the events that end it.

use std::sync::Arc;
use std::time::Duration;

use mcp_dual_response::server::{
    MemoryStore, NewResource, PageRequest, Principal, ResourceStore, SqliteStore,
};
use mcp_dual_response::wire::PageQuery;

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn get_resource_gives_it_until_it_expires() {
    let (server, clock) = server();
    server.create_response(live()).await.unwrap();
    assert_eq!(server.get_resource("abc1").await.unwrap().unwrap().name, NAME);
    assert!(server.get_resource("nothing").await.unwrap().is_none());
    clock.forward(15 * MINUTE);
    assert!(server.get_resource("abc1").await.unwrap().is_none());
}

#[tokio::test]
async fn pin_resource_takes_the_end_away() {
    let (server, clock) = server();
    server.create_response(live()).await.unwrap();
    assert!(server.pin_resource("abc1").await.unwrap());
    clock.forward(1000 * MINUTE);
    assert_eq!(server.get_resource("abc1").await.unwrap().unwrap().expires_at, None);
    assert!(!server.pin_resource("nothing").await.unwrap());
}

#[tokio::test]
async fn delete_resource_removes_it() {
    let (server, _) = server();
    server.create_response(live()).await.unwrap();
    assert!(server.delete_resource("abc1").await.unwrap());
    assert!(!server.delete_resource("abc1").await.unwrap());
    assert!(server.get_resource("abc1").await.unwrap().is_none());
}

#[tokio::test]
async fn expired_is_an_error_of_its_own() {
    let (server, clock) = server();
    server.create_response(live()).await.unwrap();
    let access = server.access(Principal::anonymous());
    clock.forward(15 * MINUTE);
    assert_eq!(access.metadata("abc1").await.unwrap_err().code().as_str(), "RESOURCE_EXPIRED");
    assert_eq!(access.metadata("nothing").await.unwrap_err().code().as_str(), "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn expired_can_be_answered_as_not_found() {
    let clock = Clock::new();
    let server = builder(&clock).expired_as_not_found(true).build().unwrap();
    server.create_response(live()).await.unwrap();
    clock.forward(15 * MINUTE);
    let error = server.access(Principal::anonymous()).metadata("abc1").await.unwrap_err();
    assert_eq!(error.code().as_str(), "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn cleanup_removes_what_expired_and_keeps_the_rest() {
    let clock = Clock::new();
    let store = Arc::new(MemoryStore::new());
    let server = builder(&clock).shared_store(store.clone()).keep_expired(Duration::ZERO).build().unwrap();
    server.create_response(live()).await.unwrap();
    server.create_response(live().pinned()).await.unwrap();
    clock.forward(10 * MINUTE);
    server.create_response(live()).await.unwrap();
    clock.forward(5 * MINUTE);
    assert_eq!(server.cleanup_once().await.unwrap(), 1);
    assert!(store.get("abc1").await.unwrap().is_none());
    assert!(store.get("abc2").await.unwrap().is_some() && store.get("abc3").await.unwrap().is_some());
}

#[tokio::test]
async fn an_expired_resource_is_told_as_such_for_an_hour() {
    let (server, clock) = server();
    server.create_response(live()).await.unwrap();
    let access = server.access(Principal::anonymous());
    clock.forward(74 * MINUTE);
    assert_eq!(server.cleanup_once().await.unwrap(), 0);
    assert_eq!(access.metadata("abc1").await.unwrap_err().code().as_str(), "RESOURCE_EXPIRED");
    clock.forward(MINUTE);
    assert_eq!(server.cleanup_once().await.unwrap(), 1);
    assert_eq!(access.metadata("abc1").await.unwrap_err().code().as_str(), "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn a_full_store_makes_room_of_what_expired() {
    let clock = Clock::new();
    let server = builder(&clock).store(MemoryStore::with_limit(1)).build().unwrap();
    server.create_response(live()).await.unwrap();
    assert!(server.create_response(live()).await.is_err());
    clock.forward(15 * MINUTE);
    assert!(server.create_response(live()).await.is_ok());
}

#[tokio::test]
async fn cleanup_lets_go_of_closures_at_once() {
    let (server, clock) = server();
    let held = Arc::new(());
    let seen = Arc::downgrade(&held);
    let holds = move |page: PageRequest| {
        let _held = &held;
        execute(page)
    };
    server.create_response(NewResource::live(NAME, columns(), holds, count)).await.unwrap();
    server.cleanup_once().await.unwrap();
    assert!(seen.upgrade().is_some());
    clock.forward(15 * MINUTE);
    server.cleanup_once().await.unwrap();
    assert!(seen.upgrade().is_none());
}

#[tokio::test]
async fn cleanup_lets_go_of_rows_at_once() {
    let clock = Clock::new();
    let store = Arc::new(MemoryStore::new());
    let server = builder(&clock).shared_store(store.clone()).build().unwrap();
    server.create_response(NewResource::snapshot(NAME, columns(), all_rows())).await.unwrap();
    server.cleanup_once().await.unwrap();
    assert_eq!(store.rows("abc1", 0, 10).await.unwrap().len(), 10);
    clock.forward(15 * MINUTE);
    server.cleanup_once().await.unwrap();
    assert_eq!(store.rows("abc1", 0, 10).await.unwrap().len(), 0);
    assert!(store.get("abc1").await.unwrap().is_some(), "it is still known as expired");
}

#[tokio::test(start_paused = true)]
async fn cleanup_runs_every_interval_by_itself() {
    let clock = Clock::new();
    let store = Arc::new(MemoryStore::new());
    let server = builder(&clock)
        .shared_store(store.clone())
        .keep_expired(Duration::ZERO)
        .cleanup_interval(MINUTE)
        .build()
        .unwrap();
    server.create_response(live()).await.unwrap();
    clock.forward(15 * MINUTE);
    tokio::time::sleep(59 * MINUTE / 60).await;
    assert!(store.get("abc1").await.unwrap().is_some(), "not before the interval is over");
    tokio::time::sleep(MINUTE / 30).await;
    assert!(store.get("abc1").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_the_cleanup_and_closes_the_store() {
    let clock = Clock::new();
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(directory.path().join("rows.db")).unwrap());
    let server = builder(&clock)
        .shared_store(store.clone())
        .cleanup_interval(MINUTE)
        .executor(Institutions)
        .build()
        .unwrap();
    let args = InState { state: "NJ".into() };
    server.create_response(NewResource::query::<Institutions>(NAME, columns(), &args)).await.unwrap();
    server.shutdown().await.unwrap();
    assert!(store.get("abc1").await.is_err(), "a closed store answers nothing");
    let error = server.get_resource("abc1").await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE_ERROR");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_server_leaves_no_task() {
    let store = Arc::new(MemoryStore::new());
    let clock = Clock::new();
    let server = builder(&clock).shared_store(store.clone()).cleanup_interval(MINUTE).build().unwrap();
    server.create_response(live()).await.unwrap();
    drop(server);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(Arc::strong_count(&store), 1);
}

#[tokio::test]
async fn access_extends_life_only_when_asked_to() {
    let clock = Clock::new();
    let read = async |extend: Option<Duration>| {
        let server = builder(&clock).extend_on_access(extend).build().unwrap();
        let made = server.create_response(live()).await.unwrap();
        clock.forward(10 * MINUTE);
        server.access(Principal::anonymous()).page("abc1", &PageQuery::default()).await.unwrap();
        let kept = server.get_resource("abc1").await.unwrap().unwrap();
        assert_eq!((kept.access_count, kept.last_accessed_at), (1, Some(clock.now())));
        kept.expires_at.unwrap().duration_since(made.expires_at.unwrap()).as_mins()
    };
    assert_eq!(read(None).await, 0);
    assert_eq!(read(Some(15 * MINUTE)).await, 10);
    assert_eq!(read(Some(MINUTE)).await, 0, "a life is never shortened");
}
