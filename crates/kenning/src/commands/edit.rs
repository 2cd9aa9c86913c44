//! `kenning edit ID`: opens an entry as a file in an editor, with its fields in front matter.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;
use kenning_model::{Entry, Id};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::refusal::Refused;
use super::store::Store;
use super::{Outcome, complain, print, usage};
use crate::config::Config;
use crate::terminal::{self, DIM, ID, PLAIN, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning edit K7H9M2PQX8

The editor is $VISUAL, else $EDITOR, else vi. What was typed is kept in a file whenever it could not be saved.")]
pub struct Edit {
    /// Of the entry
    id: String,
    /// Take the changed entry from this file, which an earlier `kenning edit` kept
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The fields of the entry, as the front matter has them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fields {
    /// The version of the entry that the user began to edit.
    version: u64,
    scope: Option<String>,
    topic: Option<String>,
    tags: Option<Vec<String>>,
    pinned: Option<bool>,
    context: Option<String>,
    task_sizes: Option<Vec<String>>,
    source: Option<String>,
    confidence: Option<f64>,
    valid_from: Option<String>,
    valid_to: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct EntryPage {
    fields: Fields,
    content: String,
}

const RULE: &str = "---\n";

pub fn run(config: &Config, edit: Edit) -> anyhow::Result<Outcome> {
    if config.read_only {
        return Err(usage("`edit` writes, and `--read-only` was given"));
    }
    let store = Store::existing(config, None)?;
    let id = store.id(&edit.id)?;
    let (before, scope) = {
        let snapshot = store.snapshot()?;
        let stored = snapshot.entry(id)?.ok_or_else(|| store.unknown("entry", &edit.id))?;
        let entry = stored.record.as_entry().context("an entry is an entry")?.clone();
        let scope = snapshot.scope_names(&[entry.scope])?.of(entry.scope);
        (entry, scope)
    };
    let before = EntryPage::of(&before, scope);
    let file = match &edit.from {
        Some(path) => path.clone(),
        None => {
            let mut file =
                tempfile::Builder::new().prefix(&format!("kenning-{id}-")).suffix(".md").tempfile()?;
            std::io::Write::write_all(&mut file, before.text().as_bytes())?;
            // From here on the file is removed only after its content was saved, so the user's text is not
            // lost.
            let (_, path) = file.keep().context("the entry can't be written to a file")?;
            if let Err(error) = open_editor(&path) {
                return Err(error_with_kept_file(&path, &before, error));
            }
            path
        }
    };
    match save(config, &store, id, &before, &file) {
        Ok(saved) => {
            if edit.from.is_none() {
                std::fs::remove_file(&file).ok();
            }
            tell(id, saved, edit.json)?;
            Ok(Outcome::Done)
        }
        Err(error) if edit.from.is_some() => Err(error),
        Err(error) => Err(error_with_kept_file(&file, &before, error)),
    }
}

/// Saves the changes and returns the tool's reply; `None` if nothing was changed.
fn save(
    config: &Config,
    store: &Store,
    id: Id,
    before: &EntryPage,
    file: &Path,
) -> anyhow::Result<Option<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    let after = EntryPage::parse(&text).map_err(usage)?;
    let arguments = after.changes_from(before);
    if arguments.is_empty() {
        return Ok(None);
    }
    let mut call = Map::from_iter([
        ("id".to_owned(), json!(id.to_string())),
        ("expected_version".to_owned(), json!(after.fields.version)),
    ]);
    call.extend(arguments);
    match store.call(config, "update", Value::Object(call)) {
        Ok(reply) => Ok(Some(reply.structured)),
        Err(error) => {
            let now = store.snapshot()?.entry(id)?.map(|stored| stored.record.version());
            match now {
                Some(now) if u64::from(now) != after.fields.version => {
                    let since = after.fields.version;
                    Err(Refused {
                        outcome: Outcome::Failed,
                        message: format!(
                            "`{id}` was changed by somebody else since: it is at version {now}, your text began with version {since}. \
                             `kenning diff {id}` shows what changed; take that over and write `version: {now}`"
                        ),
                    }
                    .into())
                }
                _ => Err(error),
            }
        }
    }
}

/// Adds to an error the path of the file that keeps the user's text. A file without changes is removed
/// instead.
fn error_with_kept_file(file: &Path, before: &EntryPage, error: anyhow::Error) -> anyhow::Error {
    if std::fs::read_to_string(file).is_ok_and(|text| text == before.text()) {
        std::fs::remove_file(file).ok();
        return error;
    }
    let (outcome, message) = super::explain(error);
    let path = file.display();
    let message = format!(
        "{message}\nNothing was saved. Your text is in {path}; correct it there, then `kenning edit ID --from {path}`"
    );
    Refused { outcome, message }.into()
}

fn tell(id: Id, saved: Option<Value>, as_json: bool) -> anyhow::Result<()> {
    let Some(saved) = saved else {
        match as_json {
            true => print(&json!({"id": id.to_string(), "changed": false}).to_string())?,
            false => complain("nothing was changed"),
        }
        return Ok(());
    };
    if as_json {
        print(&saved.to_string())?;
        return Ok(());
    }
    let (version, tx) = (&saved["version"], &saved["tx_id"]);
    let mut shown = Text::plain("Changed ").with(ID, id.to_string());
    shown.push(PLAIN, format!(" to version {version}"));
    shown.push(DIM, format!(" (transaction {tx}; `kenning undo {tx}` takes it back)"));
    terminal::print(&shown)?;
    Ok(())
}

fn open_editor(file: &Path) -> anyhow::Result<()> {
    let named = |name: &str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // The variable may contain arguments too, such as `code --wait`.
    let mut command = if cfg!(unix) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{editor} \"$1\"")).arg("kenning").arg(file);
        shell
    } else {
        let mut words = editor.split_whitespace();
        let mut program = Command::new(words.next().unwrap_or("notepad"));
        program.args(words).arg(file);
        program
    };
    let ended = command.status().with_context(|| format!("the editor `{editor}` can't be started"))?;
    anyhow::ensure!(ended.success(), "the editor `{editor}` ended with {ended}");
    Ok(())
}

