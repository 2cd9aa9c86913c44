//! The backend on PostgreSQL: the promises of every backend, and those that only a remote database has to
//! keep. These tests run only if `KENNING_TEST_DATABASE` names a database: `scripts/with-postgres
//! scripts/test-database`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kenning_model::{Principal, ScopeId, TxId};
use kenning_storage::{
    Author, Backend, DatabaseUrl, Error, FileSet, LeftFile, NewEntry, Postgres, PurgeSelection, Request,
    Storage, Write,
};
use kenning_testkit::backend::PROMISES;

/// The test database; `None`, with a message, if none was given.
pub(crate) fn database() -> Option<DatabaseUrl> {
    let Ok(url) = std::env::var("KENNING_TEST_DATABASE") else {
        eprintln!(
            "not asked for: KENNING_TEST_DATABASE is not set; run scripts/with-postgres scripts/test-database"
        );
        return None;
    };
    Some(DatabaseUrl::parse(&url).expect("a good URL"))
}

/// A store that no other test uses.
pub(crate) fn new_store(url: &DatabaseUrl) -> DatabaseUrl {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = format!("store-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    url.clone().with_store(&name).expect("a good name")
}

pub(crate) fn request(topic: &str) -> Request {
    Request {
        principal: Principal::owner("tester", "here").into(),
        tool: "test".to_owned(),
        write: Write::Store(NewEntry::new(ScopeId(1), topic.to_owned(), "content".to_owned())),
        keyed: None,
    }
}

#[test]
fn the_database_keeps_every_promise() {
    let Some(url) = database() else { return };
    let mut broken = Vec::new();
    for (name, promise) in PROMISES {
        let backend = Postgres::open(&new_store(&url)).expect("a fresh store opens");
        if catch_unwind(AssertUnwindSafe(|| promise(&backend))).is_err() {
            broken.push(name);
        }
        assert!(backend.connections() <= 16, "`{name}` has {} connections", backend.connections());
    }
    assert!(broken.is_empty(), "broken promises: {broken:?}");
}

#[test]
fn a_database_store_that_several_open_at_once_is_created_once() {
    const OPENERS: usize = 6;
    let Some(url) = database() else { return };
    for _ in 0..5 {
        let (url, start) = (new_store(&url), Barrier::new(OPENERS));
        let infos: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                start.wait();
                Postgres::open(&url).and_then(|backend| backend.info())
            };
            let openers: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
            openers.into_iter().map(|opener| opener.join().expect("an opener ends")).collect()
        });
        let first = infos[0].as_ref().expect("the first opener gets a store");
        assert!(infos.iter().all(|info| info.as_ref().is_ok_and(|info| info == first)));
    }
}

#[test]
fn a_database_store_that_is_not_there_is_made_only_by_who_may_write() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    assert!(!Postgres::is_there(&url).expect("the database answers"));
    let refused = Postgres::open_existing(&url).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|error| error.contains("there is no store")));
    Postgres::open(&url).expect("it is made");
    assert!(Postgres::is_there(&url).expect("the database answers"));
    Postgres::open_existing(&url).expect("it is there");
}

#[test]
fn database_stores_have_their_own_numbers_and_never_wait_for_each_other() {
    let Some(url) = database() else { return };
    let [one, other] = [(); 2].map(|()| Postgres::open(&new_store(&url)).expect("a fresh store"));
    assert_ne!(one.info().expect("an id"), other.info().expect("an id"));
    let _writing = one.begin().expect("a write begins");
    let since = Instant::now();
    let other = Storage::on(Box::new(other), kenning_testkit::fixed_sources());
    for number in 1..=3 {
        let committed = other.commit(request("elsewhere")).expect("the other store is free");
        assert_eq!(committed.tx.id, TxId(number));
    }
    assert!(since.elapsed() < Duration::from_secs(3), "nobody was waited for");
}

/// Two engines on one store stand for two servers: a write that one has acknowledged is in the next read of
/// the other.
#[test]
fn a_database_store_shows_an_acknowledged_write_to_every_server() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let open = || {
        let backend = Postgres::open(&url).expect("the store opens");
        Storage::on(Box::new(backend), random_sources())
    };
    let servers = [open(), open(), open()];
    for round in 0..30_u64 {
        let writer = &servers[round as usize % 3];
        let written = writer.commit(request("seen")).expect("a write");
        assert_eq!(written.tx.id, TxId(round + 1));
        for server in &servers {
            assert_eq!(server.reader().and_then(|reader| reader.head()).expect("a head"), written.tx.id);
        }
    }
}

