//! Entries, triples and transactions as replies and resources show them: with control characters removed,
//! with their provenance, and without the fields that are not set.

use std::collections::BTreeSet;

use kenning_engine::{Sight, Snapshot};
use kenning_model::{
    Change, DEFAULT, Document, EntityType, Entry, Id, Namespace, Record, Scope, ScopeId, ScopeNames, Status,
    TaskSize, Timestamp, Transaction, Triple,
};
use kenning_presentation::text::{clean, cut, fence};
use kenning_storage::{Committed, Stored, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::code::counted;

/// A transaction that does not fit into a reply is shown with its contents cut. All its changes together may
/// have this many bytes of content, which leaves room for two versions of each change and for JSON, which may
/// double the size.
const CUT_BYTES_ALL: usize = 6 * 1024;
const CUT_BYTES_MAX: usize = 4 * 1024;
/// The length to which a context is cut if it does not fit into a reply.
const CONTEXT_BYTES: usize = 1024;
/// The largest number of changes of one transaction in a reply.
pub const CHANGES_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntryItem {
    pub id: String,
    pub scope: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_sizes: Vec<Size>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub source: Option<String>,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub valid_from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub valid_to: Option<String>,
    pub status: State,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The id of the entry before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub follows: Option<String>,
    pub version: u32,
    pub recorded_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub updated_at: Option<String>,
    pub tx_id: u64,
    /// True when it did not fit and was cut; `knowledge://entries/{id}` has all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The reason why an ordinary search does not find the entry: `suppressed`, `expired` or `not yet valid`.
    #[serde(skip)]
    pub hidden: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Active,
    Suppressed,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum Size {
    XS,
    S,
    M,
    L,
    XL,
}

impl From<TaskSize> for Size {
    fn from(size: TaskSize) -> Size {
        match size {
            TaskSize::XS => Size::XS,
            TaskSize::S => Size::S,
            TaskSize::M => Size::M,
            TaskSize::L => Size::L,
            TaskSize::XL => Size::XL,
        }
    }
}

impl From<Size> for TaskSize {
    fn from(size: Size) -> TaskSize {
        match size {
            Size::XS => TaskSize::XS,
            Size::S => TaskSize::S,
            Size::M => TaskSize::M,
            Size::L => TaskSize::L,
            Size::XL => TaskSize::XL,
        }
    }
}

impl EntryItem {
    pub fn new(id: String, tx_id: u64, entry: &Entry, names: &ScopeNames, now: Timestamp) -> EntryItem {
        EntryItem {
            hidden: hidden(entry, now),
            id,
            scope: names.of(entry.scope),
            topic: clean(&entry.topic),
            content: clean(&entry.content),
            context: entry.context.as_deref().map(clean),
            tags: entry.tags.iter().map(|tag| clean(tag)).collect(),
            task_sizes: entry.task_sizes.iter().map(|size| Size::from(*size)).collect(),
            source: entry.source.as_deref().map(clean),
            actor: clean(&entry.actor),
            confidence: entry.confidence,
            valid_from: entry.valid_from.map(moment),
            valid_to: entry.valid_to.map(moment),
            status: match entry.status {
                Status::Active => State::Active,
                Status::Suppressed => State::Suppressed,
            },
            pinned: entry.pinned,
            follows: entry.follows.map(|id| id.to_string()),
            version: entry.version,
            recorded_at: moment(entry.recorded_at),
            updated_at: entry.updated_at.map(moment),
            tx_id,
            truncated: false,
        }
    }

    /// Cuts the content to half of its cap. That always fits, because quotes and line breaks take two bytes
    /// in JSON.
    pub fn cut_to_fit(mut self) -> EntryItem {
        let fits = crate::arguments::CONTENT_BYTES_MAX / 2;
        let context = self.context.as_ref().map_or(0, String::len);
        self.truncated = self.content.len() > fits || context > CONTEXT_BYTES;
        self.content = cut(&self.content, fits);
        self.context = self.context.map(|context| cut(&context, CONTEXT_BYTES));
        self
    }

    /// The changed fields besides topic and content: `, changed: scope acme:web > acme:app; tags, source`.
    fn other_changes(&self, before: &EntryItem) -> String {
        let moved = (self.scope != before.scope).then(|| format!("scope {} > {}", before.scope, self.scope));
        let others = [
            ("context", self.context != before.context),
            ("tags", self.tags != before.tags),
            ("task_sizes", self.task_sizes != before.task_sizes),
            ("source", self.source != before.source),
            ("confidence", self.confidence != before.confidence),
            ("valid_from", self.valid_from != before.valid_from),
            ("valid_to", self.valid_to != before.valid_to),
            ("pinned", self.pinned != before.pinned),
            ("follows", self.follows != before.follows),
        ];
        let others: Vec<&str> =
            others.into_iter().filter(|(_, is_other)| *is_other).map(|(name, _)| name).collect();
        let others = Some(others.join(", ")).filter(|names| !names.is_empty());
        match moved.into_iter().chain(others).collect::<Vec<_>>() {
            changed if changed.is_empty() => String::new(),
            changed => format!(", changed: {}", changed.join("; ")),
        }
    }

    /// Cuts the content to `bytes`, and the other texts in proportion.
    fn shortened(mut self, bytes: usize) -> EntryItem {
        self.truncated = true;
        self.content = cut(&self.content, bytes);
        self.topic = cut(&self.topic, bytes / 4);
        self.context = self.context.map(|context| cut(&context, bytes / 4));
        self.source = self.source.map(|source| cut(&source, bytes / 8));
        self.tags.clear();
        self
    }
}

/// An entry as lists show it: what was stored, and what is needed to go on. `detail: "full"`, resources and result sets
/// have the rest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeanEntry {
    pub id: String,
    pub version: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub topic: String,
    /// All of it, or there is an `excerpt` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub content: Option<String>,
    /// The best parts of a content that does not fit, with `[…]` where something is missing; `ids` of `query` gives all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub excerpt: Option<String>,
    /// How long the whole content is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub bytes: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub confidence: Option<f64>,
    pub recorded_at: String,
    /// If it is not the one that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub scope: Option<String>,
    /// If it is not active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "State")]
    pub status: Option<State>,
    #[serde(skip)]
    hidden: Option<&'static str>,
}

impl LeanEntry {
    /// `parts` shortens a text to its best parts if it is longer than `room`.
    pub fn new(
        item: EntryItem,
        asked: &str,
        room: usize,
        parts: impl Fn(&str, usize) -> String,
    ) -> LeanEntry {
        let (mut content, mut excerpt, mut bytes) = (None, None, None);
        if item.content.len() <= room {
            content = Some(item.content);
        } else {
            bytes = Some(item.content.len());
            excerpt = Some(parts(&item.content, room));
        }
        LeanEntry {
            id: item.id,
            version: item.version,
            topic: item.topic,
            content,
            excerpt,
            bytes,
            tags: item.tags,
            confidence: item.confidence,
            recorded_at: item.recorded_at,
            scope: Some(item.scope).filter(|scope| scope != asked),
            status: Some(item.status).filter(|status| *status != State::Active),
            hidden: item.hidden,
        }
    }

    /// The entry for the text channel. The first line begins with the id and the lines of the content are
    /// indented, so content can't pass for another entry.
    pub fn lines(&self) -> String {
        let scope = self.scope.as_ref().map(|scope| format!(" ({scope})")).unwrap_or_default();
        let hidden = self.hidden.map(|why| format!(" ({why})")).unwrap_or_default();
        let topic =
            if self.topic.is_empty() { String::new() } else { format!(" {}", one_line(&self.topic, 512)) };
        let tags = if self.tags.is_empty() {
            String::new()
        } else {
            format!(" [{}]", one_line(&self.tags.join(", "), 200))
        };
        let cut = self.bytes.map(|bytes| format!(" (parts of {bytes} bytes)")).unwrap_or_default();
        let text = self.content.as_ref().or(self.excerpt.as_ref()).map_or("", String::as_str);
        let text = text.replace('\n', "\n  ");
        format!("{} v{}{scope}{hidden}{topic}{tags}{cut}\n  {text}", self.id, self.version)
    }
}

/// How much of each thing a list shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    #[default]
    Lean,
    Full,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TripleItem {
    pub id: String,
    pub scope: String,
    pub subject: String,
    pub predicate: String,
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub source: Option<String>,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub confidence: Option<f64>,
    pub version: u32,
    pub recorded_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub updated_at: Option<String>,
    pub tx_id: u64,
    /// How many steps from the name that was asked for; where more than one was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub distance: Option<u32>,
}

impl TripleItem {
    pub fn new(id: String, tx_id: u64, triple: &Triple, names: &ScopeNames) -> TripleItem {
        TripleItem {
            id,
            scope: names.of(triple.scope),
            subject: clean(&triple.subject),
            predicate: clean(&triple.predicate),
            object: clean(&triple.object),
            source: triple.source.as_deref().map(clean),
            actor: clean(&triple.actor),
            confidence: triple.confidence,
            version: triple.version,
            recorded_at: moment(triple.recorded_at),
            updated_at: triple.updated_at.map(moment),
            tx_id,
            distance: None,
        }
    }

    pub fn of(stored: &Stored, names: &ScopeNames) -> Option<TripleItem> {
        let triple = stored.record.as_triple()?;
        Some(TripleItem::new(stored.id.to_string(), stored.tx_id.0, triple, names))
    }

    fn shortened(mut self, bytes: usize) -> TripleItem {
        for field in [&mut self.subject, &mut self.predicate, &mut self.object] {
            *field = cut(field, bytes / 2);
        }
        self.source = self.source.map(|source| cut(&source, bytes / 8));
        self
    }

    /// The triple on one line: `subject -- predicate -> object`.
    pub fn line(&self, bytes_max: usize) -> String {
        cut(&fact_line(&self.subject, &self.predicate, &self.object), bytes_max)
    }
}

/// A triple as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LeanTriple {
    id: String,
    subject: String,
    predicate: String,
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    confidence: Option<f64>,
    /// If it is not the one that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    scope: Option<String>,
    /// How many steps from the name that was asked for; where more than one was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub(super) distance: Option<u32>,
}

