//! What a caller is told while the database is away, and what is in the store afterwards. A proxy between the
//! two cuts the connection before or after a COMMIT, or stops all traffic; and the server itself is killed
//! and restarted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kenning_model::{EntityType, Record, ScopeId, TxId};
use kenning_storage::{
    Applied, DatabaseUrl, EntryFilter, Error, NewEntry, Postgres, Request, Storage, Write as Written,
};

use crate::database::{database, new_store, random_sources, request};

/// How late a slow database answers.
const SLOWNESS: Duration = Duration::from_millis(300);
/// A caller learns within this time that the database is away.
const TOLD_WITHIN: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Fault {
    None,
    /// The COMMIT does not reach the server.
    BeforeCommit,
    /// The COMMIT reaches the server, and its answer does not come back.
    AfterCommit,
    /// The proxy passes no bytes on.
    Silence,
    /// New connections are refused, and the old ones end.
    Gone,
    /// Every answer comes late.
    Slow,
}

impl Proxy {
    /// An address with both as its hosts.
    fn with(&self, other: &Proxy, url: &DatabaseUrl) -> DatabaseUrl {
        let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
        let (head, rest) = text.split_once('@').expect("user@host");
        let (_, path) = rest.split_once('/').expect("host/database");
        DatabaseUrl::parse(&format!("{head}@127.0.0.1:{},127.0.0.1:{}/{path}", self.port, other.port))
            .and_then(|both| both.with_store(url.store()))
            .expect("a good URL")
    }
}

struct Proxy {
    port: u16,
    fault: Arc<AtomicU8>,
}

impl Proxy {
    fn before(url: &DatabaseUrl) -> (Proxy, DatabaseUrl) {
        let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
        let (head, rest) = text.split_once('@').expect("user@host");
        let (address, path) = rest.split_once('/').expect("host/database");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let fault = Arc::new(AtomicU8::new(Fault::None as u8));
        let through = DatabaseUrl::parse(&format!("{head}@127.0.0.1:{port}/{path}"))
            .and_then(|through| through.with_store(url.store()))
            .expect("a good URL");
        let (address, faults) = (address.to_owned(), fault.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if faults.load(Ordering::SeqCst) == Fault::Gone as u8 {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&address) else { continue };
                pass_on(client, server, &faults);
            }
        });
        (Proxy { port, fault }, through)
    }

    fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault.load(Ordering::SeqCst) == fault as u8
    }
}