/// Files that are left come back as they were, one server at a time leaves them, and what no set names any more goes.
#[test]
fn files_that_are_left_in_the_database_are_whole_or_not_there() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let [one, other] = [(); 2].map(|()| Postgres::open(&url).expect("the store opens"));
    // The parts are of 256 KiB: nothing, less than one, exactly two, and some more.
    let content = |name: &str| -> Vec<u8> {
        let bytes = match name {
            "empty" => 0,
            "short" => 1_000,
            "exact" => 512 * 1024,
            _ => 1_500_000,
        };
        (0..bytes as u32).map(|at| ((at * 31) >> 3) as u8 ^ name.len() as u8).collect()
    };
    let set = |at: u64, names: &[&str]| {
        let file = |name: &&str| LeftFile { name: (*name).to_owned(), bytes: content(name).len() as u64 };
        FileSet {
            name: "kind".to_owned(),
            at: TxId(at),
            manifest: format!("of {at}"),
            files: names.iter().map(file).collect(),
        }
    };
    let reads = AtomicU64::new(0);
    let read = |file: &LeftFile, range: std::ops::Range<u64>| {
        reads.fetch_add(1, Ordering::Relaxed);
        Some(content(&file.name)[range.start as usize..range.end as usize].to_vec())
    };
    let read_back = |backend: &Postgres, set: &FileSet, file: &LeftFile| {
        let mut bytes = Vec::new();
        let mut take = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        let is_there = backend.read_left_file(set, file, &mut take).expect("the database answers");
        is_there.then_some(bytes)
    };
    let first = set(3, &["empty", "short", "exact", "longer"]);
    assert_eq!(one.left_files("kind").expect("an answer"), None);
    assert!(one.leave_files(&first, &read).expect("it is left"));
    assert_eq!(other.left_files("kind").expect("an answer"), Some(first.clone()));
    for file in &first.files {
        assert_eq!(read_back(&other, &first, file), Some(content(&file.name)), "{}", file.name);
    }
    // Not at once again.
    let second = set(9, &["longer", "newest"]);
    assert!(!other.leave_files(&second, &read).expect("an answer"));
    let age = "UPDATE kenning.file_set SET left_at = left_at - interval '1 minute'";
    harm(&url, age);
    // Whoever gives up leaves the older set and no claim.
    assert!(!other.leave_files(&second, &|_, _| None).expect("an answer"));
    assert_eq!(other.left_files("kind").expect("an answer"), Some(first.clone()));
    // While one leaves files, nobody else does.
    let before = reads.load(Ordering::Relaxed);
    let alone = |file: &LeftFile, range: std::ops::Range<u64>| {
        assert!(!one.leave_files(&set(8, &["short"]), &read).expect("an answer"));
        read(file, range)
    };
    assert!(other.leave_files(&second, &alone).expect("it is left"));
    assert_eq!(reads.load(Ordering::Relaxed) - before, 6, "a file that is there is not sent again");
    assert_eq!(one.left_files("kind").expect("an answer"), Some(second.clone()));
    assert_eq!(read_back(&one, &first, &first.files[2]), None, "what no set names is gone");
    assert_eq!(read_back(&one, &second, &second.files[0]), Some(content("longer")));
    one.forget_left_files(&first).expect("an answer");
    assert_eq!(one.left_files("kind").expect("an answer"), Some(second.clone()));
    one.forget_left_files(&second).expect("it is forgotten");
    assert_eq!(one.left_files("kind").expect("an answer"), None);
}

/// Runs statements on the rows of a store.
fn harm(url: &DatabaseUrl, sql: &str) {
    let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(&text, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let name = url.store();
        client.batch_execute(&format!("SET kenning.store_name = '{name}'")).await.expect("set");
        let number: i32 =
            client.query_one("SELECT store FROM kenning.store", &[]).await.expect("a row").get(0);
        client.batch_execute(&format!("SET kenning.store = '{number}'; {sql}")).await.expect("harm is done");
    });
}

/// Random ids, because two servers with the fixed sources would draw the same ids.
pub(crate) fn random_sources() -> kenning_storage::Sources {
    kenning_storage::Sources {
        now: std::sync::Arc::new(jiff::Timestamp::now),
        id: std::sync::Arc::new(|| kenning_model::Id::from_bits(rand::random())),
    }
}