impl LeanTriple {
    pub(crate) fn new(item: TripleItem, asked: &str) -> LeanTriple {
        LeanTriple {
            id: item.id,
            subject: item.subject,
            predicate: item.predicate,
            object: item.object,
            confidence: item.confidence,
            scope: Some(item.scope).filter(|scope| scope != asked),
            distance: item.distance,
        }
    }

    pub(crate) fn line(&self) -> String {
        let far = self.distance.map(|far| format!(" {far}")).unwrap_or_default();
        let scope = self.scope.as_ref().map(|scope| format!(" ({scope})")).unwrap_or_default();
        let sure =
            self.confidence.map(|confidence| format!(" (confidence {confidence})")).unwrap_or_default();
        let fact = fact_line(&self.subject, &self.predicate, &self.object);
        format!("{}{far}{scope} {fact}{sure}", self.id)
    }
}

/// A triple on one line: `subject -- predicate -> object`
pub(super) fn fact_line(subject: &str, predicate: &str, object: &str) -> String {
    let [subject, predicate, object] = [subject, predicate, object].map(|text| one_line(text, usize::MAX));
    format!("{subject} -- {predicate} -> {object}")
}

/// Entries with the names of their scopes, as of a snapshot.
pub fn entry_items<'a>(
    snapshot: &Snapshot<'_>,
    stored: impl Iterator<Item = &'a Stored> + Clone,
) -> Result<Vec<EntryItem>, Stop> {
    let names = names_of(snapshot, stored.clone().map(|stored| &stored.record))?;
    let now = snapshot.now();
    let mut items = Vec::new();
    for stored in stored {
        if let Some(entry) = stored.record.as_entry() {
            let mut item = EntryItem::new(stored.id.to_string(), stored.tx_id.0, entry, &names, now);
            hide_stranger(snapshot, entry, &mut item)?;
            items.push(item);
        }
    }
    Ok(items)
}

