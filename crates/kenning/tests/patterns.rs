//! `kenning ingest --kind patterns`, from a directory of files to the answers for an agent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kenning_engine::Engine;
use kenning_testkit::catalogue::{Expected, Fate, PatternFile, catalogue};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};
use tempfile::TempDir;

const FILES: usize = 300;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a directory") }
    }

    fn catalogue(&self) -> PathBuf {
        self.dir.path().join("catalogue")
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.catalogue().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        for name in
            ["DATA_DIR", "SCOPE", "ACTOR", "READ_ONLY", "TOOLSETS", "TOOL_NAMES", "ROWS_LISTEN", "LOG"]
        {
            command.env_remove(format!("KENNING_{name}"));
        }
        let data = self.dir.path().join("data");
        let command = command.current_dir(self.dir.path()).arg("--data-dir").arg(data).args(arguments);
        command.output().expect("kenning runs")
    }

    fn ingest(&self, more: &[&str]) -> Value {
        let output = self.run(&[&["ingest", "catalogue", "--json"], more].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {output:?}"))
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let output = self.run(&["call", tool, &arguments.to_string(), "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no reply: {output:?}"))
    }
}

#[test]
fn a_catalogue_is_taken_in_with_the_warnings_it_deserves_and_no_others() {
    let place = Place::new();
    let files: Vec<PatternFile> = catalogue(FILES).collect();
    for file in &files {
        place.write(&file.path, &file.bytes);
    }
    // Two files with the same id.
    place.write("z/first.md", "---\nid: twice\ntitle: T\n---\nText.\n");
    place.write("z/second.md", "---\nid: twice\ntitle: T\n---\nText.\n");
    place.write("z/no-markdown.txt", "No pattern by its name.");
    let mut warned: BTreeSet<(String, String)> = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for file in &files {
        let path = file.path.clone();
        match &file.fate {
            Fate::Pattern(expected) => {
                warned.extend(expected.warnings.iter().map(|warning| (path.clone(), warning.clone())))
            }
            Fate::Document => {
                let warning = "it has no front matter, so it is a document and no pattern";
                warned.insert((path, warning.to_owned()));
            }
            Fate::Refused => {
                refused.insert(path);
            }
        }
    }
    let twice = "its id `twice` is that of z/first.md too, which is the one that is found";
    warned.insert(("z/second.md".to_owned(), twice.to_owned()));
    let wanted = |report: &Value| {
        let list = |name: &str, what: &str| -> BTreeSet<(String, String)> {
            let rows = report[name].as_array().expect("a list").iter();
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            rows.map(|row| (text(&row["path"]), text(&row[what]))).collect()
        };
        assert_eq!(list("warnings", "warning"), warned);
        let failed = list("failed", "error");
        assert_eq!(failed.iter().map(|(path, _)| path.clone()).collect::<BTreeSet<_>>(), refused);
        assert!(failed.iter().all(|(_, why)| !why.contains('\n')), "{failed:?}");
    };
    let planned = place.ingest(&["--kind", "patterns", "--dry-run"]);
    wanted(&planned);
    let report = place.ingest(&["--kind", "patterns"]);
    wanted(&report);
    assert_eq!(report["written"].as_array().map(Vec::len), Some(FILES + 2 - refused.len()));

    // Every field of a pattern has the value that its author meant.
    let engine = Engine::new(place.dir.path().join("data"), Engine::real_sources());
    let caller = Caller::new(None, "test".into(), "global:default".into());
    let mut seen = Seen::default();
    for file in &files {
        let Fate::Pattern(expected) = &file.fate else { continue };
        let arguments = json!({"id": expected.id, "format": "json"}).as_object().expect("an object").clone();
        let tool = find("get_pattern").expect("a tool");
        let reply = dispatch(&engine, &caller, Access::ReadOnly, tool, arguments).structured;
        check(&file.path, &reply, expected);
        seen.add(file, expected);
    }
    seen.check();

    // The source is still known as a catalogue, and no file in it has changed.
    let again = place.ingest(&[]);
    assert_eq!(again["unchanged"], json!(FILES + 2 - refused.len()), "{again}");
}

fn check(path: &str, reply: &Value, expected: &Expected) {
    let told = |name: &str| reply[name].as_str().map(str::to_owned);
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    assert_eq!(told("title").as_ref(), Some(&expected.title), "{path}: {reply}");
    assert_eq!(told("category").as_ref(), Some(&expected.category), "{path}");
    assert_eq!(reply["difficulty"].as_str(), expected.difficulty, "{path}");
    if let Some(summary) = &expected.summary {
        assert_eq!(told("summary").as_ref(), Some(summary), "{path}");
    }
    assert!(!reply["description"].as_str().unwrap_or_default().is_empty(), "{path}");
    assert_eq!(list(&reply["tags"]), expected.tags, "{path}");
    assert_eq!(list(&reply["relatedPatterns"]), expected.related, "{path}");
    assert_eq!(reply["useGuidance"]["useWhen"].as_str(), expected.use_when.as_deref(), "{path}");
    assert_eq!(reply["useGuidance"]["avoidWhen"].as_str(), expected.avoid_when.as_deref(), "{path}");
    let examples: Vec<Option<&str>> = reply["examples"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|example| {
            assert!(
                example["code"].as_str().is_some_and(|code| code.starts_with("run(")),
                "{path}: {example}"
            );
            example["language"].as_str()
        })
        .collect();
    assert_eq!(examples, expected.examples, "{path}");
    assert_eq!(reply["provenance"]["path"], path);
}

