//! `kenning export` and `kenning import` as people use them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        fs::create_dir(place.at("work")).expect("a directory");
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    fn run_on(&self, store: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KENNING_")) {
            command.env_remove(name);
        }
        for host in ["CLAUDE", "GEMINI", "CURSOR"] {
            command.env_remove(format!("{host}_PROJECT_DIR"));
        }
        command.current_dir(self.at("work")).arg("--data-dir").arg(self.at(store));
        command.args(arguments).output().expect("kenning runs")
    }

    #[track_caller]
    fn done_on(&self, store: &str, arguments: &[&str]) -> String {
        let output = self.run_on(store, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        self.done_on("data", arguments)
    }

    /// The report of an import. The exit code is not checked.
    #[track_caller]
    fn import(&self, path: &str, more: &[&str]) -> Value {
        let output = self.run_on("data", &[&["import", path, "--json"], more].concat());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{output:?}"))
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let reply = self.done(&["call", tool, &arguments.to_string(), "--json"]);
        serde_json::from_str(&reply).expect("a reply")
    }
}

/// The counts of a report: new entries, new facts, and those that existed already.
#[track_caller]
fn counts(report: &Value) -> (u64, u64, u64) {
    let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{report}"));
    (count("entries"), count("facts"), count("unchanged"))
}

/// A store with every kind of record and with a history.
fn filled() -> Place {
    let place = Place::new();
    place.call("create_namespace", &json!({"name": "acme", "description": "ACME \"Corp\""}));
    place.call("create_scope", &json!({"scope": "acme:base", "description": "Shared"}));
    place.call(
        "create_scope",
        &json!({"scope": "acme:web", "description": "The shop", "parents": ["acme:base"]}),
    );
    let stored = place.call(
        "store",
        &json!({"topic": "deploys: when", "content": "Blue-green,\nnever \"on Fridays\". é🎉", "tags": ["ops", "a,b"],
            "confidence": 0.30000000000000004, "context": "release", "task_sizes": ["S"], "scope": "acme:web",
            "valid_from": "2026-01-01T00:00:00Z", "pinned": true, "idempotency_key": "k1"}),
    );
    let id = stored["id"].as_str().expect("an id").to_owned();
    place.call("update", &json!({"id": id, "content": "Blue-green; =never() on Fridays."}));
    place.call("store", &json!({"topic": "gone", "content": "Soon deleted."}));
    place.call("undo", &json!({"count": 1, "any_actor": true, "tx_id": null}));
    place.call(
        "relate",
        &json!({"subject": "checkout", "predicate": "runs on", "object": "k8s", "scope": "acme:web"}),
    );
    let docs =
        place.file("docs/guide.md", "# Guide\n\nHow to deploy.\n\n## Rollback\n\nRoll back by hand.\n");
    place.done(&["ingest", &docs]);
    place
}

/// The part of two exports that must be equal: all lines but the first, which names the store.
fn body(export: &str) -> &str {
    export.split_once('\n').expect("lines").1
}