/// Removes the id in `follows` if that entry has moved to another scope, because the reader may not be
/// allowed to see it there.
fn hide_stranger(snapshot: &Snapshot<'_>, entry: &Entry, item: &mut EntryItem) -> Result<(), Stop> {
    if let Some(before) = entry.follows {
        let stored = snapshot.entry(before)?;
        let is_here = stored.is_some_and(|stored| stored.record.scope() == Some(entry.scope));
        item.follows = item.follows.take().filter(|_| is_here);
    }
    Ok(())
}

pub fn triple_items(snapshot: &Snapshot<'_>, stored: &[Stored]) -> Result<Vec<TripleItem>, Stop> {
    let names = names_of(snapshot, stored.iter().map(|stored| &stored.record))?;
    Ok(stored.iter().filter_map(|stored| TripleItem::of(stored, &names)).collect())
}

pub fn transaction_items(
    snapshot: &Snapshot<'_>,
    transactions: &[Transaction],
) -> Result<Vec<TransactionItem>, Stop> {
    let changes = transactions.iter().flat_map(|tx| tx.changes.iter().take(CHANGES_MAX));
    let sides =
        changes.flat_map(|change| change.before.iter().map(|before| &before.record).chain(&change.after));
    let names = names_of(snapshot, sides)?;
    let now = snapshot.now();
    let mut items: Vec<TransactionItem> =
        transactions.iter().map(|tx| TransactionItem::new(tx, &names, now)).collect();
    let changes = items.iter_mut().flat_map(|item| &mut item.changes);
    for side in changes.flat_map(|change| [&mut change.before, &mut change.after]).flatten() {
        // An old version may follow an entry that is in another scope now; its id is shown only if it is
        // still in the same scope.
        if let RecordItem::Entry(entry) = side
            && let Some(before) = entry.follows.as_deref().and_then(Id::parse)
        {
            let stored = snapshot.entry(before)?;
            let scope = stored.and_then(|stored| stored.record.scope());
            let is_here = scope.is_some_and(|scope| names.of(scope) == entry.scope);
            entry.follows = entry.follows.take().filter(|_| is_here);
        }
    }
    Ok(items)
}

