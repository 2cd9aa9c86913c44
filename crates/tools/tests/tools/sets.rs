//! Result sets: all rows behind a reply that shows some, as of the time of the reply.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kenning_engine::{Engine, Sources};
use kenning_presentation::Block;
use kenning_presentation::budget::REPLY_BYTES_MAX;
use kenning_testkit::TempStore;
use kenning_tools::{Access, Caller, ResultSets, SetStore, dispatch, find};
use serde_json::{Value, json};

struct Place {
    engine: Arc<Engine>,
    caller: Caller,
    minutes: Arc<AtomicI64>,
    _store: TempStore,
}

impl Place {
    fn new() -> Place {
        let store = TempStore::in_memory();
        let minutes = Arc::new(AtomicI64::new(0));
        let passed = minutes.clone();
        let now = move || {
            kenning_testkit::fixed_start() + jiff::SignedDuration::from_mins(passed.load(Ordering::Relaxed))
        };
        let sources = Sources { now: Arc::new(now), ..kenning_testkit::fixed_sources() };
        let engine = Arc::new(Engine::new(store.path().to_owned(), sources));
        let caller = Place::caller(&engine, Some(store.path().join("rows.db")));
        Place { engine, caller, minutes, _store: store }
    }

    /// The caller of a process that has just started.
    fn caller(engine: &Arc<Engine>, file: Option<PathBuf>) -> Caller {
        let caller = Caller::new(Some("alice"), "a session".to_owned(), "global:default".to_owned());
        Caller { sets: Some(Arc::new(ResultSets::new(SetStore::new(engine.clone(), file), None))), ..caller }
    }

    fn reply(&self, tool: &str, arguments: Value) -> kenning_presentation::Reply {
        let arguments = arguments.as_object().expect("an object").clone();
        let tool = find(tool).expect("a tool");
        let reply = dispatch(&self.engine, &self.caller, Access::ReadWrite, tool, arguments);
        let sizes = [reply.structured.to_string().len(), reply.content_bytes()];
        assert!(sizes.iter().all(|size| *size <= REPLY_BYTES_MAX), "{}: {sizes:?}", tool.name);
        reply
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.reply(tool, arguments).structured
    }

    fn entries(&self, many: usize) {
        for number in 0..many {
            let content =
                format!("The common fact, number {number}. {}", "It has some words. ".repeat(number % 5));
            let entry = json!({"topic": format!("topic {}", number % 7), "content": content, "confidence": (number % 10) as f64 / 10.0});
            self.call("store", entry);
        }
    }

    /// All rows of a set, page by page.
    fn rows(&self, set: &Value, sort: Value) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut offset = json!(0);
        while !offset.is_null() {
            let page = self.call("read_rows", json!({"resource": set, "offset": offset, "sort": sort}));
            assert!(page["error"].is_null(), "{page}");
            rows.extend(page["data"].as_array().expect("rows").iter().cloned());
            offset = page["next_offset"].clone();
        }
        rows
    }
}

fn ids<'a>(rows: impl IntoIterator<Item = &'a Value>, field: &str) -> Vec<String> {
    rows.into_iter().map(|row| row[field].to_string()).collect()
}

