//! Runs the contract tests on every store.

mod memory {
    use mcp_dual_response::server::MemoryStore;

    mcp_dual_response::store_tests!(async { MemoryStore::new() });
}

mod sqlite {
    use mcp_dual_response::rusqlite::Connection;
    use mcp_dual_response::server::{Backing, Resource, ResourceStore, SqliteStore};

    mcp_dual_response::store_tests!(async {
        SqliteStore::from_connection(Connection::open_in_memory().unwrap()).unwrap()
    });

    #[test]
    fn stores_that_open_a_new_file_together_all_open_it() {
        for _ in 0..10 {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("rows.db");
            std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(|| SqliteStore::open(&file))).collect();
                all.into_iter().for_each(|store| drop(store.join().unwrap().unwrap()));
            });
        }
    }

    #[tokio::test]
    async fn two_stores_on_one_file_see_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rows.db");
        let (one, other) = (SqliteStore::open(&file).unwrap(), SqliteStore::open(&file).unwrap());
        let resource = resource("abc");
        one.save(&resource).await.unwrap();
        assert_eq!(other.get("abc").await.unwrap(), Some(resource));
        assert!(one.is_durable());
    }

    fn resource(id: &str) -> Resource {
        Resource::new(id, Backing::Snapshot, mcp_dual_response::jiff::Timestamp::UNIX_EPOCH)
    }

    #[tokio::test]
    async fn a_store_that_writes_behind_does_not_wait_for_the_file_and_shows_what_it_was_given() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rows.db");
        let store = SqliteStore::open(&file).unwrap().write_behind();
        let other = Connection::open(&file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // While the file is locked, a save that waits for the file would fail.
        for number in 0..64 {
            store.save(&resource(&number.to_string())).await.unwrap();
        }
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(store.get("0").await.unwrap(), Some(resource("0")));
        assert_eq!(store.get("63").await.unwrap(), Some(resource("63")));
        store.save(&resource("last")).await.unwrap();
        store.close().await.unwrap();
        let again = SqliteStore::open(&file).unwrap();
        assert_eq!(again.get("last").await.unwrap(), Some(resource("last")));
    }
}

/// These tests run only if `POSTGRES_URL` names a database, such as `postgres://postgres@localhost/rows`;
/// they make tables in it.
mod postgres {
    use mcp_dual_response::server::{PostgresStore, ResourceStore};

    mcp_dual_response::store_tests!(if connected());

    async fn connected() -> Option<PostgresStore> {
        let url = std::env::var("POSTGRES_URL").ok()?;
        Some(PostgresStore::connect(&url).await.unwrap())
    }

    #[tokio::test]
    async fn a_closed_store_answers_nothing() {
        let Some(store) = connected().await else { return };
        assert!(store.is_durable());
        store.close().await.unwrap();
        assert!(store.get("abc").await.is_err());
    }

    #[tokio::test]
    async fn servers_that_start_together_make_the_tables_once() {
        futures_util::future::join_all((0..8).map(|_| connected())).await;
    }
}
