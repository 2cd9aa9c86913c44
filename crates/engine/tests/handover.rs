//! A new server on a database begins with the segments that another one has left there. Runs where `KENNING_TEST_DATABASE` names a
//! database: `scripts/with-postgres scripts/test-database`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kenning_engine::{By, Engine, Error, INDEX_DIR, Question};
use kenning_model::{Id, ScopeId};
use kenning_storage::{DatabaseUrl, Location, NewEntry, Request, Write};
use kenning_testkit::{TempStore, test_database};

/// A log of so many transactions is indexed by writing segments, and its segments are left.
const MANY: usize = 2_300;
/// Only the entries from this one on have the word that is asked for.
const LATE: usize = 2_290;
const LONG: Duration = Duration::from_secs(60);

struct Fixture {
    url: DatabaseUrl,
    text: String,
    // The data directories of the servers are removed with the test.
    _name: TempStore,
}

impl Fixture {
    fn new() -> Option<Fixture> {
        let name = TempStore::new();
        let Some(url) = test_database(name.path()) else {
            eprintln!(
                "not asked for: KENNING_TEST_DATABASE is not set; run scripts/with-postgres scripts/test-database"
            );
            return None;
        };
        let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
        Some(Fixture { url, text, _name: name })
    }

    /// A server with a directory of its own.
    fn server(&self, dir: &TempStore) -> Engine {
        let location = Location::Database(self.url.clone());
        Engine::open(location, dir.path().to_owned(), Engine::real_sources())
    }

    /// Runs statements on the rows of the store, and gives the numbers that the last one finds.
    fn sql(&self, sql: &str) -> Vec<i64> {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.text, tokio_postgres::NoTls).await.expect("a connection");
            tokio::spawn(connection);
            let name = self.url.store();
            client
                .batch_execute(&format!("SET kenning.store_name = '{name}'"))
                .await
                .expect("the name is set");
            let number: i32 =
                client.query_one("SELECT store FROM kenning.store", &[]).await.expect("a row").get(0);
            client.batch_execute(&format!("SET kenning.store = '{number}'")).await.expect("the store is set");
            let rows = client.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            rows.iter().map(|row| row.get(0)).collect()
        })
    }

    /// How far the segments go that were left.
    fn left_at(&self) -> i64 {
        self.sql("SELECT at FROM kenning.file_set WHERE name LIKE 'entry %'").pop().unwrap_or(0)
    }

    /// A store whose segments were left by a server that has ended.
    fn filled(&self) {
        let dir = TempStore::new();
        let first = Arc::new(self.server(&dir));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let first = first.clone();
                scope.spawn(move || {
                    for number in (0..LATE).filter(|number| number % 4 == writer) {
                        store(&first, &format!("The canary release number {number} went out."));
                    }
                });
            }
        });
        for number in LATE..MANY {
            store(&first, &format!("The zeppelin number {number} landed."));
        }
        let since = Instant::now();
        while self.left_at() == 0 {
            assert_eq!(found(&first), Some(MANY - LATE));
            assert!(since.elapsed() < LONG, "segments are left");
            std::thread::sleep(Duration::from_millis(50));
        }
        first.close();
    }
}

fn store(engine: &Engine, content: &str) -> Id {
    let write = Write::Store(NewEntry::new(ScopeId(1), "log".to_owned(), content.to_owned()));
    let principal = kenning_testkit::owner().into();
    let done = engine.commit(Request { principal, tool: "store".into(), write, keyed: None });
    done.expect("a write").tx.changes[0].id
}

/// How many entries have the word; none if only the newest records were looked through.
fn found(engine: &Engine) -> Option<usize> {
    search(engine).expect("an answer")
}

fn search(engine: &Engine) -> Result<Option<usize>, Error> {
    let snapshot = engine.snapshot(&kenning_testkit::owner())?;
    let sight = snapshot.sight_of(vec![ScopeId(1)]);
    let question = Question {
        sight: &sight,
        topic: None,
        content: Some("zeppelin"),
        tags: &[],
        visible_at: None,
        by: By::Words,
        known_words_only: false,
        explain: false,
    };
    let found = snapshot.search(&question, 0..50)?;
    Ok((!found.is_degraded).then_some(found.hits.len()))
}

#[test]
fn a_new_server_does_not_read_what_the_segments_of_another_cover() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.filled();
    let left_at = fixture.left_at();
    assert!(left_at as usize >= LATE / 2, "segments up to {left_at} were left");
    // Reading the early part of the log fails.
    fixture.sql("UPDATE kenning.log SET crc = crc + 1 WHERE tx_id < 1000 AND seq = 1");
    let dir = TempStore::new();
    let second = fixture.server(&dir);
    assert_eq!(found(&second), Some(MANY - LATE));
    assert!(dir.path().join(INDEX_DIR).join("entries").join("manifest").is_file());
    // It follows the log as always.
    store(&second, "The zeppelin landed once more.");
    assert_eq!(found(&second), Some(MANY - LATE + 1));
    second.close();

    // Without the files it would have read that part.
    fixture.sql("DELETE FROM kenning.file_set");
    let third = fixture.server(&TempStore::new());
    assert!(search(&third).is_err());
    fixture.sql("UPDATE kenning.log SET crc = crc - 1 WHERE tx_id < 1000 AND seq = 1");
    assert_eq!(found(&third), Some(MANY - LATE + 1));
}

#[test]
fn segments_that_were_damaged_or_are_of_another_log_are_not_used() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.filled();
    let harms = [
        // A flipped bit in the middle of a part; a part that is shorter; one that is missing; a manifest of another store, of another
        // format, and with a name that leads elsewhere.
        "UPDATE kenning.file_part SET bytes = set_byte(bytes, 5000, get_byte(bytes, 5000) # 4) WHERE file LIKE '%words' AND part = 0",
        "UPDATE kenning.file_part SET bytes = substring(bytes FROM 2) WHERE part = 0",
        "DELETE FROM kenning.file_part WHERE part = 0",
        "UPDATE kenning.file_set SET manifest = regexp_replace(manifest, '[0-9a-f]{32}', repeat('0', 32))",
        "UPDATE kenning.file_set SET manifest = '1' || manifest",
        "UPDATE kenning.file_set SET manifest = regexp_replace(manifest, '\\n[0-9a-f]{16}', E'\\n../../somewhere/x')",
    ];
    for harm in harms {
        fixture.sql(&format!("WITH harmed AS ({harm} RETURNING 1) SELECT count(*) FROM harmed"));
        let dir = TempStore::new();
        let server = fixture.server(&dir);
        assert_eq!(found(&server), Some(MANY - LATE), "after {harm}");
        // A sound set takes the place of the one that is of no use.
        let since = Instant::now();
        while fixture.left_at() == 0 {
            assert!(since.elapsed() < LONG, "another set is left after {harm}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server.close();
    }
}

#[test]
fn a_question_that_is_waited_for_is_answered_while_the_index_is_made() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.filled();
    fixture.sql("DELETE FROM kenning.file_set");
    let server = fixture.server(&TempStore::new());
    server.prepare().expect("the store opens");
    let since = Instant::now();
    let first = found(&server.until(Instant::now() + LONG));
    assert!(since.elapsed() < Duration::from_secs(3), "the first answer took {:?}", since.elapsed());
    assert!(first.is_none_or(|found| found == MANY - LATE));
    while found(&server.until(Instant::now() + LONG)) != Some(MANY - LATE) {
        assert!(since.elapsed() < LONG, "the index is made in the background");
    }
    assert!(!server.is_preparing());
}