/// Collects all texts of the catalogue, to check that it uses every field under every name.
#[derive(Default)]
struct Seen {
    text: String,
}

impl Seen {
    fn add(&mut self, file: &PatternFile, expected: &Expected) {
        self.text.push_str(&String::from_utf8_lossy(&file.bytes));
        self.text.push_str(&format!("{} {:?}\n", file.path, expected.warnings));
    }

    fn check(&self) {
        for needle in [
            "\nid: ",
            "\ntitle: ",
            "\nsummary: ",
            "\ndescription: ",
            "\ncategory: ",
            "\napplicationPatternId: ",
            "\ndifficulty: advanced",
            "\nskillLevel: ",
            "\nskill_level: ",
            "\ntags: [",
            "\ntags:\n",
            "\nrelated: ",
            "\nrelatedPatterns: ",
            "\nrelated_patterns: ",
            "\nuseWhen: ",
            "\nuse_when: ",
            "\nuseWhen:\n",
            "\navoidWhen: ",
            "\navoid_when: ",
            "## When to use",
            "## Avoid when",
            "## See also",
            "~~~~",
            "```rust",
            "\r\n",
            "\u{feff}",
            ".mdx",
            "it has no id",
            "it has no title",
            "it has no category",
            "`expert`",
            "published/",
        ] {
            assert!(self.text.contains(needle), "the catalogue has no {needle:?}");
        }
    }
}

#[test]
fn a_catalogue_follows_its_files_and_can_be_taken_back() {
    let place = Place::new();
    let pattern = |text: &str| format!("---\nid: retry\ntitle: Retry\n---\n{text}\n");
    place.write("errors/retry.md", pattern("Try again."));
    place.write("README.md", "# The catalogue\n");
    let first = place.ingest(&["--kind", "patterns"]);
    assert_eq!(first["written"], json!(["README.md", "errors/retry.md"]));
    assert_eq!(place.call("get_pattern", json!({"id": "retry"}))["description"], "Try again.");
    place.write("errors/retry.md", pattern("Wait longer each time."));
    // The kind of the source is remembered and need not be given again.
    assert_eq!(place.ingest(&[])["written"], json!(["errors/retry.md"]));
    let found = place.call("search_patterns", json!({"q": "wait longer"}));
    assert_eq!(found["patterns"][0]["description"], "Wait longer each time.");
    assert_eq!(found["metadata"]["totalCount"], 1);

    let history = place.call("history", json!({"entity_type": "document", "limit": 1}));
    let tx = history["items"][0]["tx_id"].clone();
    place.call("undo", json!({"tx_id": tx, "any_actor": true}));
    assert_eq!(place.call("get_pattern", json!({"id": "retry"}))["description"], "Try again.");
    fs::remove_file(place.catalogue().join("errors/retry.md")).expect("it was there");
    assert_eq!(place.ingest(&[])["closed"], json!(["errors/retry.md"]));
    assert_eq!(place.call("get_pattern", json!({"id": "retry"}))["kind"], "needsInput:v1");

    let unknown = place.run(&["call", "get_pattern", r#"{"id": "retry"}"#]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");

    // Taken in as plain documents, the files are no patterns any more.
    place.write("errors/retry.md", pattern("Try again."));
    assert_eq!(place.ingest(&["--kind", "documents"])["written"].as_array().map(Vec::len), Some(2));
    assert_eq!(place.call("get_pattern", json!({"id": "retry"}))["kind"], "needsInput:v1");
    assert_eq!(
        place.call("kb.search", json!({"query": "try again"}))["results"][0]["path"],
        "errors/retry.md"
    );
}

#[test]
fn people_are_told_what_to_look_at() {
    let place = Place::new();
    place.write("a.md", "---\nid: a\ntitle: A\ncategory: c\ndifficulty: hard\n---\nText.\n");
    place.write("page.html", "<h1>No pattern</h1>");
    let output = place.run(&["ingest", "--kind", "patterns", "catalogue"]);
    assert!(output.status.success(), "a warning is no failure: {output:?}");
    let [told, warned] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(told.trim(), "Took 1 in as `catalogue`; 0 unchanged, 0 closed, 0 failed, 1 warning");
    assert_eq!(warned.trim(), "kenning: a.md: difficulty `hard` is none of beginner, intermediate, advanced");
    let named = place.run(&["ingest", "--kind", "patterns", "catalogue/page.html"]);
    let warned = String::from_utf8_lossy(&named.stderr).into_owned();
    assert!(!named.status.success() && warned.contains("it is no Markdown or MDX by its name"), "{warned}");
    assert!(Path::new(&place.catalogue()).exists());
}