/// The names of the scopes that these records are in or refer to.
fn names_of<'a>(
    snapshot: &Snapshot<'_>,
    records: impl Iterator<Item = &'a Record>,
) -> Result<ScopeNames, Stop> {
    let mut scopes: BTreeSet<ScopeId> = BTreeSet::new();
    for record in records {
        scopes.extend(record.scope());
        if let Record::Scope(scope) = record {
            scopes.insert(scope.number);
            scopes.extend(&scope.parents);
        }
    }
    Ok(snapshot.scope_names(&scopes.into_iter().collect::<Vec<_>>())?)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceItem {
    pub name: String,
    pub description: String,
    pub actor: String,
    pub version: u32,
    pub recorded_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub updated_at: Option<String>,
    pub tx_id: u64,
}

impl NamespaceItem {
    fn new(tx_id: u64, namespace: &Namespace) -> NamespaceItem {
        NamespaceItem {
            name: namespace.name.clone(),
            description: clean(&namespace.description),
            actor: clean(&namespace.actor),
            version: namespace.version,
            recorded_at: moment(namespace.recorded_at),
            updated_at: namespace.updated_at.map(moment),
            tx_id,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeItem {
    pub scope: String,
    pub description: String,
    pub parents: Vec<String>,
    pub actor: String,
    pub version: u32,
    pub recorded_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub updated_at: Option<String>,
    pub tx_id: u64,
}

impl ScopeItem {
    fn new(tx_id: u64, scope: &Scope, names: &ScopeNames) -> ScopeItem {
        let now = names.of(scope.number);
        let namespace = now.split(':').next().unwrap_or_default();
        let mut parents: Vec<String> = scope.parents.iter().map(|parent| names.of(*parent)).collect();
        if scope.name != DEFAULT {
            parents.push(format!("{namespace}:{DEFAULT}"));
        }
        ScopeItem {
            // The scope's name in this version, and the namespace's present name.
            scope: format!("{namespace}:{}", scope.name),
            description: clean(&scope.description),
            parents,
            actor: clean(&scope.actor),
            version: scope.version,
            recorded_at: moment(scope.recorded_at),
            updated_at: scope.updated_at.map(moment),
            tx_id,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RecordItem {
    Entry(Box<EntryItem>),
    Triple(Box<TripleItem>),
    Scope(Box<ScopeItem>),
    Namespace(Box<NamespaceItem>),
    Document(Box<DocumentItem>),
}

/// A document in the history; its text is read with `kb.search`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentItem {
    pub scope: String,
    pub source: String,
    pub path: String,
    pub title: String,
    pub doc_tag: String,
    pub actor: String,
    pub version: u32,
    pub recorded_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub updated_at: Option<String>,
    pub tx_id: u64,
}

impl DocumentItem {
    fn new(tx_id: u64, document: &Document, names: &ScopeNames) -> DocumentItem {
        DocumentItem {
            scope: names.of(document.scope),
            source: clean(&document.source),
            path: clean(&document.path),
            title: clean(&document.title),
            doc_tag: clean(&document.doc_tag),
            actor: clean(&document.actor),
            version: document.version,
            recorded_at: moment(document.recorded_at),
            updated_at: document.updated_at.map(moment),
            tx_id,
        }
    }
}

impl RecordItem {
    fn place(&self) -> Option<String> {
        match self {
            RecordItem::Entry(entry) => Some(place(&entry.scope)),
            RecordItem::Triple(triple) => Some(place(&triple.scope)),
            RecordItem::Document(document) => Some(place(&document.scope)),
            RecordItem::Scope(_) | RecordItem::Namespace(_) => None,
        }
    }

    /// `None` for a section, because the change of its document represents it.
    fn new(id: &str, tx_id: u64, record: &Record, names: &ScopeNames, now: Timestamp) -> Option<RecordItem> {
        Some(match record {
            Record::Section(_) => return None,
            Record::Document(document) => {
                RecordItem::Document(Box::new(DocumentItem::new(tx_id, document, names)))
            }
            Record::Entry(entry) => {
                RecordItem::Entry(Box::new(EntryItem::new(id.to_owned(), tx_id, entry, names, now)))
            }
            Record::Triple(triple) => {
                RecordItem::Triple(Box::new(TripleItem::new(id.to_owned(), tx_id, triple, names)))
            }
            Record::Scope(scope) => RecordItem::Scope(Box::new(ScopeItem::new(tx_id, scope, names))),
            Record::Namespace(namespace) => {
                RecordItem::Namespace(Box::new(NamespaceItem::new(tx_id, namespace)))
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Entry,
    Triple,
    Scope,
    Namespace,
    Document,
}

impl From<EntityType> for Kind {
    fn from(entity_type: EntityType) -> Kind {
        match entity_type {
            EntityType::Entry => Kind::Entry,
            EntityType::Triple => Kind::Triple,
            EntityType::Scope => Kind::Scope,
            EntityType::Namespace => Kind::Namespace,
            EntityType::Document | EntityType::Section => Kind::Document,
        }
    }
}

impl From<Kind> for EntityType {
    fn from(kind: Kind) -> EntityType {
        match kind {
            Kind::Entry => EntityType::Entry,
            Kind::Triple => EntityType::Triple,
            Kind::Scope => EntityType::Scope,
            Kind::Namespace => EntityType::Namespace,
            Kind::Document => EntityType::Document,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeItem {
    pub entity_type: Kind,
    pub id: String,
    /// create, update or delete.
    pub op: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RecordItem")]
    pub before: Option<RecordItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RecordItem")]
    pub after: Option<RecordItem>,
}

impl ChangeItem {
    /// `tx_id` is the transaction that made the change.
    pub fn new(change: &Change, tx_id: u64, names: &ScopeNames, now: Timestamp) -> ChangeItem {
        let item = |record: &Record, tx_id| RecordItem::new(change.id.as_str(), tx_id, record, names, now);
        ChangeItem {
            entity_type: change.entity_type.into(),
            id: change.id.to_string(),
            op: change.op().as_str().to_owned(),
            before: change.before.as_ref().and_then(|before| item(&before.record, before.tx_id.0)),
            after: change.after.as_ref().and_then(|record| item(record, tx_id)),
        }
    }

    fn shortened(mut self, bytes: usize) -> ChangeItem {
        let shorten = |record: RecordItem| match record {
            RecordItem::Entry(entry) => RecordItem::Entry(Box::new(entry.shortened(bytes))),
            RecordItem::Triple(triple) => RecordItem::Triple(Box::new(triple.shortened(bytes))),
            // The other records are small enough to fit whole.
            other => other,
        };
        self.before = self.before.map(shorten);
        self.after = self.after.map(shorten);
        self
    }

    fn lines(&self, excerpt: usize) -> String {
        let place = [&self.after, &self.before].into_iter().flatten().find_map(RecordItem::place);
        let place = place.unwrap_or_default();
        let mut lines = format!("  {} {} {}{place}", self.op, kind_word(self.entity_type), self.id);
        if let (Some(RecordItem::Entry(before)), Some(RecordItem::Entry(after))) = (&self.before, &self.after)
        {
            lines.push_str(&after.other_changes(before));
        }
        for (name, side) in [("before", &self.before), ("after", &self.after)] {
            match side {
                Some(RecordItem::Entry(entry)) => {
                    let topic =
                        if entry.topic.is_empty() { String::new() } else { format!("{}: ", entry.topic) };
                    let hidden = entry.hidden.map(|why| format!("({why}) ")).unwrap_or_default();
                    let text = format!("{hidden}{topic}{}", entry.content);
                    lines.push_str(&format!("\n    {name}: {}", one_line(&text, excerpt)));
                }
                Some(RecordItem::Triple(triple)) => {
                    lines.push_str(&format!("\n    {name}: {}", triple.line(excerpt)));
                }
                Some(RecordItem::Scope(scope)) => {
                    let parents = match scope.parents.is_empty() {
                        true => String::new(),
                        false => format!(" (inherits from {})", scope.parents.join(", ")),
                    };
                    let text = format!("{}{parents}: {}", scope.scope, scope.description);
                    lines.push_str(&format!("\n    {name}: {}", one_line(&text, excerpt)));
                }
                Some(RecordItem::Document(document)) => {
                    let text = format!("{}/{}: {}", document.source, document.path, document.title);
                    lines.push_str(&format!("\n    {name}: {}", one_line(&text, excerpt)));
                }
                Some(RecordItem::Namespace(namespace)) => {
                    let text = format!("{}: {}", namespace.name, namespace.description);
                    lines.push_str(&format!("\n    {name}: {}", one_line(&text, excerpt)));
                }
                None => {}
            }
        }
        lines
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransactionItem {
    pub tx_id: u64,
    pub at: String,
    pub actor: String,
    pub tool: String,
    pub changes: Vec<ChangeItem>,
    /// How many more changes the transaction has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub changes_left_out: Option<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub undone_by: Option<u64>,
}

impl TransactionItem {
    /// The part of a transaction that is shown to a caller with this sight, or without one to a caller who
    /// sees all scopes.
    pub fn view(sight: Option<&Sight>) -> View<'_> {
        View { scopes: sight.map(Sight::scopes), changes_max: CHANGES_MAX, ..View::WHOLE }
    }

    fn new(tx: &Transaction, names: &ScopeNames, now: Timestamp) -> TransactionItem {
        // Sections are not shown; the change of their document represents them.
        let is_shown = |change: &&Change| change.entity_type != EntityType::Section;
        let shown: Vec<&Change> = tx.changes.iter().filter(is_shown).take(CHANGES_MAX).collect();
        let left_out = tx.left_out + tx.changes.len() - shown.len();
        TransactionItem {
            tx_id: tx.id.0,
            at: moment(tx.at),
            actor: clean(&tx.actor),
            tool: tx.tool.clone(),
            changes: shown.into_iter().map(|change| ChangeItem::new(change, tx.id.0, names, now)).collect(),
            changes_left_out: Some(left_out).filter(|left| *left > 0),
            undoes: tx.undoes.iter().map(|tx| tx.0).collect(),
            undone_by: tx.undone_by.map(|tx| tx.0),
        }
    }

    /// Cuts the long texts of a transaction so that it fits into a reply.
    pub fn cut_to_fit(mut self) -> TransactionItem {
        let bytes = CUT_BYTES_MAX.min(CUT_BYTES_ALL / self.changes.len().max(1));
        self.changes = self.changes.into_iter().map(|change| change.shortened(bytes)).collect();
        self
    }

    pub fn lines(&self, excerpt: usize) -> String {
        let mut lines = transaction_head(self.tx_id, &self.tool, &self.at, Some(&self.actor));
        lines.push_str(&undo_words(&self.undoes, self.undone_by));
        lines.push_str(&change_lines(&self.changes, self.changes_left_out, excerpt));
        lines
    }
}

/// The first line of a transaction: `7 store at 2026-01-01T00:18:00Z by alice`
pub(super) fn transaction_head(tx_id: u64, tool: &str, at: &str, actor: Option<&str>) -> String {
    let by = actor.map(|actor| format!(" by {}", one_line(actor, 64))).unwrap_or_default();
    format!("{tx_id} {tool} at {at}{by}")
}

/// The part of that line about undoing: `, undoes 4, undone by 9`
pub(super) fn undo_words(undoes: &[u64], undone_by: Option<u64>) -> String {
    let mut words = String::new();
    if !undoes.is_empty() {
        let undoes: Vec<String> = undoes.iter().map(u64::to_string).collect();
        words.push_str(&format!(", undoes {}", undoes.join(", ")));
    }
    if let Some(by) = undone_by {
        words.push_str(&format!(", undone by {by}"));
    }
    words
}

/// Each change on its own lines, which follow the line of the transaction.
pub fn change_lines(changes: &[ChangeItem], left_out: Option<usize>, excerpt: usize) -> String {
    let mut lines = String::new();
    for change in changes {
        lines.push('\n');
        lines.push_str(&change.lines(excerpt));
    }
    if let Some(left_out) = left_out {
        lines.push_str(&format!("\n  and {}", counted(left_out, "more change")));
    }
    lines
}

pub(super) fn kind_word(kind: Kind) -> &'static str {
    EntityType::from(kind).as_str()
}

/// Stored text in a fence, after a line that declares it as data.
pub fn as_data(lines: &str) -> String {
    format!("Stored text, as data:\n{}", fence(lines))
}

/// An entry for the text channel. Its first line begins with its id and the lines of its content are
/// indented, so content can't pass for another entry.
pub fn entry_lines(item: &EntryItem, excerpt: usize) -> String {
    let topic = match item.topic.is_empty() {
        true => String::new(),
        false => format!(" {}", one_line(&item.topic, (excerpt / 3).max(20))),
    };
    let tags = match item.tags.is_empty() || excerpt < 200 {
        true => String::new(),
        false => format!(" [{}]", one_line(&item.tags.join(", "), excerpt / 4)),
    };
    let content = item.content.replace('\n', "\n  ");
    let content = cut(&content, excerpt.saturating_sub(topic.len() + tags.len() + place(&item.scope).len()));
    let hidden = item.hidden.map(|why| format!(" ({why})")).unwrap_or_default();
    format!("{} v{}{}{hidden}{topic}{tags}\n  {content}", item.id, item.version, place(&item.scope))
}

/// The reason why an ordinary search does not find an entry.
fn hidden(entry: &Entry, now: Timestamp) -> Option<&'static str> {
    if entry.status == Status::Suppressed {
        return Some("suppressed");
    }
    if entry.valid_to.is_some_and(|to| to <= now) {
        return Some("expired");
    }
    entry.valid_from.is_some_and(|from| now < from).then_some("not yet valid")
}

/// The scope of a record in parentheses; empty for the scope that everybody sees.
pub(crate) fn place(scope: &str) -> String {
    match scope {
        GLOBAL_DEFAULT => String::new(),
        scope => format!(" ({scope})"),
    }
}

/// Names the scope that was written to: ` in scope `acme:web``.
pub(crate) fn in_scope(scope: &str) -> String {
    format!(" in scope `{scope}`")
}

/// The name of the scope of the version that a transaction closed.
pub(crate) fn scope_before(done: &Committed) -> String {
    let before = done.tx.changes.iter().find_map(|change| change.before.as_ref());
    before.and_then(|before| before.record.scope()).map(|scope| done.names.of(scope)).unwrap_or_default()
}

const GLOBAL_DEFAULT: &str = "global:default";

pub fn one_line(text: &str, bytes_max: usize) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), bytes_max)
}

pub fn moment(timestamp: Timestamp) -> String {
    timestamp.to_string()
}