impl EntryPage {
    fn of(entry: &Entry, scope: String) -> EntryPage {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let fields = Fields {
            version: entry.version.into(),
            scope: Some(scope),
            topic: Some(entry.topic.clone()),
            tags: Some(entry.tags.clone()),
            pinned: Some(entry.pinned),
            context: set(&entry.context),
            task_sizes: Some(entry.task_sizes.iter().map(|size| format!("{size:?}")).collect()),
            source: set(&entry.source),
            confidence: entry.confidence,
            valid_from: entry.valid_from.map(|at| at.to_string()),
            valid_to: entry.valid_to.map(|at| at.to_string()),
        };
        EntryPage { fields, content: entry.content.clone() }
    }

    /// The text of the file: each field on a line of its own, then the content.
    fn text(&self) -> String {
        let Fields { version, scope, topic, tags, pinned, context, task_sizes, source, .. } = &self.fields;
        let text = |value: &Option<String>| value.as_deref().map(scalar).unwrap_or_default();
        let list = |values: &Option<Vec<String>>| {
            let values: Vec<String> = values.iter().flatten().map(|value| scalar(value)).collect();
            format!("[{}]", values.join(", "))
        };
        let confidence = self.fields.confidence.map(|sure| sure.to_string()).unwrap_or_default();
        let lines = [
            ("version", version.to_string()),
            ("scope", text(scope)),
            ("topic", text(topic)),
            ("tags", list(tags)),
            ("pinned", pinned.unwrap_or(false).to_string()),
            ("context", text(context)),
            ("task_sizes", list(task_sizes)),
            ("source", text(source)),
            ("confidence", confidence),
            ("valid_from", text(&self.fields.valid_from)),
            ("valid_to", text(&self.fields.valid_to)),
        ];
        let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{RULE}{lines}{RULE}\n{}\n", self.content)
    }

    fn parse(text: &str) -> Result<EntryPage, String> {
        let text = text.replace("\r\n", "\n");
        let inside = text.strip_prefix(RULE).ok_or("line 1: the file must begin with a line `---`")?;
        let (fields, content) = inside
            .split_once(&format!("\n{RULE}"))
            .ok_or("there is no second line `---` after which the text begins")?;
        // A first line takes the place of the `---`, so that line numbers in errors are those that the editor
        // shows.
        let fields: Fields =
            serde_saphyr::from_str(&format!("#\n{fields}\n")).map_err(|error| error.to_string())?;
        if fields.version == 0 {
            return Err("the line `version` says with which version you began, and must stay".to_owned());
        }
        // Editors end the last line with a newline, which is not part of the content.
        let content = content.strip_prefix('\n').unwrap_or(content);
        let content = content.strip_suffix('\n').unwrap_or(content).to_owned();
        if content.trim().is_empty() {
            return Err("there is no text any more; `kenning rm` deletes an entry".to_owned());
        }
        Ok(EntryPage { fields, content })
    }