#[test]
fn every_list_has_all_its_rows_behind_it() {
    let place = Place::new();
    place.entries(60);
    for number in 0..60 {
        place.call(
            "relate",
            json!({"subject": "api", "predicate": "uses", "object": format!("service {number}")}),
        );
    }
    for number in 0..30 {
        let text = format!(
            "---\nid: p{number}\ntitle: P{number}\ncategory: c\n---\n# P{number}\n\nThe common way, {number}.\n"
        );
        kenning_testkit::take_in_pattern(&place.engine, "patterns", &format!("{number}.md"), &text);
    }
    for (tool, arguments, list, key) in [
        ("query", json!({"content": "common", "limit": 7}), "items", "id"),
        ("query", json!({"limit": 7}), "items", "id"),
        ("query_graph", json!({"subject": "api", "limit": 7}), "items", "id"),
        ("history", json!({"limit": 7, "entity_type": "entry"}), "items", "tx_id"),
        (
            "search_patterns",
            json!({"q": "common way", "category": "c", "limit": 7, "format": "json"}),
            "patterns",
            "id",
        ),
    ] {
        let first = place.reply(tool, arguments.clone());
        let link = first.blocks.iter().find_map(|block| match block {
            Block::SetLink(link) => Some(link.uri.clone()),
            _ => None,
        });
        let first = first.structured;
        assert_eq!(link.map(Value::String).as_ref(), Some(&first["resource"]["uri"]), "{tool}: {first}");
        let mut paged = Vec::new();
        let mut page = first.clone();
        loop {
            paged.extend(ids(page[list].as_array().expect("a list"), key));
            let Some(cursor) = page.get("next_cursor").filter(|cursor| !cursor.is_null()) else { break };
            let mut next = arguments.clone();
            next["cursor"] = cursor.clone();
            page = place.call(tool, next);
            let same = page.get("resource").is_none_or(|resource| *resource == first["resource"]);
            assert!(same, "{tool}: a later page has the set of the first");
        }
        let rows = place.rows(&first["resource"]["uri"], Value::Null);
        assert_eq!(ids(&rows, key), paged, "{tool}");
        assert_eq!(first["metadata"]["total_count"], rows.len(), "{tool}");
        assert_eq!(first["total_count"], rows.len(), "{tool}");
        let columns = first["metadata"]["columns"].as_array().expect("columns");
        let known: BTreeSet<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
        for (name, _) in rows.iter().flat_map(|row| row.as_object().expect("a row")) {
            assert!(known.contains(name.as_str()) || name == "changes_left_out", "{tool}: no column {name}");
        }
    }
    let found = place.call("kb.search", json!({"query": "common way", "top_k": 3}));
    let rows = place.rows(&found["resource"]["uri"], Value::Null);
    assert_eq!(rows.len(), 30, "{found}");
    assert_eq!(rows[0]["section_id"], found["results"][0]["section_id"]);
    assert!(rows.iter().all(|row| row["section_id"].is_string() && row.get("text").is_none()));
    // A reply that shows all rows has no set.
    let whole = place.reply("query", json!({"limit": 200}));
    assert!(whole.structured.get("resource").is_none(), "{}", whole.structured);
}

#[test]
fn rows_are_as_of_the_reply_in_any_order() {
    let place = Place::new();
    place.entries(50);
    let reply = place.call("query", json!({"content": "common", "limit": 5}));
    let set = &reply["resource"]["uri"];
    let before = place.rows(set, Value::Null);
    place.entries(20);
    place.call("delete", json!({"id": before[0]["id"]}));
    assert_eq!(place.rows(set, Value::Null), before, "nothing shifts");
    for (field, order) in [
        ("confidence", "asc"),
        ("confidence", "desc"),
        ("content", "asc"),
        ("tx_id", "desc"),
        ("updated_at", "asc"),
    ] {
        let sorted = place.rows(set, json!({"field": field, "order": order}));
        assert_eq!(sorted.len(), before.len(), "{field}");
        assert_eq!(ids(&sorted, "id").into_iter().collect::<BTreeSet<_>>().len(), before.len());
        let mut wanted = before.clone();
        let value = |row: &Value| {
            (row[field].as_f64().unwrap_or(0.0), row[field].as_str().unwrap_or_default().to_owned())
        };
        wanted.sort_by(|one, other| {
            let (one_value, other_value) = (value(one), value(other));
            let ordering = one_value.partial_cmp(&other_value).expect("numbers and texts");
            let ordering = if order == "desc" { ordering.reverse() } else { ordering };
            ordering.then_with(|| one["id"].as_str().cmp(&other["id"].as_str()))
        });
        assert_eq!(ids(&sorted, "id"), ids(&wanted, "id"), "{field} {order}");
    }
}