/// The second line of defence: even a statement without a store in its condition finds only the rows of its
/// own store.
#[test]
fn the_database_shows_no_row_of_another_store_to_a_statement_that_names_none() {
    let Some(url) = database() else { return };
    let url_text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let [one, other] = [(); 2].map(|()| new_store(&url));
    for url in [&one, &other] {
        let backend = Postgres::open(url).expect("a fresh store");
        Storage::on(Box::new(backend), kenning_testkit::fixed_sources())
            .commit(request("secret"))
            .expect("a write");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(&url_text, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let tables = ["log", "version", "touched", "closure", "undo", "remembered", "file_set", "file_part"];
        for table in tables {
            let everything = format!("SELECT count(*) FROM kenning.{table}");
            let refused = client.query(&everything, &[]).await;
            assert!(refused.is_err(), "`{table}` shows nothing to who names no store");
        }
        assert!(client.query("SELECT * FROM kenning.store", &[]).await.is_err());
        client
            .batch_execute(&format!("SET kenning.store_name = '{}'", one.store()))
            .await
            .expect("the name is set");
        let own = client.query("SELECT store, name FROM kenning.store", &[]).await.expect("its own row");
        assert_eq!(own.len(), 1);
        let number: i32 = own[0].get(0);
        client.batch_execute(&format!("SET kenning.store = '{number}'")).await.expect("the store is set");
        for table in tables {
            let sql =
                format!("SELECT count(*), count(*) FILTER (WHERE store <> {number}) FROM kenning.{table}");
            let row = client.query_one(&sql, &[]).await.expect("an answer");
            assert_eq!(row.get::<_, i64>(1), 0, "rows of others in `{table}`");
        }
        let log = client.query_one("SELECT count(*) FROM kenning.log", &[]).await.expect("an answer");
        assert_eq!(log.get::<_, i64>(0), 2);
        let foreign = format!("INSERT INTO kenning.undo VALUES ({}, 1, 1)", number + 1);
        assert!(client.batch_execute(&foreign).await.is_err(), "nothing is written for another store");
    });
}

#[test]
fn the_database_is_verified_and_mended() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let backend = Postgres::open(&url).expect("a fresh store");
    let storage = Storage::on(Box::new(backend), kenning_testkit::fixed_sources());
    for topic in ["one", "two", "three"] {
        storage.commit(request(topic)).expect("a write");
    }
    let damages = || {
        let mut damages = Vec::new();
        storage.backend().verify(&mut |damage| damages.push(damage.what)).expect("it is verified");
        damages
    };
    assert_eq!(damages(), [""; 0]);
    let harm = |sql: &str| harm(&url, sql);
    harm(
        "UPDATE kenning.version SET topic_key = 'other' WHERE tx_from = 2; DELETE FROM kenning.touched WHERE tx_id = 1",
    );
    assert_eq!(damages().len(), 2);
    assert!(storage.backend().mend().expect("it can be mended"));
    assert_eq!(damages(), [""; 0]);
    harm("UPDATE kenning.log SET body = body || ' ' WHERE tx_id = 2 AND seq = 1");
    assert!(!damages().is_empty());
    assert!(!storage.backend().mend().expect("an answer"), "what the log has lost is not made up");
    let read = storage.reader().expect("a reader").records(&[kenning_storage::RecordKey {
        entity_type: kenning_model::EntityType::Entry,
        id: kenning_model::Id::from_bits(kenning_testkit::scrambled(1)),
        at: kenning_storage::At::Newest,
    }]);
    assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
}

