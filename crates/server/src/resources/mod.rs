//! The resources that clients can read and subscribe to by address.

pub(crate) mod diagnostics;
pub(crate) mod rows;
pub(crate) mod scratch;
mod uri;

use kenning_engine::{By, Engine, Error, Question, Snapshot, Stored};
use kenning_model::{Change, EntityType, Id, Record, ScopeId, ScopeName, ScopeNames, Transaction, TxId};
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};

use kenning_tools::memory::item::{EntryItem, TransactionItem, entry_items, transaction_items, triple_items};
use kenning_tools::{Caller, Code, Listing, Stop, scope_name, sight};
use rmcp::ErrorData;
use rmcp::model::{MetaObject, Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;
use serde_json::json;

use uri::ResourceTarget;
pub(crate) use uri::Uri;

pub(crate) const MIME_TYPE: &str = "application/json";

pub(crate) const ENTRIES: &str = "knowledge://entries";
pub(crate) const TRIPLES: &str = "knowledge://graph/triples";
pub(crate) const TRANSACTIONS: &str = "knowledge://history/transactions";
const ENTRY: &str = "knowledge://entries/{id}";

/// The version of the JSON that a read returns.
const SHAPE_VERSION: u32 = 1;

const LIMIT_DEFAULT: u64 = 50;

struct ResourceRow {
    uri: &'static str,
    name: &'static str,
    about: &'static str,
    /// The parameters that a client can append to the URI.
    parameters: &'static str,
}

const ROWS: [ResourceRow; 3] = [
    ResourceRow {
        uri: ENTRIES,
        name: "entries",
        about: "Stored entries, newest first; with words to look for in the `topic` or anywhere (`content`) the best first.",
        parameters: "{?limit,cursor,scope,topic,content,tags,as_of_tx_id,include_suppressed}",
    },
    ResourceRow {
        uri: TRIPLES,
        name: "triples",
        about: "The facts of the graph, newest first.",
        parameters: "{?limit,cursor,scope,as_of_tx_id}",
    },
    ResourceRow {
        uri: TRANSACTIONS,
        name: "transactions",
        about: "Every change in what the scope sees, newest first.",
        parameters: "{?limit,cursor,scope,as_of_tx_id,since_tx_id}",
    },
];

pub(crate) fn list() -> Vec<Resource> {
    ROWS.iter()
        .map(|row| {
            let mut meta = MetaObject::new();
            meta.0.insert("io.kenning/version".to_owned(), json!(SHAPE_VERSION));
            let mut resource =
                Resource::new(row.uri, row.name).with_description(row.about).with_mime_type(MIME_TYPE);
            resource.meta = Some(meta);
            resource
        })
        .collect()
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let pages = ROWS.iter().map(|row| {
        ResourceTemplate::new(format!("{}{}", row.uri, row.parameters), row.name)
            .with_description(format!("{} Limit 1 to 200, default 50.", row.about))
            .with_mime_type(MIME_TYPE)
    });
    let entry =
        ResourceTemplate::new(ENTRY, "entry").with_description("One entry, whole.").with_mime_type(MIME_TYPE);
    pages.chain([entry, rows::template(), scratch::template(), diagnostics::template()]).collect()
}

/// The body of every read.
#[derive(Serialize)]
struct Body<'a, T> {
    resource_uri: &'a str,
    as_of_tx_id: TxId,
    items: Vec<T>,
    next_cursor: Option<String>,
}

pub(crate) fn read(engine: &Engine, caller: &Caller, uri: &Uri) -> Result<String, ErrorData> {
    page(engine, caller, uri).map_err(|stop| refused(stop, &uri.text))
}

/// Whether it is the address of something that is kept for a caller for a while.
pub(crate) fn is_kept(uri: &str) -> bool {
    uri.starts_with(scratch::PREFIX) || uri.starts_with(diagnostics::PREFIX)
}