#[test]
fn a_set_outlives_the_process_and_not_its_time() {
    let mut place = Place::new();
    place.entries(30);
    let set = place.call("query", json!({"limit": 5}))["resource"]["uri"].clone();
    let first = place.rows(&set, Value::Null);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let about = std::fs::metadata(place._store.path().join("rows.db")).expect("it is there");
        assert_eq!(about.permissions().mode() & 0o777, 0o600, "nobody else's");
    }
    // Another process on the same data can continue in the middle of the set.
    place.caller = Place::caller(&place.engine, Some(place._store.path().join("rows.db")));
    let page = place.call("read_rows", json!({"resource": set, "offset": 10, "limit": 5}));
    assert_eq!(page["data"].as_array().expect("rows")[..], first[10..15]);
    // A process that keeps its sets in memory does not know this one.
    let kept = std::mem::replace(&mut place.caller, Place::caller(&place.engine, None));
    let refused = place.call("read_rows", json!({"resource": set}));
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["details"]["error"]),
        (&json!("NOT_FOUND"), &json!("not_found"))
    );
    place.caller = kept;
    place.minutes.fetch_add(16, Ordering::Relaxed);
    let refused = place.call("read_rows", json!({"resource": set}));
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["details"]["error"]),
        (&json!("NOT_FOUND"), &json!("expired"))
    );
}

#[test]
fn rows_are_whole_however_large_and_many() {
    let place = Place::new();
    let long = "\"\n".repeat(10_900);
    for number in 0..4 {
        place.call(
            "store",
            json!({"topic": format!("topic {number}"), "content": format!("{number} {long}")}),
        );
    }
    let set = place.call("query", json!({"limit": 1}))["resource"]["uri"].clone();
    let rows = place.rows(&set, Value::Null);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["content"].as_str().is_some_and(|text| text.len() > long.len())
        && row["truncated"].is_null()));
    // The other forms of the set's name work too.
    let id = set.as_str().and_then(|uri| uri.rsplit('/').next()).expect("an id");
    for name in [
        id.to_owned(),
        format!("http://127.0.0.1:1/resources/{id}/rows"),
        format!("kenning://rows/{id}?offset=1"),
    ] {
        assert_eq!(place.call("read_rows", json!({"resource": name}))["total_count"], 4, "{name}");
    }
    assert_eq!(place.call("read_rows", json!({"resource": "none"}))["error"]["code"], "INVALID_ARGUMENT");
}

#[test]
fn a_file_that_cannot_be_read_is_begun_anew() {
    let mut place = Place::new();
    place.entries(10);
    let file = place._store.path().join("rows.db");
    std::fs::write(&file, "no database ".repeat(1_000)).expect("it is written");
    place.caller = Place::caller(&place.engine, Some(file));
    let set = place.call("query", json!({"limit": 1}))["resource"]["uri"].clone();
    assert_eq!(place.rows(&set, Value::Null).len(), 10);
}

/// The part of ten thousand entries that a model reads.
#[test]
fn a_sample_is_a_fiftieth_of_the_whole() {
    let place = Place::new();
    let principal = Arc::new(kenning_model::Principal::owner("me", "here"));
    for number in 0..10_000 {
        let scope = kenning_model::ScopeId::GLOBAL_DEFAULT;
        let content =
            format!("The common fact, number {number}, has a sentence of usual length and another one.");
        let entry = kenning_storage::NewEntry::new(scope, format!("topic {number}"), content);
        let write = kenning_storage::Write::Store(entry);
        let (principal, tool) = (Arc::clone(&principal), "store".to_owned());
        place
            .engine
            .commit(kenning_storage::Request { principal, tool, write, keyed: None })
            .expect("it is stored");
    }
    let reply = place.reply("query", json!({"content": "common fact"}));
    let whole: usize = place
        .rows(&reply.structured["resource"]["uri"], Value::Null)
        .iter()
        .map(|row| row.to_string().len())
        .sum();
    let shown = reply.structured.to_string().len().max(reply.text().len());
    eprintln!("{shown} bytes of {whole}: 1/{}", whole / shown);
    assert!(shown * 50 <= whole, "{shown} of {whole}");
}
