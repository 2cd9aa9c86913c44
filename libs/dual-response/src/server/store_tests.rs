//! The contract of stores, as tests for any store.
//!
//! A store of your own is tested with one line, which gets an async function that makes an empty store:
//!
//! ```
//! # use mcp_dual_response::server::MemoryStore;
//! mcp_dual_response::store_tests!(async { MemoryStore::new() });
//! # fn main() {}
//! ```
//!
//! Each rule is a function that panics if the store breaks it. The functions use ids of their own, so several
//! stores over one shared database can be tested at the same time.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Backing, Principal, Resource, ResourcePatch, ResourceStore, StoreError};
use crate::wire::{Column, Row};

/// Makes a test of each rule, on stores that the given future returns. It needs `tokio` with macros. With
/// `if` before it, the future returns an option; with `None`, for example without a database, the test does
/// nothing.
#[macro_export]
macro_rules! store_tests {
    (if $make:expr) => {
        $crate::store_tests!(@each $make;
            saved_is_given_back,
            an_unknown_id_is_none,
            an_id_is_taken_once,
            accesses_add_up,
            an_end_can_be_moved_and_taken_away,
            deleted_is_gone_with_its_rows,
            expired_are_found_and_the_rest_is_not,
            expired_are_deleted_in_steps,
            released_rows_are_gone_and_their_resource_is_not,
            rows_come_back_in_order,
            accesses_at_once_all_count,
        );
    };
    (@each $make:expr; $($name:ident),+ $(,)?) => {
        $(
            #[::tokio::test]
            async fn $name() {
                let Some(store) = $make.await else { return };
                $crate::server::store_tests::$name(&store).await;
            }
        )+
    };
    ($make:expr) => {
        $crate::store_tests!(if async { Some($make.await) });
    };
}

/// `get` returns what `save` was given, field by field.
pub async fn saved_is_given_back(store: &dyn ResourceStore) {
    let saved = resource(Backing::Query {
        executor: "institutions".into(),
        version: 3,
        args: json!({"state": "NJ", "nested": [1, 2.5, null, "é\u{0}\n"]}),
    });
    save(store, &saved).await;
    assert_eq!(get(store, &saved.id).await, Some(saved.clone()));
    for backing in [Backing::Live, Backing::Snapshot] {
        let mut other = resource(backing);
        other.expires_at = None;
        other.owner = Principal::anonymous();
        save(store, &other).await;
        assert_eq!(get(store, &other.id).await, Some(other));
    }
}

/// A resource that was never saved does not exist and can't be changed.
pub async fn an_unknown_id_is_none(store: &dyn ResourceStore) {
    let id = new_id();
    assert_eq!(get(store, &id).await, None);
    assert!(!update(store, &id, &ResourcePatch::pin()).await);
    assert!(!store.delete(&id).await.expect("delete answers"));
}

/// A second resource with the same id is refused, and the first one stays.
pub async fn an_id_is_taken_once(store: &dyn ResourceStore) {
    let first = resource(Backing::Live);
    save(store, &first).await;
    let second = Resource { name: "another".into(), ..first.clone() };
    assert!(matches!(store.save(&second).await, Err(StoreError::Taken { .. })));
    assert_eq!(get(store, &first.id).await, Some(first));
}

/// Each access adds one to the count and sets its time; the expiry stays.
pub async fn accesses_add_up(store: &dyn ResourceStore) {
    let saved = resource(Backing::Live);
    save(store, &saved).await;
    for minute in 1..=3 {
        assert!(update(store, &saved.id, &ResourcePatch::access(at(minute))).await);
    }
    let read = get(store, &saved.id).await.expect("it is there");
    assert_eq!((read.access_count, read.last_accessed_at), (3, Some(at(3))));
    assert_eq!(read.expires_at, saved.expires_at);
}

/// A patch sets an expiry or removes it; the count of accesses stays.
pub async fn an_end_can_be_moved_and_taken_away(store: &dyn ResourceStore) {
    let saved = resource(Backing::Live);
    save(store, &saved).await;
    assert!(update(store, &saved.id, &ResourcePatch::access(at(1)).expiring(at(90))).await);
    let read = get(store, &saved.id).await.expect("it is there");
    assert_eq!((read.expires_at, read.access_count), (Some(at(90)), 1));
    assert!(update(store, &saved.id, &ResourcePatch::pin()).await);
    let read = get(store, &saved.id).await.expect("it is there");
    assert_eq!((read.expires_at, read.access_count, read.last_accessed_at), (None, 1, Some(at(1))));
}

/// `delete` also removes the rows, and tells whether the resource existed.
pub async fn deleted_is_gone_with_its_rows(store: &dyn ResourceStore) {
    let saved = resource(Backing::Snapshot);
    save(store, &saved).await;
    store.save_rows(&saved.id, 0, &rows(0..5)).await.expect("rows are taken");
    assert!(store.delete(&saved.id).await.expect("delete answers"));
    assert!(!store.delete(&saved.id).await.expect("delete answers"));
    assert_eq!(get(store, &saved.id).await, None);
    assert_eq!(store.rows(&saved.id, 0, 10).await.expect("rows answers"), Vec::<Row>::new());
}