/// Passes bytes on in both directions, unless the fault prevents it. A cut happens only once.
fn pass_on(client: TcpStream, server: TcpStream, fault: &Arc<AtomicU8>) {
    for is_question in [true, false] {
        let (from, to) = if is_question { (&client, &server) } else { (&server, &client) };
        let (mut from, mut to) = (from.try_clone().expect("a stream"), to.try_clone().expect("a stream"));
        let fault = fault.clone();
        std::thread::spawn(move || {
            let is = |wanted: Fault| fault.load(Ordering::SeqCst) == wanted as u8;
            let mut buffer = [0; 64 << 10];
            let waited = from.set_read_timeout(Some(Duration::from_millis(20)));
            waited.expect("a time-out can be set");
            loop {
                let read = match from.read(&mut buffer) {
                    Err(error)
                        if matches!(
                            error.kind(),
                            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                        ) =>
                    {
                        if is(Fault::Gone) {
                            break;
                        }
                        continue;
                    }
                    Ok(0) | Err(_) => break,
                    Ok(read) => read,
                };
                while is(Fault::Silence) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                if is(Fault::Gone) {
                    break;
                }
                if is(Fault::Slow) && !is_question {
                    std::thread::sleep(SLOWNESS);
                }
                let has_commit = buffer[..read].windows(7).any(|bytes| bytes == b"COMMIT\0");
                let cut = if is_question { Fault::BeforeCommit } else { Fault::AfterCommit };
                if has_commit && is(cut) {
                    fault.store(Fault::None as u8, Ordering::SeqCst);
                    break;
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

fn opened(url: &DatabaseUrl) -> Storage {
    Storage::on(Box::new(Postgres::open(url).expect("the store opens")), random_sources())
}

/// How many live entries have this topic.
fn many(storage: &Storage, topic: &str) -> usize {
    let reader = storage.reader().expect("a reader");
    let at = reader.head().expect("a head");
    let filter = EntryFilter { scopes: &[ScopeId(1)], at, visible_at: None };
    let entries = reader.entries(&filter, 0..100_000).expect("entries");
    entries
        .iter()
        .filter(|entry| matches!(&entry.record, Record::Entry(entry) if entry.topic == topic))
        .count()
}

#[test]
fn a_commit_on_a_database_that_went_away_is_looked_up() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let (proxy, through) = Proxy::before(&url);
    let storage = opened(&through);
    storage.commit(request("first")).expect("a write");
    for round in 0..5 {
        let topic = format!("cut before {round}");
        proxy.set(Fault::BeforeCommit);
        let refused = storage.commit(request(&topic)).expect_err("the COMMIT has not reached the server");
        assert!(matches!(refused, Error::Unavailable { applied: Applied::No, .. }), "{refused}");
        assert!(proxy.is(Fault::None), "the connection was cut");
        assert_eq!(many(&storage, &topic), 0);
        storage.commit(request(&topic)).expect("it can be written again");
        assert_eq!(many(&storage, &topic), 1);

        let topic = format!("cut after {round}");
        proxy.set(Fault::AfterCommit);
        storage.commit(request(&topic)).expect("the transaction is found in the log");
        assert!(proxy.is(Fault::None), "the connection was cut");
        assert_eq!(many(&storage, &topic), 1);
    }
    let head = storage.reader().and_then(|reader| reader.head()).expect("a head");
    assert_eq!(head, TxId(11), "numbers stay dense");
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("it is verified");
    assert_eq!(damages, []);
}

#[test]
fn a_database_that_is_silent_or_gone_is_told_of_in_time_and_taken_back() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let (proxy, through) = Proxy::before(&url);
    assert_ne!(proxy.port, 0);
    let storage = opened(&through);
    storage.commit(request("before")).expect("a write");
    for fault in [Fault::Silence, Fault::Gone] {
        proxy.set(fault);
        let since = Instant::now();
        let read = storage.reader().and_then(|reader| reader.head());
        assert!(matches!(read, Err(Error::Unavailable { applied: Applied::No, .. })), "{read:?}");
        assert!(since.elapsed() < TOLD_WITHIN, "a reader was told after {:?}", since.elapsed());
        let since = Instant::now();
        let written = storage.commit(request("during")).err();
        assert!(matches!(written, Some(Error::Unavailable { applied: Applied::No, .. })), "{written:?}");
        assert!(since.elapsed() < TOLD_WITHIN, "a writer was told after {:?}", since.elapsed());
        proxy.set(Fault::None);
        let since = Instant::now();
        while storage.commit(request("after")).is_err() {
            assert!(since.elapsed() < Duration::from_secs(5), "it is taken back in time");
        }
    }
    assert_eq!(many(&storage, "during"), 0);
    assert_eq!(many(&storage, "after"), 2);
}

/// Writers continue while the server is killed and restarted: each acknowledged write is in the store exactly
/// once, and no write is there twice.
#[test]
fn a_database_that_is_killed_loses_nothing_and_doubles_nothing() {
    let Some(url) = database() else { return };
    let control =
        std::env::var("POSTGRES_CONTROL").expect("scripts/with-postgres says how to restart the server");
    let url = new_store(&url);
    let storage = Arc::new(opened(&url));
    let (is_over, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (storage, is_over, acknowledged) = (storage.clone(), is_over.clone(), acknowledged.clone());
            std::thread::spawn(move || {
                let (mut known, mut unknown) = (Vec::new(), Vec::new());
                for number in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let topic = format!("{writer}-{number}");
                    match storage.commit(request(&topic)) {
                        Ok(_) => {
                            acknowledged.fetch_add(1, Ordering::SeqCst);
                            known.push(topic);
                        }
                        Err(Error::Unavailable { applied: Applied::Unknown, .. }) => unknown.push(topic),
                        Err(Error::Unavailable { applied: Applied::No, .. }) => {
                            std::thread::sleep(Duration::from_millis(20));
                        }
                        Err(other) => panic!("another error: {other}"),
                    }
                }
                (known, unknown)
            })
        })
        .collect();
    let wait_for = |many: u64| {
        let since = Instant::now();
        let target = acknowledged.load(Ordering::SeqCst) + many;
        while acknowledged.load(Ordering::SeqCst) < target {
            assert!(since.elapsed() < Duration::from_secs(20), "writes go on");
            std::thread::sleep(Duration::from_millis(5));
        }
        since.elapsed()
    };
    wait_for(20);
    for _ in 0..2 {
        let restarted =
            std::process::Command::new(&control).arg("restart").status().expect("it is restarted");
        assert!(restarted.success());
        let back = wait_for(1);
        assert!(back < Duration::from_secs(5), "the first write came {back:?} after the server was back");
        wait_for(20);
    }
    is_over.store(true, Ordering::SeqCst);
    let ended: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("a writer ends")).collect();
    let reader = storage.reader().expect("a reader");
    let at = reader.head().expect("a head");
    let stored = reader.live(EntityType::Entry, at).expect("all entries");
    let mut topics: Vec<String> = stored
        .into_iter()
        .filter_map(|stored| match stored.record {
            Record::Entry(entry) => Some(entry.topic),
            _ => None,
        })
        .collect();
    topics.sort_unstable();
    let all = topics.len();
    topics.dedup();
    assert_eq!(topics.len(), all, "nothing is there twice");
    let (mut known, mut unknown) = (0, 0);
    for (acknowledged, of_unknown_outcome) in &ended {
        known += acknowledged.len();
        unknown += of_unknown_outcome.len();
        for topic in acknowledged {
            assert!(topics.binary_search(topic).is_ok(), "`{topic}` was acknowledged and is there");
        }
    }
    println!("{known} writes acknowledged, {unknown} of unknown outcome, {all} there");
    assert!(all <= known + unknown, "what was refused is not there");
    assert_eq!(at.0 as usize, all, "numbers stay dense");
}

#[test]
fn a_database_without_connections_or_rights_says_so_and_is_taken_back() {
    let Some(url) = database() else { return };
    let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let superuser = std::env::var("POSTGRES_URL").expect("scripts/with-postgres names the server");
    // This test changes settings of a database, so it uses a database of its own.
    let run = |sql: &str| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&superuser, tokio_postgres::NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client.batch_execute(sql).await.expect("the setting is made");
        });
    };
    run("CREATE DATABASE failures OWNER kenning_app");
    let (server, _) = text.rsplit_once('/').expect("host/database");
    let failures = format!("{server}/failures");
    let other =
        DatabaseUrl::parse(&failures).and_then(|other| other.with_store(url.store())).expect("a good URL");
    let open = || Postgres::open(&other).map(|backend| Storage::on(Box::new(backend), random_sources()));
    open().and_then(|storage| storage.commit(request("one"))).map(drop).expect("a write");
    let refused = |what: &str| {
        let since = Instant::now();
        let error =
            open().and_then(|storage| storage.commit(request("two"))).map(drop).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
        assert!(since.elapsed() < TOLD_WITHIN);
    };
    run("ALTER DATABASE failures SET default_transaction_read_only = on");
    refused("read-only");
    run("ALTER DATABASE failures RESET default_transaction_read_only");
    run("ALTER DATABASE failures CONNECTION LIMIT 0");
    refused("no connection left");
    run("ALTER DATABASE failures CONNECTION LIMIT -1");
    let versions = |version: i32, oldest: i32| {
        let sql = format!("UPDATE kenning.schema_version SET version = {version}, oldest_program = {oldest}");
        tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&failures, tokio_postgres::NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client.batch_execute(&sql).await.expect("the version is set");
        });
    };
    versions(9, 1);
    open()
        .and_then(|storage| storage.commit(request("two")))
        .map(drop)
        .expect("a newer schema that this program may use");
    versions(9, 9);
    refused("the store has schema 9");
    versions(4, 1);
    let storage = open().expect("the store opens");
    assert_eq!((many(&storage, "one"), many(&storage, "two")), (1, 1));
}

