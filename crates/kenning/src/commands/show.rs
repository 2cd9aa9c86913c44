//! `kenning show ID`: shows one record completely, with its versions.

use clap::Args;
use kenning_engine::{Snapshot, Stored};
use kenning_model::{Document, EntityType, Id, Record, Section, TxId, clean};
use kenning_storage::View;
use kenning_tools::memory::item::{entry_items, triple_items};
use serde_json::{Value, json};

use super::refusal::Refused;
use super::store::{AsOf, Store};
use super::{Outcome, line, print};
use crate::config::Config;
use crate::terminal::{self, BOLD, DIM, ID, NAME, PLAIN, REMOVED, Table, Text, width};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning show K7H9M2PQX8
  kenning show K7H9M2PQX8 --as-of 1
  kenning show retry-backoff
  kenning show K7H9M2PQX8 --json")]
pub struct Show {
    /// Of an entry, a fact of the graph, a document, a section or a pattern
    id: String,
    /// As it was at this transaction or time
    #[arg(long, value_name = "TX|TIME")]
    as_of: Option<AsOf>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// At most this many of the newest versions are listed.
const VERSIONS_MAX: usize = 10;

pub fn run(config: &Config, show: Show) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, show.as_of)?;
    let snapshot = store.snapshot()?;
    let found = find(&store, &snapshot, &show.id)?;
    let Found { stored, deleted_by } = &found;
    let versions = Versions::of(&store, &snapshot, stored.record.entity_type(), stored.id)?;
    if show.json {
        let mut shown = as_json(&snapshot, stored)?;
        if let Some(tx) = deleted_by {
            shown["deleted_by"] = json!(tx);
        }
        shown["versions"] = versions.as_json();
        print(&shown.to_string())?;
        return Ok(Outcome::Done);
    }
    let mut shown = for_people(&snapshot, stored)?;
    if let Some(tx) = deleted_by {
        let hint = match stored.record {
            Record::Entry(_) | Record::Triple(_) => format!("kenning undelete {}", stored.id),
            _ => format!("kenning undo {tx}"),
        };
        let note = format!("Deleted by transaction {tx}; `{hint}` brings it back\n\n");
        shown = Text::styled(REMOVED, note).with(PLAIN, "");
        shown.append(for_people(&snapshot, stored)?);
    }
    shown.push(PLAIN, "\n\n");
    shown.append(versions.text());
    terminal::print(&shown)?;
    Ok(Outcome::Done)
}

struct Found {
    stored: Stored,
    /// The transaction that deleted the record, if it is not live.
    deleted_by: Option<TxId>,
}

/// Finds the live record with this id, or else its last version, or the pattern with this name.
fn find(store: &Store, snapshot: &Snapshot<'_>, name: &str) -> anyhow::Result<Found> {
    if let Some(id) = Id::parse(&name.to_ascii_uppercase()) {
        if let Some(stored) = store.find(snapshot, id)? {
            return Ok(Found { stored, deleted_by: None });
        }
        for kind in [EntityType::Entry, EntityType::Triple, EntityType::Document, EntityType::Section] {
            let touched = snapshot.transactions_of(kind, id)?;
            let Some(by) = touched.into_iter().rfind(|tx| *tx <= snapshot.at()) else { continue };
            let before =
                store.engine.snapshot_at(&store.caller.principal, Some(TxId(by.0.saturating_sub(1))))?;
            if let Some(stored) = before.records(kind, &[id])?.pop().flatten() {
                return Ok(Found { stored, deleted_by: Some(by) });
            }
        }
    }
    let sight = store.sight(snapshot, &store.scope(snapshot)?)?;
    let pattern = snapshot.pattern(&sight, name)?;
    let stored = pattern.ok_or_else(|| store.unknown("entry, fact, document, section or pattern", name))?;
    Ok(Found { stored, deleted_by: None })
}