/// `find_expired` returns resources that have expired by then, including those that expire at that moment,
/// but no pinned ones.
pub async fn expired_are_found_and_the_rest_is_not(store: &dyn ResourceStore) {
    let ending = |minute| Resource { expires_at: Some(at(minute)), ..resource(Backing::Live) };
    let (past, now, future) = (ending(-2), ending(0), ending(2));
    let pinned = Resource { expires_at: None, ..resource(Backing::Live) };
    for resource in [&past, &now, &future, &pinned] {
        save(store, resource).await;
    }
    let found = store.find_expired(at(0), usize::MAX).await.expect("find_expired answers");
    assert!(found.contains(&past.id) && found.contains(&now.id));
    assert!(!found.contains(&future.id) && !found.contains(&pinned.id));
    let one = store.find_expired(at(0), 1).await.expect("find_expired answers");
    assert_eq!(one.len(), 1, "the limit holds");
    assert!(get(store, &past.id).await.is_some(), "finding does not delete");
}

/// `delete_expired` removes at most `limit` resources, and only expired ones.
pub async fn expired_are_deleted_in_steps(store: &dyn ResourceStore) {
    let ended: Vec<_> =
        (0..3).map(|_| Resource { expires_at: Some(at(-500)), ..resource(Backing::Live) }).collect();
    let alive = resource(Backing::Live);
    for resource in ended.iter().chain([&alive]) {
        save(store, resource).await;
    }
    assert!(store.delete_expired(at(-400), 2).await.expect("delete_expired answers") <= 2);
    while store.delete_expired(at(-400), 2).await.expect("delete_expired answers") > 0 {}
    for resource in &ended {
        assert_eq!(get(store, &resource.id).await, None);
    }
    assert_eq!(get(store, &alive.id).await, Some(alive));
}

/// `release_expired` frees the rows of expired resources, and no others.
pub async fn released_rows_are_gone_and_their_resource_is_not(store: &dyn ResourceStore) {
    let ended = Resource { expires_at: Some(at(-300)), ..resource(Backing::Snapshot) };
    let alive = resource(Backing::Snapshot);
    for resource in [&ended, &alive] {
        save(store, resource).await;
        store.save_rows(&resource.id, 0, &rows(0..5)).await.expect("rows are taken");
    }
    store.release_expired(at(-300)).await.expect("release_expired answers");
    assert_eq!(store.rows(&ended.id, 0, 10).await.expect("rows answers"), rows(0..0));
    assert_eq!(get(store, &ended.id).await, Some(ended));
    assert_eq!(store.rows(&alive.id, 0, 10).await.expect("rows answers"), rows(0..5));
}

/// Rows that are saved in parts are read as one list, with any offset and limit.
pub async fn rows_come_back_in_order(store: &dyn ResourceStore) {
    let saved = resource(Backing::Snapshot);
    save(store, &saved).await;
    store.save_rows(&saved.id, 0, &rows(0..10)).await.expect("rows are taken");
    store.save_rows(&saved.id, 10, &rows(10..15)).await.expect("rows are taken");
    let read = async |offset, limit| store.rows(&saved.id, offset, limit).await.expect("rows answers");
    assert_eq!(read(0, 100).await, rows(0..15));
    assert_eq!(read(8, 4).await, rows(8..12));
    assert_eq!(read(14, u64::MAX).await, rows(14..15));
    assert_eq!(read(15, 4).await, rows(0..0));
}

/// Accesses that arrive at the same time are all counted.
pub async fn accesses_at_once_all_count(store: &dyn ResourceStore) {
    let saved = resource(Backing::Live);
    save(store, &saved).await;
    let access = ResourcePatch::access(at(1));
    let all = (0..20).map(|_| update(store, &saved.id, &access));
    assert!(futures_util::future::join_all(all).await.into_iter().all(|changed| changed));
    assert_eq!(get(store, &saved.id).await.expect("it is there").access_count, 20);
}

async fn save(store: &dyn ResourceStore, resource: &Resource) {
    store.save(resource).await.expect("save takes a new resource");
}

async fn get(store: &dyn ResourceStore, id: &str) -> Option<Resource> {
    store.get(id).await.expect("get answers")
}

async fn update(store: &dyn ResourceStore, id: &str, patch: &ResourcePatch) -> bool {
    store.update(id, patch).await.expect("update answers")
}

fn resource(query: Backing) -> Resource {
    Resource {
        name: "Institution Search Results".into(),
        columns: vec![Column::number("id").as_key(), Column::string("name").unsortable()],
        total_count: 847,
        sample_data: rows(0..2),
        expires_at: Some(at(15)),
        metadata: json!({"queryParams": {"state": "NJ"}}),
        owner: Principal::subject("ada").of_tenant("acme"),
        ..Resource::new(new_id(), query, at(0))
    }
}

fn rows(numbers: std::ops::Range<u64>) -> Vec<Row> {
    let row =
        |n| Row::from_iter([("id".to_owned(), json!(n)), ("name".to_owned(), json!(format!("name {n}")))]);
    numbers.map(row).collect()
}

/// The time `minute` minutes after a fixed one.
fn at(minute: i64) -> Timestamp {
    let start = Timestamp::from_second(1_736_937_000).expect("2025 is a time");
    start.checked_add(SignedDuration::from_mins(minute)).expect("minutes later is a time")
}

fn new_id() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