#[test]
fn a_database_is_left_no_connections_by_what_failed() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let (proxy, through) = Proxy::before(&url);
    let backend = Postgres::open(&through).expect("the store opens");
    for round in 0..20 {
        proxy.set(if round % 2 == 0 { Fault::Gone } else { Fault::None });
        std::thread::sleep(Duration::from_millis(30));
        let _told = kenning_storage::Backend::begin(&backend).map(drop);
    }
    proxy.set(Fault::None);
    drop(kenning_storage::Backend::begin(&backend).expect("it is taken back"));
    assert!(backend.connections() <= 2, "{} connections are open", backend.connections());
}

#[test]
fn a_slow_database_is_waited_for() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let (proxy, through) = Proxy::before(&url);
    let storage = opened(&through);
    storage.commit(request("before")).expect("a write");
    proxy.set(Fault::Slow);
    let since = Instant::now();
    storage.commit(request("slow")).expect("a write that takes a while");
    assert_eq!(many(&storage, "slow"), 1);
    assert!(since.elapsed() > SLOWNESS, "it was slow");
    proxy.set(Fault::None);
    storage.commit(request("after")).expect("a write");
    assert_eq!(storage.reader().and_then(|reader| reader.head()).expect("a head"), TxId(3));
}

/// Of two hosts the one that answers is used, whether the other one refuses connections or takes them and says nothing.
#[test]
fn of_two_hosts_of_a_database_the_one_that_answers_is_used() {
    let Some(url) = database() else { return };
    let url = new_store(&url);
    let ((one, _), (other, _)) = (Proxy::before(&url), Proxy::before(&url));
    let storage = opened(&one.with(&other, &url));
    let mut written = 0;
    for fault in [Fault::Gone, Fault::Silence] {
        for (away, back) in [(&one, &other), (&other, &one)] {
            back.set(Fault::None);
            away.set(fault);
            let since = Instant::now();
            // What was under way on the host that went away has failed; the next call goes to the other one.
            while let Err(error) = storage.commit(request("either")) {
                assert!(matches!(error, Error::Unavailable { applied: Applied::No, .. }), "{error}");
                assert!(since.elapsed() < TOLD_WITHIN + Duration::from_secs(5), "the other host is found");
            }
            written += 1;
            assert_eq!(storage.reader().and_then(|reader| reader.head()).expect("a head"), TxId(written));
        }
    }
    assert_eq!(many(&storage, "either"), written as usize);
}