    /// The arguments of `update` that turn the page `before` into this one.
    fn changes_from(&self, before: &EntryPage) -> Map<String, Value> {
        let (mut changes, mut cleared) = (Map::new(), Vec::new());
        let [new, old] = [&self.fields, &before.fields];
        let mut compare = |name: &str, new: Value, old: Value, can_clear: bool| {
            let is_unset = |value: &Value| value.is_null() || value == "" || *value == json!([]);
            if new == old || (is_unset(&new) && is_unset(&old)) {
                return;
            }
            match is_unset(&new) && can_clear {
                true => cleared.push(name.to_owned()),
                false if new.is_null() => {
                    changes.insert(name.to_owned(), json!(""));
                }
                false => {
                    changes.insert(name.to_owned(), new);
                }
            }
        };
        compare("content", json!(self.content), json!(before.content), false);
        compare("topic", json!(new.topic), json!(old.topic), false);
        compare("tags", json!(new.tags), json!(old.tags), true);
        compare("context", json!(new.context), json!(old.context), true);
        compare("task_sizes", json!(new.task_sizes), json!(old.task_sizes), true);
        compare("source", json!(new.source), json!(old.source), true);
        compare("confidence", json!(new.confidence), json!(old.confidence), true);
        compare("valid_from", json!(new.valid_from), json!(old.valid_from), true);
        compare("valid_to", json!(new.valid_to), json!(old.valid_to), true);
        compare("pinned", json!(new.pinned.unwrap_or(false)), json!(old.pinned.unwrap_or(false)), false);
        // If the line was removed, the entry stays in its scope.
        if let Some(scope) = &new.scope {
            compare("scope", json!(scope), json!(old.scope), false);
        }
        if !cleared.is_empty() {
            changes.insert("clear".to_owned(), json!(cleared));
        }
        changes
    }
}

/// A text as YAML: plain if YAML cannot read it as anything but this text, otherwise quoted as in JSON, which
/// is valid YAML.
fn scalar(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.split(' ').all(|word| !word.is_empty() && word.chars().all(is_word) && !word.ends_with(':'))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { json!(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> EntryPage {
        let fields = Fields {
            version: 3,
            scope: Some("acme:web".to_owned()),
            topic: Some("time: a \"hard\" topic".to_owned()),
            tags: Some(vec!["ops".to_owned(), "no".to_owned(), "größe".to_owned()]),
            pinned: Some(false),
            task_sizes: Some(vec!["XS".to_owned()]),
            confidence: Some(0.5),
            valid_to: Some("2026-12-01T00:00:00Z".to_owned()),
            ..Fields::default()
        };
        EntryPage { fields, content: "One.\n\n---\nTwo: with a rule.\n".to_owned() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let page = page();
        let read = EntryPage::parse(&page.text()).expect("a good page");
        assert_eq!(read, page);
        assert_eq!(read.changes_from(&page), Map::new());
        assert_eq!(EntryPage::parse(&page.text().replace('\n', "\r\n")).expect("a good page"), page);
    }

    #[test]
    fn only_what_is_another_is_changed() {
        let before = page();
        let text = before.text().replace("One.", "Uno.").replace("confidence: 0.5", "confidence:");
        let after = EntryPage::parse(&text.replace("tags: [", "tags: [new, ")).expect("a good page");
        let changes = after.changes_from(&before);
        assert_eq!(changes["content"], "Uno.\n\n---\nTwo: with a rule.\n");
        assert_eq!(changes["clear"], json!(["confidence"]));
        assert_eq!(changes["tags"], json!(["new", "ops", "no", "größe"]));
        assert_eq!(changes.len(), 3);
    }

    #[test]
    fn a_bad_page_says_where() {
        let text = page().text();
        let wrong = |text: &str| EntryPage::parse(text).expect_err("it is bad");
        assert!(wrong("no front matter").contains("line 1"));
        assert!(wrong(&text.replace("pinned: false", "pinned: perhaps")).contains("line 6"));
        assert!(wrong(&text.replace("tags: ", "tgas: ")).contains("tgas"));
        assert!(wrong(&text.replace("version: 3\n", "")).contains("version"));
        assert!(wrong("---\nversion: 3\n---\n\n").contains("no text"));
    }
}