/// The owner of passages in the scratch: a caller together with the id of the store in which they were found.
pub(crate) fn kept(engine: &Engine, caller: &Caller, uri: &str) -> Result<ResourceContents, ErrorData> {
    let owner = engine.snapshot(&caller.principal).map(|snapshot| caller.scratch_owner(&snapshot));
    let owner = owner.map_err(|error| refused(error.into(), uri))?;
    let found = match uri.strip_prefix(scratch::PREFIX) {
        Some(path) => scratch::read(caller, &owner, uri, path),
        None => diagnostics::read(caller, &owner, uri),
    };
    found.ok_or_else(|| not_found(uri))
}

fn page(engine: &Engine, caller: &Caller, uri: &Uri) -> Result<String, Stop> {
    let scope = scope_name(uri.scope.as_deref().unwrap_or(&caller.scope))?;
    let limit = uri.limit.unwrap_or(LIMIT_DEFAULT);
    let (name, cursor) = (uri.listing(&scope), uri.cursor.as_deref());
    let listing = Listing::begin(engine, &caller.principal, name, limit, cursor, uri.as_of_tx_id)?;
    let (snapshot, at) = (&listing.snapshot, listing.snapshot.at());
    let sight = sight(snapshot, &scope)?;
    match uri.target {
        ResourceTarget::Entry(id) => {
            let stored = snapshot.entry(id)?;
            let is_seen = |stored: &&Stored| sight.sees_record(&stored.record);
            let items = entry_items(snapshot, stored.iter().filter(is_seen))?;
            let given = if items.is_empty() { Vec::new() } else { vec![id] };
            caller.note_given(engine, ENTRIES, scope.to_string(), given);
            match items.is_empty() {
                false => body(uri, at, items, None),
                true => Err(unseen(id, &scope)),
            }
        }
        ResourceTarget::Entries => {
            let question = Question {
                sight: &sight,
                topic: uri.topic.as_deref(),
                content: uri.content.as_deref(),
                tags: &uri.tags,
                visible_at: (!uri.include_suppressed).then_some(listing.asked_at),
                by: By::WordsAndMeaning,
                known_words_only: false,
                explain: false,
            };
            let found = snapshot.search(&question, listing.rows())?;
            let given = found.hits.iter().map(|hit| hit.stored.id).collect();
            caller.note_given(engine, ENTRIES, scope.to_string(), given);
            let items = entry_items(snapshot, found.hits.iter().map(|hit| &hit.stored))?;
            let items = take_rows(items, ROWS_BYTES_MAX, EntryItem::cut_to_fit);
            let page = listing.end(items, found.total)?;
            body(uri, at, page.items, page.next_cursor)
        }
        ResourceTarget::Triples => {
            let (triples, total) = snapshot.triples(&sight, [None; 3], listing.rows())?;
            let items = triple_items(snapshot, &triples)?;
            let items = take_rows(items, ROWS_BYTES_MAX, |item| item);
            let page = listing.end(items, total)?;
            body(uri, at, page.items, page.next_cursor)
        }
        ResourceTarget::Transactions => {
            let since = uri.since_tx_id.unwrap_or_default();
            let view = TransactionItem::view(Some(&sight));
            let (transactions, total) = snapshot.history(None, None, since, view, listing.rows())?;
            let items = transaction_items(snapshot, &transactions)?;
            let items = take_rows(items, ROWS_BYTES_MAX, TransactionItem::cut_to_fit);
            let page = listing.end(items, total)?;
            body(uri, at, page.items, page.next_cursor)
        }
    }
}

/// The error for an entry that does not exist or is out of sight. The reply does not reveal which.
fn unseen(id: Id, scope: &ScopeName) -> Stop {
    let next = format!("name another scope with `?scope=`; `{ENTRIES}` lists what there is");
    Stop::new(Code::NotFound, format!("there is no entry `{id}` in what `{scope}` sees; {next}"))
}

fn body<T: Serialize>(
    uri: &Uri,
    as_of_tx_id: TxId,
    items: Vec<T>,
    next_cursor: Option<String>,
) -> Result<String, Stop> {
    let body = Body { resource_uri: &uri.text, as_of_tx_id, items, next_cursor };
    serde_json::to_string(&body)
        .map_err(|_| Stop::new(Code::InternalError, "the resource can't be written as JSON"))
}

/// A resource that can be subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Entries,
    Entry(Id),
    Triples,
    Transactions,
}