fn as_json(snapshot: &Snapshot<'_>, stored: &Stored) -> anyhow::Result<Value> {
    let place = |scope| Ok::<_, anyhow::Error>(snapshot.scope_names(&[scope])?.of(scope));
    let (kind, mut shown) = match &stored.record {
        Record::Entry(_) => {
            let items = entry_items(snapshot, std::iter::once(stored)).map_err(Refused::from)?;
            ("entry", json!(items.first()))
        }
        Record::Triple(_) => {
            let items = triple_items(snapshot, std::slice::from_ref(stored)).map_err(Refused::from)?;
            ("triple", json!(items.first()))
        }
        Record::Document(document) => {
            let sections = snapshot.sections_of(stored.id)?;
            let sections =
                sections.iter().filter_map(|stored| Some((stored.id, stored.record.as_section()?)));
            let sections: Vec<Value> = sections
                .map(|(id, section)| json!({"id": id.to_string(), "title": section.title(), "level": section.level, "text": section.text}))
                .collect();
            let shown = json!({
                "id": stored.id.to_string(),
                "scope": place(document.scope)?,
                "source": document.source,
                "path": document.path,
                "title": document.title,
                "doc_tag": document.doc_tag,
                "tags": document.tags,
                "pattern": document.pattern.as_deref(),
                "version": document.version,
                "recorded_at": document.recorded_at,
                "sections": sections,
            });
            ("document", shown)
        }
        Record::Section(section) => {
            let shown = json!({
                "id": stored.id.to_string(),
                "scope": place(section.scope)?,
                "document": section.document.to_string(),
                "title": section.title(),
                "level": section.level,
                "text": section.text,
                "version": section.version,
                "recorded_at": section.recorded_at,
            });
            ("section", shown)
        }
        Record::Namespace(_) | Record::Scope(_) => ("scope", json!({})),
    };
    if let Some(fields) = shown.as_object_mut() {
        fields.shift_insert(0, "kind".to_owned(), json!(kind));
    }
    Ok(shown)
}

fn for_people(snapshot: &Snapshot<'_>, stored: &Stored) -> anyhow::Result<Text> {
    match &stored.record {
        Record::Entry(_) => entry(snapshot, stored),
        Record::Triple(_) => triple(snapshot, stored),
        Record::Document(found) => document(snapshot, stored.id, found),
        Record::Section(found) => section(snapshot, stored.id, found),
        Record::Namespace(_) | Record::Scope(_) => Ok(Text::new()),
    }
}

/// The head of the output: a first line with id and title, then a line for each field that is set.
struct Head(Text);

impl Head {
    fn new(id: &str, title: &str) -> Head {
        let mut text = Text::styled(ID, id);
        if !title.is_empty() {
            text.push(PLAIN, "  ");
            text.push(BOLD, line(title));
        }
        Head(text)
    }

    fn field(mut self, name: &str, value: impl AsRef<str>) -> Head {
        if !value.as_ref().is_empty() {
            self.0.push(DIM, format!("\n  {name:<11}"));
            self.0.push(PLAIN, line(value.as_ref()));
        }
        self
    }

    fn body(mut self, text: &str) -> Text {
        self.0.push(PLAIN, "\n\n");
        self.0.append(Text::plain(clean(text).trim_end()).wrapped(2, width()));
        self.0
    }
}

fn entry(snapshot: &Snapshot<'_>, stored: &Stored) -> anyhow::Result<Text> {
    let items = entry_items(snapshot, std::iter::once(stored)).map_err(Refused::from)?;
    let Some(item) = items.first() else { return Ok(Text::new()) };
    let sizes: Vec<String> = item.task_sizes.iter().map(|size| format!("{size:?}")).collect();
    let set = |value: &Option<String>| value.clone().unwrap_or_default();
    let head = Head::new(&item.id, &item.topic)
        .field("scope", &item.scope)
        .field("tags", item.tags.join(", "))
        .field("status", super::list::state(item).unwrap_or_default())
        .field("context", set(&item.context))
        .field("task sizes", sizes.join(", "))
        .field("source", set(&item.source))
        .field("confidence", item.confidence.map(|sure| sure.to_string()).unwrap_or_default())
        .field("valid from", set(&item.valid_from))
        .field("valid to", set(&item.valid_to))
        .field("follows", set(&item.follows));
    Ok(head.body(&item.content))
}

fn triple(snapshot: &Snapshot<'_>, stored: &Stored) -> anyhow::Result<Text> {
    let items = triple_items(snapshot, std::slice::from_ref(stored)).map_err(Refused::from)?;
    let Some(item) = items.first() else { return Ok(Text::new()) };
    let head = Head::new(&item.id, &format!("{} ─ {} → {}", item.subject, item.predicate, item.object))
        .field("scope", &item.scope)
        .field("source", item.source.clone().unwrap_or_default())
        .field("confidence", item.confidence.map(|sure| sure.to_string()).unwrap_or_default());
    Ok(head.0)
}