/// A store that was open when the database went read-only or full, or when all its connections were taken.
#[test]
fn an_open_database_that_takes_no_writes_says_so_and_is_taken_back() {
    let Some(url) = database() else { return };
    let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let superuser = std::env::var("POSTGRES_URL").expect("scripts/with-postgres names the server");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let connect = |url: &str| {
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client
        })
    };
    let administrator = connect(&superuser);
    let run = |sql: &str| {
        runtime.block_on(administrator.batch_execute(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    run("CREATE DATABASE changing OWNER kenning_app");
    let (server, _) = text.rsplit_once('/').expect("host/database");
    let changing = format!("{server}/changing");
    let changing_url =
        DatabaseUrl::parse(&changing).and_then(|it| it.with_store(url.store())).expect("a good URL");
    let storage = opened(&changing_url);
    let end_connections = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'changing' AND pid <> pg_backend_pid()";
    let mut written = 0;
    let mut write = || {
        storage.commit(request("there")).map(|_| written += 1)?;
        Ok::<u64, Error>(written)
    };
    write().expect("a write");
    for (harm, repair, what) in [
        (
            "ALTER DATABASE changing SET default_transaction_read_only = on",
            "ALTER DATABASE changing RESET default_transaction_read_only",
            "read-only",
        ),
        (
            "ALTER DATABASE changing CONNECTION LIMIT 0",
            "ALTER DATABASE changing CONNECTION LIMIT -1",
            "no connection left",
        ),
        (
            "ALTER ROLE kenning_app CONNECTION LIMIT 0",
            "ALTER ROLE kenning_app CONNECTION LIMIT -1",
            "no connection left",
        ),
    ] {
        run(harm);
        run(end_connections);
        let since = Instant::now();
        let error = write().expect_err(what);
        assert!(matches!(error, Error::Unavailable { applied: Applied::No, .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
        assert!(since.elapsed() < TOLD_WITHIN);
        run(repair);
        run(end_connections);
        let since = Instant::now();
        while write().is_err() {
            assert!(since.elapsed() < Duration::from_secs(5), "it is taken back in time");
        }
    }
    // A schema of an older program is brought up to date by the first that connects as its owner; whoever may not do that says so.
    let owner = connect(&changing);
    let old = "UPDATE kenning.schema_version SET version = 2; DROP TABLE kenning.file_set, kenning.file_part, kenning.entry_count;
               DROP FUNCTION kenning.entries_opened, kenning.entries_closed, kenning.entries_dropped CASCADE";
    runtime.block_on(owner.batch_execute(old)).expect("the schema is old");
    assert!(
        Postgres::is_there(&changing_url).expect("the database answers"),
        "an older schema has stores too"
    );
    let reading = Postgres::open_existing(&changing_url).err().map(|error| error.to_string());
    assert!(
        reading.is_some_and(|error| error.contains("of an older Kenning")),
        "who only reads changes nothing"
    );
    run("CREATE ROLE kenning_member LOGIN");
    let grants = "GRANT USAGE ON SCHEMA kenning TO kenning_member;
                  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kenning TO kenning_member";
    runtime.block_on(owner.batch_execute(grants)).expect("rights");
    let member = changing.replacen("kenning_app", "kenning_member", 1);
    let member = DatabaseUrl::parse(&member).and_then(|it| it.with_store(url.store())).expect("a good URL");
    let refused = Postgres::open(&member).err().expect("a member may not change the schema");
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
    write().expect("a server of the older program goes on");
    drop(Postgres::open(&changing_url).expect("the owner brings the schema up to date"));
    let opened = Postgres::open(&member).expect("a member goes on without new grants");
    let set = kenning_storage::FileSet { name: "kind".into(), at: TxId(1), ..Default::default() };
    let left = kenning_storage::Backend::leave_files(&opened, &set, &|_, _| None);
    assert!(left.expect("a member may leave files"));
    let counted =
        kenning_storage::Backend::reader(&opened).and_then(|reader| reader.live_entries(&[ScopeId(1)]));
    assert_eq!(counted.expect("a count"), written, "what the older program wrote is counted");
    assert_eq!(many(&storage, "there"), written as usize);
}

/// On a tablespace in memory, which only a superuser of this machine can make small.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_of_the_database_is_told_of_and_writes_go_on_when_there_is_room() {
    let Some(url) = database() else { return };
    let text = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let superuser = std::env::var("POSTGRES_URL").expect("scripts/with-postgres names the server");
    let dir = tempfile::tempdir().expect("a directory");
    let run = |program: &str, arguments: &[&str]| {
        let path = dir.path().to_str().expect("UTF-8");
        let ran = std::process::Command::new(program).args(arguments).arg(path).status();
        ran.is_ok_and(|status| status.success())
    };
    if !run("mount", &["-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs"]) {
        eprintln!("not asked for: a small disk can't be made here");
        return;
    }
    assert!(run("chown", &["postgres"]) && run("chmod", &["o+x"]), "the server owns its tablespace");
    let ballast = dir.path().join("ballast");
    std::fs::write(&ballast, vec![0; 6 << 20]).expect("writable");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let sql = |sql: &str| {
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&superuser, tokio_postgres::NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
    };
    sql(&format!("CREATE TABLESPACE small LOCATION '{}'", dir.path().display()));
    sql("CREATE DATABASE small OWNER kenning_app TABLESPACE small");
    let (server, _) = text.rsplit_once('/').expect("host/database");
    let small = DatabaseUrl::parse(&format!("{server}/small")).and_then(|it| it.with_store(url.store()));
    let storage = opened(&small.expect("a good URL"));
    let mut written = 0;
    let large = |number: u64| {
        // Nothing that can be packed.
        let content =
            (0..2_000_u64).map(|at| format!("{:016x}", kenning_testkit::scrambled(number << 32 | at)));
        let entry = NewEntry::new(ScopeId(1), "there".to_owned(), content.collect::<String>());
        Request { write: Written::Store(entry), ..request("there") }
    };
    let error = loop {
        match storage.commit(large(written)) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 2_000, "the disk is full at last");
    };
    assert!(matches!(error, Error::Unavailable { applied: Applied::No, .. }), "{error}");
    assert!(error.to_string().contains("disk of the database is full"), "{error}");
    assert_eq!(storage.reader().and_then(|reader| reader.head()).expect("a head"), TxId(written));
    std::fs::remove_file(&ballast).expect("removable");
    storage.commit(large(written)).expect("there is room again");
    assert_eq!(many(&storage, "there") as u64, written + 1);
    drop(storage);
    sql("DROP DATABASE small WITH (FORCE)");
    sql("DROP TABLESPACE small");
    assert!(run("umount", &["--lazy"]), "the small disk is taken away");
}