/// The rights that `docs/team.md` names are enough for a server, and the SQL on that page works.
#[test]
fn the_database_asks_for_no_more_rights_than_are_documented() {
    let Some(url) = database() else { return };
    let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let superuser = std::env::var("POSTGRES_URL").expect("scripts/with-postgres names the server");
    let (server, _) = text.rsplit_once('/').expect("host/database");
    let owner = format!("{server}/rights");
    let member = owner.replacen("kenning_app", "kenning_server", 1);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let connect = |url: &str| {
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client
        })
    };
    let run = |client: &tokio_postgres::Client, sql: &str| runtime.block_on(client.batch_execute(sql));
    let ask = |client: &tokio_postgres::Client, sql: &str| -> Vec<tokio_postgres::Row> {
        runtime.block_on(client.query(sql, &[])).unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let setup = connect(&superuser);
    run(&setup, "CREATE ROLE kenning_server LOGIN").expect("a role");
    run(&setup, "CREATE DATABASE rights OWNER kenning_app").expect("a database");
    let of =
        |text: &str| DatabaseUrl::parse(text).and_then(|it| it.with_store(url.store())).expect("a good URL");
    drop(Postgres::open(&of(&owner)).expect("the owner makes the schema"));
    let page = include_str!("../../../../docs/team.md");
    let grants: Vec<&str> =
        page.lines().filter(|line| line.starts_with("GRANT ") || line.starts_with("REVOKE ")).collect();
    assert!(grants.len() > 3, "the page says which rights a server needs");
    let file = include_str!("../../../../deploy/grants.sql");
    let in_containers: Vec<&str> = file.lines().filter(|line| !line.starts_with("--")).collect();
    assert_eq!(grants, in_containers, "containers give the same rights");
    let schema_owner = connect(&owner);
    for grant in grants {
        run(&schema_owner, grant).unwrap_or_else(|error| panic!("{grant}: {error}"));
    }

    let storage = Storage::on(Box::new(Postgres::open(&of(&member)).expect("it opens")), random_sources());
    for topic in ["Deploys go out by canary", "Rollbacks take a minute", "Lamps\0are yellow"] {
        storage.commit(request(topic)).expect("a write");
    }
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("it is verified");
    assert_eq!(damages, []);
    assert!(storage.backend().mend().expect("it is mended"));

    let client = connect(&member);
    ask(&client, &format!("SELECT kenning.use_store('{}')", url.store()));
    assert_eq!(ask(&client, "SELECT * FROM kenning.entries WHERE scope = 'global:default'").len(), 3);
    assert_eq!(ask(&client, "SELECT * FROM kenning.history").len(), 3);
    let chain = ask(&client, "SELECT name FROM kenning.scope_chain('global:default')");
    assert_eq!(chain.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>(), ["global:default"]);
    let found = ask(
        &client,
        "SELECT topic FROM kenning.search_knowledge(ARRAY['how do we deploy by canary', 'lamp'], 'global:default')",
    );
    let topics: Vec<&str> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(topics.len(), 2, "{topics:?}");
    assert!(topics.contains(&"Deploys go out by canary"), "{topics:?}");
    // A purge overwrites rows of the log, so it is for the role to which they belong.
    let all = PurgeSelection::By(Author { name: "tester".to_owned(), since: None });
    let dora = Principal::owner("dora", "here");
    let purge = |storage: &Storage| {
        let (_, token) = storage.plan_purge(&all).expect("there is something");
        storage.purge(&all, &token, &dora, |_| Ok(()))
    };
    // What a server has left for others contains words of the text.
    let file = LeftFile { name: "words".to_owned(), bytes: 6 };
    let left = FileSet { name: "kind".to_owned(), at: TxId(1), manifest: String::new(), files: vec![file] };
    let is_left = storage.backend().leave_files(&left, &|_, _| Some(b"canary".to_vec()));
    assert!(is_left.expect("it can be left"));
    let refused = purge(&storage).expect_err("a server can't change the log").to_string();
    assert!(refused.contains("owns the schema"), "{refused}");
    let id = storage.backend().info().expect("an id").id;
    let of_owner = Storage::on(Box::new(Postgres::open(&of(&owner)).expect("it opens")), random_sources());
    purge(&of_owner).expect("the owner can");
    assert_eq!(storage.backend().left_files("kind").expect("readable"), None);
    assert_eq!(ask(&client, "SELECT * FROM kenning.file_part").len(), 0);
    of_owner.backend().scrub().expect("and can clean up");
    // The server goes on with what is another store now.
    let reader = storage.reader().expect("a reader");
    let standing = reader.standing().expect("a standing");
    assert!(standing.store != id && storage.backend().info().expect("an id").id == standing.store);
    assert_eq!(reader.live(kenning_model::EntityType::Entry, standing.tx).expect("a list"), []);
    assert_eq!(ask(&client, "SELECT * FROM kenning.words").len(), 0, "also those of what was live are gone");
    assert!(run(&client, "DELETE FROM kenning.log").is_err(), "a server can't take the log away");
    assert!(run(&client, "ALTER TABLE kenning.log DISABLE ROW LEVEL SECURITY").is_err());
}