fn document(snapshot: &Snapshot<'_>, id: Id, document: &Document) -> anyhow::Result<Text> {
    let scope = snapshot.scope_names(&[document.scope])?.of(document.scope);
    let mut head = Head::new(id.as_str(), &document.title)
        .field("scope", scope)
        .field("source", &document.source)
        .field("path", &document.path)
        .field("doc tag", &document.doc_tag)
        .field("tags", document.tags.join(", "));
    if let Some(pattern) = &document.pattern {
        head = head
            .field("pattern", &pattern.id)
            .field("category", &pattern.category)
            .field("difficulty", pattern.difficulty.clone().unwrap_or_default())
            .field("related", pattern.related.join(", "))
            .field("use when", pattern.use_when.clone().unwrap_or_default())
            .field("avoid when", pattern.avoid_when.clone().unwrap_or_default());
    }
    let mut shown = head.0;
    for stored in snapshot.sections_of(id)? {
        let Some(section) = stored.record.as_section() else { continue };
        shown.push(PLAIN, "\n\n");
        shown.push(ID, stored.id.as_str());
        shown.push(PLAIN, "  ");
        shown.push(BOLD, line(section.heading_path.last().map_or("", |heading| heading)));
        if !section.text.trim().is_empty() {
            shown.push(PLAIN, "\n");
            shown.append(Text::plain(clean(&section.text).trim_end()).wrapped(2, width()));
        }
    }
    Ok(shown)
}

fn section(snapshot: &Snapshot<'_>, id: Id, section: &Section) -> anyhow::Result<Text> {
    let scope = snapshot.scope_names(&[section.scope])?.of(section.scope);
    let stored = snapshot.document(section.document)?;
    let document = stored.as_ref().and_then(|stored| stored.record.as_document());
    let of = document.map(|document| format!("{} ({}/{})", section.document, document.source, document.path));
    let head = Head::new(id.as_str(), &section.title())
        .field("scope", scope)
        .field("document", of.unwrap_or_else(|| section.document.to_string()))
        .field("doc tag", &section.doc_tag);
    Ok(head.body(&section.text))
}

/// The newest versions of a record, newest first.
pub struct Versions {
    shown: Vec<Version>,
    left_out: usize,
}

struct Version {
    tx: TxId,
    /// The version's number; `None` for a deletion.
    number: Option<u32>,
    at: String,
    actor: String,
    tool: String,
}

impl Versions {
    pub fn of(store: &Store, snapshot: &Snapshot<'_>, kind: EntityType, id: Id) -> anyhow::Result<Versions> {
        let mut touched = snapshot.transactions_of(kind, id)?;
        touched.retain(|tx| *tx <= snapshot.at());
        let mut shown = Vec::new();
        for tx in touched.iter().rev().take(VERSIONS_MAX) {
            let Some(header) = snapshot.transaction(*tx, View::HEADER)? else { continue };
            let then = store.engine.snapshot_at(&store.caller.principal, Some(*tx))?;
            let stored = then.records(kind, &[id])?.pop().flatten();
            shown.push(Version {
                tx: *tx,
                number: stored.map(|stored| stored.record.version()),
                at: to_the_second(&header.at.to_string()),
                actor: clean(&header.actor),
                tool: header.tool,
            });
        }
        Ok(Versions { left_out: touched.len() - shown.len(), shown })
    }

    fn text(&self) -> Text {
        let mut table = Table::new(&["VERSION", "TX", "WHEN", "WHO", "HOW"]).numbers(&[0, 1]);
        for version in &self.shown {
            let number = version.number.map_or_else(|| "deleted".to_owned(), |number| number.to_string());
            table.row(vec![
                Text::plain(number),
                Text::styled(ID, version.tx.to_string()),
                Text::styled(DIM, version.at.replace('T', " ").trim_end_matches('Z')),
                Text::styled(NAME, line(&version.actor)),
                Text::plain(&version.tool),
            ]);
        }
        let mut shown = table.text();
        if self.left_out > 0 {
            shown.push(DIM, format!("\nand {} older", self.left_out));
        }
        shown
    }

    fn as_json(&self) -> Value {
        let version = |version: &Version| {
            let Version { tx, number, at, actor, tool } = version;
            json!({"version": number, "tx_id": tx, "at": at, "actor": actor, "tool": tool})
        };
        json!(self.shown.iter().map(version).collect::<Vec<_>>())
    }
}

/// A time without its fraction: `2026-01-01T00:06:00.125Z` becomes `2026-01-01T00:06:00Z`.
pub fn to_the_second(at: &str) -> String {
    match at.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => at.to_owned(),
    }
}