#[test]
fn an_export_makes_the_same_store_again() {
    let place = filled();
    let file = place.at("out.jsonl").display().to_string();
    place.done(&["export", "-o", &file]);
    let exported = fs::read_to_string(&file).expect("it was written");
    assert_eq!(place.done(&["export"]), exported, "to standard output it is the same");
    let dry: Value = serde_json::from_str(&place.done_on("copy", &["import", &file, "--dry-run", "--json"]))
        .expect("JSON");
    assert_eq!(dry["dry_run"], true);
    assert!(!place.at("copy").exists(), "a dry run makes no store");
    let said = place.done_on("copy", &["import", &file]);
    assert!(said.starts_with("Restored "), "{said}");
    assert_eq!(body(&place.done_on("copy", &["export"])), body(&exported));
    assert!(place.done_on("copy", &["verify"]).trim_end().ends_with("all sound"));
    let search = |store: &str| place.done_on(store, &["--scope", "acme:web", "search", "deploy"]);
    assert_eq!(search("copy"), search("data"));
    assert!(exported.contains(r#""key":"k1""#), "idempotency keys are in it");

    // A second import goes by content, and finds that everything exists already.
    let again = place.run_on("copy", &["import", &file, "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(counts(&again), (0, 0, 2), "{again}");
    assert_eq!(again["transactions"], 0);
}

#[test]
fn an_export_that_was_changed_or_cut_is_refused_whole() {
    let place = filled();
    let exported = place.done(&["export"]);
    let lines: Vec<&str> = exported.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n");
    let changed = exported.replacen("Blue-green", "Black-blue", 1);
    let more = format!("{exported}{}\n", lines[1]);
    let newer = exported.replacen("\"format\":1", "\"format\":9", 1);
    let half = &exported[..exported.len() / 2];
    for (text, why) in [
        (&*cut, "ends too early"),
        (&changed, "not what was exported"),
        (&more, "after its last line"),
        (&newer, "install a newer"),
        (half, "nothing was imported"),
    ] {
        let file = place.file("bad.jsonl", text);
        let output = place.run_on("other", &["import", &file]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(why), "{why}: {said}");
        let head = place.run_on("other", &["history", "--all", "--json"]);
        let head: Value = serde_json::from_slice(&head.stdout).expect("JSON");
        assert_eq!(head["total_count"], 0, "{why}");
    }
}

#[test]
fn live_entries_are_written_as_markdown_and_as_a_table() {
    let place = filled();
    let notes = place.at("notes").display().to_string();
    place.done(&["export", "--format", "md", "-o", &notes]);
    let folder = place.at("notes/acme/web");
    let files: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1);
    let name = files[0].file_name().into_string().expect("a name");
    assert!(name.starts_with("deploys-when-") && name.ends_with(".md"), "{name}");
    let text = fs::read_to_string(files[0].path()).expect("a file");
    assert!(text.contains("topic: \"deploys: when\"\ntags: [ops, \"a,b\"]\n"), "{text}");
    assert!(text.ends_with("---\n\nBlue-green; =never() on Fridays.\n"), "{text}");
    let refused = place.run_on("data", &["export", "--format", "md", "-o", &notes]);
    assert_eq!(refused.status.code(), Some(2), "it is not empty: {refused:?}");
    let table = place.done(&["--scope", "acme:web", "export", "--format", "csv"]);
    let lines: Vec<&str> = table.split("\r\n").collect();
    assert!(lines[0].starts_with("id,scope,topic,content,tags,"), "{table}");
    assert!(lines[1].contains(",acme:web,deploys: when,"), "{table}");
    // Importing the folder again finds the entries that it was written from.
    let report = place.import(&notes, &["--scope", "acme:web"]);
    assert_eq!(counts(&report), (0, 0, 1), "{report}");
    let live = place.done(&["--scope", "acme:web", "export"]);
    assert!(live.starts_with(r#"{"kenning":"live""#), "{live}");
    let live = place.file("live.jsonl", live);
    assert_eq!(counts(&place.import(&live, &["--scope", "acme:base"])), (1, 1, 0));
}

#[test]
fn the_official_memory_servers_file_with_ten_thousand_entities() {
    let place = Place::new();
    let mut text = String::new();
    for number in 0..10_000 {
        let entity = json!({"type": "entity", "name": format!("Entity {number}"), "entityType": "person",
            "observations": [format!("Prefers colour {number} of all")]});
        text.push_str(&format!("{entity}\n"));
    }
    for number in 0..5_000 {
        let relation = json!({"type": "relation", "from": format!("Entity {number}"), "to": format!("Entity {}", number + 1),
            "relationType": "knows"});
        text.push_str(&format!("{relation}\n"));
    }
    let file = place.file("memory.jsonl", text);
    let dry = place.import(&file, &["--dry-run"]);
    assert_eq!(counts(&dry), (10_000, 15_000, 0));
    assert!(!place.at("data").exists(), "a dry run makes no store");
    let report = place.import(&file, &[]);
    assert_eq!(
        (report["format"].as_str(), report["scope"].as_str()),
        (Some("memory-server"), Some("global:default"))
    );
    assert_eq!(counts(&report), (10_000, 15_000, 0));
    assert_eq!(report["transactions"], 50);
    let again = place.import(&file, &[]);
    assert_eq!((counts(&again), &again["transactions"]), ((0, 0, 25_000), &json!(0)));
    let found = place.call("query", &json!({"content": "colour 7777", "limit": 1}));
    assert_eq!(found["items"][0]["topic"], "Entity 7777", "{found}");
    let facts = place.call("query_graph", &json!({"subject": "Entity 41"}));
    assert_eq!(facts["total_count"], 2, "{facts}");
    assert_eq!(place.call("query", &json!({"limit": 1}))["total_count"], 10_000);
}

#[test]
fn what_can_not_be_taken_is_named_by_its_line_and_the_rest_goes_on() {
    let place = Place::new();
    let long_name = "n".repeat(600);
    let long_text = "One sentence of a long text. ".repeat(2_000);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let lines = [
        json!({"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Likes tea", 7, "", "Likes tea"]})
            .to_string(),
        "not json".to_owned(),
        json!({"type": "planet", "name": "Mars"}).to_string(),
        json!({"type": "entity", "name": long_name, "entityType": "x", "observations": ["text"]}).to_string(),
        deep,
        json!({"type": "relation", "from": "Ann", "to": "Bob"}).to_string(),
        json!({"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Lives in Oslo", long_text]}).to_string(),
        "[1]".to_owned(),
    ];
    let mut bytes = lines.join("\n").into_bytes();
    bytes.extend(b"\n\xff\xfe\n");
    let file = place.file("memory.jsonl", bytes);
    let output = place.run_on("data", &["import", &file]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for line in [
        "memory.jsonl:1: an observation is no text",
        "memory.jsonl:1: it has no text",
        "memory.jsonl:2: it is no JSON",
        "memory.jsonl:3: there is no type `planet`",
        "memory.jsonl:4: the topic has 600 bytes, and the cap is 512",
        "memory.jsonl:5: it is no JSON: recursion limit",
        "memory.jsonl:6: a relation needs",
        "memory.jsonl:8: it is neither an entity nor a relation",
        "memory.jsonl:9: the line is not UTF-8",
        "so the text became 2 entries that follow each other",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let found = place.call("query", &json!({"topic": "Ann", "limit": 10, "detail": "full"}));
    assert_eq!(found["total_count"], 4, "{found}");
    assert!(
        found["items"].as_array().expect("a list").iter().any(|item| item["follows"].is_string()),
        "{found}"
    );
}

#[test]
fn rules_become_entries_under_their_headings() {
    let place = Place::new();
    let file = place.file(
        "project/CLAUDE.md",
        "scope: acme:web\n\n# Web shop\n\nA shop in Rust.\n\n## Git\n\nBefore you commit:\n- run `make test`\n- sign off\n\n@docs/more.md\n",
    );
    let report = place.import(&file, &["--pin"]);
    assert_eq!((report["format"].as_str(), counts(&report)), (Some("rules"), (3, 0, 0)), "{report}");
    assert_eq!(report["refused"][0]["line"], 13, "{report}");
    let task = place.call("get_task_context", &json!({"queries": ["commit message"]}));
    assert!(task.to_string().contains("run `make test`"), "pinned entries come with every task: {task}");
    assert_eq!(counts(&place.import(&file, &["--pin"])), (0, 0, 3));
    let found = place.call("query", &json!({"content": "sign off", "limit": 1, "detail": "full"}));
    assert_eq!(found["items"][0]["topic"], "Web shop > Git");
    assert_eq!(found["items"][0]["context"], "Before you commit:");
}

#[test]
fn notes_of_basic_memory_and_obsidian() {
    let place = Place::new();
    place.file(
        "vault/coffee/Brewing.md",
        "---\ntitle: Coffee Brewing\ntype: note\ntags: [coffee, brewing]\npermalink: coffee/brewing\n---\n\n# Coffee Brewing\n\n\
         ## Observations\n- [method] Pour over is clearer #taste (own test)\n- [ ] buy beans\n\n## Relations\n\
         - requires [[Grinding|the grinder]]\n- [[Tea]]\n",
    );
    place.file(
        "vault/Daily.md",
        "Met [[Ann#Work]] about #planning today.\n\n```\n[[not a link]]\n```\n![[picture.png]]\n",
    );
    place.file("vault/.obsidian/hidden.md", "Hidden.");
    place.file("vault/picture.png", "png");
    let vault = place.at("vault").display().to_string();
    let report = place.import(&vault, &[]);
    assert_eq!(counts(&report), (3, 3, 0), "{report}");
    let entry = place.call("query", &json!({"tags": ["method"], "detail": "full"}))["items"][0].clone();
    assert_eq!(
        (&entry["topic"], &entry["tags"]),
        (&json!("Coffee Brewing"), &json!(["method", "taste", "coffee", "brewing"]))
    );
    assert_eq!(entry["source"], "coffee/Brewing.md");
    let facts = place.call("query_graph", &json!({"subject": "coffee brewing"}));
    let objects: Vec<&str> = facts["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|fact| fact["object"].as_str())
        .collect();
    assert!(objects.contains(&"Grinding") && objects.contains(&"Tea"), "{facts}");
    assert_eq!(place.call("query_graph", &json!({"object": "Ann"}))["items"][0]["predicate"], "links to");
    assert_eq!(counts(&place.import(&vault, &["--from", "obsidian"])), (0, 0, 6));
}

#[test]
fn exports_of_other_programs() {
    let place = Place::new();
    let claude = json!([{"account_uuid": "a", "conversations_memory": "**Work context**\n\nArjun builds shops.\n\n**Personal**\n\nLikes tea.",
        "project_memories": {"0197": "Uses hexagonal architecture."}}]);
    let mem0 = json!({"results": [{"id": "1", "memory": "Dev works at TechCorp", "hash": "x", "metadata": {"type": "professional"},
        "categories": ["work"], "user_id": "dev", "created_at": "2026-02-01T10:00:00-07:00"}],
        "relations": [{"source": "dev", "relationship": "works_at", "target": "techcorp"}]});
    let service = json!({"export_metadata": {"source_machine": "m"}, "memories": [
        {"content": "Port 8443 is for the API", "content_hash": "h", "tags": ["net", "api"], "created_at": 1770000000.5, "memory_type": "decision", "metadata": {}},
        {"content": "  ", "content_hash": "i"}]});
    let chatgpt = json!([{"content": "Prefers metric units", "enabled": true}, {"content": "Old", "enabled": false}, "Has a dog"]);
    for (name, text, format, expected, refused) in [
        ("memories.json", claude.to_string(), "claude", (3, 0, 0), 0),
        ("mem0.json", mem0.to_string(), "mem0", (1, 1, 0), 0),
        ("service.json", service.to_string(), "mcp-memory-service", (1, 0, 0), 1),
        ("chat.json", chatgpt.to_string(), "chatgpt", (2, 0, 0), 1),
        ("copied.txt", "Speaks Norwegian\nRuns marathons\n".to_owned(), "list", (2, 0, 0), 0),
        (
            "claude.txt",
            "[2026-03-01] - Is a beekeeper\n\n[unknown] - Owns a boat\n".to_owned(),
            "list",
            (2, 0, 0),
            0,
        ),
    ] {
        let file = place.file(name, text);
        let report = place.import(&file, &[]);
        assert_eq!(
            (report["format"].as_str(), counts(&report)),
            (Some(format), expected),
            "{name}: {report}"
        );
        assert_eq!(report["refused_count"], refused, "{name}: {report}");
        let (entries, facts, _) = expected;
        assert_eq!(counts(&place.import(&file, &[])), (0, 0, entries + facts), "{name}");
    }
    let dev = place.call("query", &json!({"content": "TechCorp", "detail": "full", "limit": 1}))["items"][0]
        .clone();
    assert_eq!((&dev["tags"], &dev["context"]), (&json!(["work", "user:dev"]), &json!("type: professional")));
    assert_eq!(dev["source"], "mem0.json, 2026-02-01");
    for (name, text) in
        [("empty.json", "{}"), ("deep.json", &*"[".repeat(200_000)), ("other.json", "{\"a\": [1]}")]
    {
        let file = place.file(name, text);
        let output = place.run_on("data", &["import", &file]);
        let code = output.status.code();
        assert!(matches!(code, Some(1 | 2)) && output.stdout.is_empty(), "{name}: {output:?}");
    }
    assert_eq!(place.run_on("data", &["import", "nowhere.json"]).status.code(), Some(3));
}

/// The export goes exactly where `-o` says, and a failed export leaves no file behind.
#[test]
fn an_export_that_fails_leaves_no_file() {
    let place = filled();
    let missing = place.at("no/such/dir/out.jsonl").display().to_string();
    assert_eq!(place.run_on("data", &["export", "-o", &missing]).status.code(), Some(1));
    assert_eq!(place.run_on("nothing", &["export"]).status.code(), Some(3));
    assert_eq!(place.run_on("data", &["export", "--format", "md"]).status.code(), Some(2));
    assert!(!Path::new(&missing).exists());
}
