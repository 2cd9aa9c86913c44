//! Every store keeps the same promises.

mod memory {
    use mcp_dual_response::server::MemoryStore;

    mcp_dual_response::store_tests!(async { MemoryStore::new() });
}

mod sqlite {
    use mcp_dual_response::rusqlite::Connection;
    use mcp_dual_response::server::{ResourceStore, SqliteStore};

    mcp_dual_response::store_tests!(async {
        SqliteStore::from_connection(Connection::open_in_memory().unwrap()).unwrap()
    });

    #[tokio::test]
    async fn two_stores_on_one_file_see_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rows.db");
        let (one, other) = (SqliteStore::open(&file).unwrap(), SqliteStore::open(&file).unwrap());
        let resource = mcp_dual_response::server::Resource::new(
            "abc",
            mcp_dual_response::server::Backing::Snapshot,
            mcp_dual_response::jiff::Timestamp::UNIX_EPOCH,
        );
        one.save(&resource).await.unwrap();
        assert_eq!(other.get("abc").await.unwrap(), Some(resource));
        assert!(one.is_durable());
    }
}

/// Runs where the variable names a database, such as `postgres://postgres@localhost/rows`; its tables are made there.
mod postgres {
    use mcp_dual_response::server::{PostgresStore, ResourceStore, store_tests};

    #[tokio::test]
    async fn keeps_every_promise() {
        let Ok(url) = std::env::var("DUAL_RESPONSE_POSTGRES_URL") else { return };
        let store = PostgresStore::connect(&url).await.unwrap();
        store_tests::saved_is_given_back(&store).await;
        store_tests::an_unknown_id_is_none(&store).await;
        store_tests::an_id_is_taken_once(&store).await;
        store_tests::accesses_add_up(&store).await;
        store_tests::an_end_can_be_moved_and_taken_away(&store).await;
        store_tests::deleted_is_gone_with_its_rows(&store).await;
        store_tests::expired_are_found_and_the_rest_is_not(&store).await;
        store_tests::expired_are_deleted_in_steps(&store).await;
        store_tests::rows_come_back_in_order(&store).await;
        store_tests::accesses_at_once_all_count(&store).await;
        store.close().await.unwrap();
        assert!(store.get("abc").await.is_err());
    }

    #[tokio::test]
    async fn servers_that_start_together_make_the_tables_once() {
        let Ok(url) = std::env::var("DUAL_RESPONSE_POSTGRES_URL") else { return };
        let all = (0..8).map(|_| PostgresStore::connect(&url));
        for store in futures_util::future::join_all(all).await {
            store.unwrap();
        }
    }
}