impl Watched {
    pub(crate) fn parse(uri: &str) -> Option<Watched> {
        match uri {
            ENTRIES => Some(Watched::Entries),
            TRIPLES => Some(Watched::Triples),
            TRANSACTIONS => Some(Watched::Transactions),
            _ => Id::parse(uri.strip_prefix(ENTRIES)?.strip_prefix('/')?).map(Watched::Entry),
        }
    }

    /// The effect of a transaction on this resource, for a reader who had the sight `before` and has the
    /// sight `after`.
    pub(crate) fn changed(self, tx: &Transaction, before: &SeenScopes, after: &SeenScopes) -> Changed {
        let mut changed = Changed::default();
        let (wanted, only) = match self {
            Watched::Entries => (EntityType::Entry, None),
            Watched::Entry(id) => (EntityType::Entry, Some(id)),
            Watched::Triples => (EntityType::Triple, None),
            Watched::Transactions => {
                let is_seen = |change: &Change| before.had(change) || after.has(change);
                if tx.changes.is_empty() || tx.changes.iter().any(is_seen) {
                    changed.upserted.push(tx.id.to_string());
                }
                return changed;
            }
        };
        // Names or the scopes in sight have changed. The affected entries are not listed one by one. A reader
        // whose sight is now empty is told of the deletions only.
        changed.all =
            (before != after && !after.scopes.is_empty()) || tx.changes.iter().any(renames_or_reparents);
        for change in &tx.changes {
            if change.entity_type != wanted || only.is_some_and(|id| id != change.id) {
                continue;
            }
            if after.has(change) {
                changed.upserted.push(change.id.to_string());
            } else if before.had(change) {
                changed.deleted.push(change.id.to_string());
            }
        }
        changed
    }
}

/// The changes that a notice about one transaction reports.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) upserted: Vec<String>,
    pub(crate) deleted: Vec<String>,
    /// Whether every item may be affected, as by a rename or a new parent.
    pub(crate) all: bool,
}

/// Whether a namespace or scope got another name or other parents. That is reported to everyone, because
/// clients also keep names.
fn renames_or_reparents(change: &Change) -> bool {
    match (change.before.as_ref().map(|before| &before.record), &change.after) {
        (Some(Record::Namespace(before)), Some(Record::Namespace(after))) => before.name != after.name,
        (Some(Record::Scope(before)), Some(Record::Scope(after))) => {
            before.name != after.name || before.parents != after.parents
        }
        _ => false,
    }
}

/// The scopes in sight at some transaction, nearest first, with their names; empty for a scope that does not
/// exist.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct SeenScopes {
    scopes: Vec<ScopeId>,
    names: ScopeNames,
}

impl SeenScopes {
    pub(crate) fn of(scope: ScopeId, snapshot: &Snapshot<'_>) -> Result<SeenScopes, Error> {
        let scopes = snapshot.sight(scope)?.scopes().to_vec();
        Ok(SeenScopes { names: snapshot.scope_names(&scopes)?, scopes })
    }

    fn had(&self, change: &Change) -> bool {
        change.before.as_ref().is_some_and(|before| before.record.is_seen_from(&self.scopes))
    }

    fn has(&self, change: &Change) -> bool {
        change.after.as_ref().is_some_and(|record| record.is_seen_from(&self.scopes))
    }
}

pub(crate) fn not_found(uri: &str) -> ErrorData {
    let shown = kenning_presentation::text::quote(uri, 200);
    let message = format!("there is no resource {shown}; `resources/templates/list` names them");
    refused(Stop::new(Code::NotFound, message), uri)
}

pub(crate) fn failed(error: Error) -> ErrorData {
    refused(Stop::from(error), "")
}

/// The protocol error for a failed read. A read can report errors only this way, so the code and whether to
/// retry are added as data.
fn refused(stop: Stop, uri: &str) -> ErrorData {
    let data = json!({"uri": uri, "code": stop.code.as_str(), "retryable": stop.code.retryable()});
    match stop.code {
        Code::NotFound => ErrorData::resource_not_found(stop.message, Some(data)),
        Code::InvalidArgument => ErrorData::invalid_params(stop.message, Some(data)),
        _ => ErrorData::internal_error(stop.message, Some(data)),
    }
}
