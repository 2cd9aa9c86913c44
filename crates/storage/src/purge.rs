//! Removing for good, the one exception to "nothing is overwritten": what is live is closed by an ordinary transaction, and the
//! versions of the ids, in the log and in what is derived from it, lose everything that somebody wrote. What stays says that
//! there was a version, whose it was and when. The store becomes another one, with a new id and a new secret, so whatever was made
//! of the old text, in whatever process or on whatever machine, does not fit any more and is made again.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use hmac::{Hmac, KeyInit, Mac};
use kenning_model::{
    Change, EntityType, Id, Principal, Record, ScopeId, Timestamp, Tombstone, Transaction, TxId, Version,
};
use sha2::Sha256;

use crate::backend::{At, Backend, Position, Reader, RecordKey, StoreId, StoreInfo, View};
use crate::log_row::{LogRow, entity_type_of, row_with};
use crate::write::Author;
use crate::{Error, Sources, Storage};

/// The name of the tool in the history.
pub(crate) const TOOL: &str = "purge";
/// The number of headers, or of changes of documents, that are read at a time.
const PAGE: usize = 1_000;
/// The number of transactions whose rows are read at a time.
const TRANSACTIONS: usize = 64;
/// The types that can be purged. Sections are purged with their document.
const PURGEABLE: [EntityType; 3] = [EntityType::Entry, EntityType::Triple, EntityType::Document];

/// The selection of a purge.
#[derive(Clone, Debug)]
pub enum PurgeSelection {
    /// Entries, triples, and documents with their sections.
    Ids(Vec<Id>),
    /// Every document that ever was one of this source.
    Source(String),
    /// Everything that somebody wrote to, also what others wrote of the same things.
    By(Author),
}

/// What a purge would remove: every version of some ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgePlan {
    pub store: StoreId,
    /// In the order of their first versions, sections behind their document.
    pub items: Vec<PurgeItem>,
}

/// An id, and those of its versions that still say something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeItem {
    pub entity_type: EntityType,
    pub id: Id,
    pub scope: ScopeId,
    /// The name that people know it by: the topic of an entry, the subject of a triple, the path of a document, and of a section nothing.
    pub topic: String,
    pub is_live: bool,
    /// The transactions that wrote the versions, oldest first.
    pub written_by: Vec<TxId>,
    /// The actors that wrote these versions.
    pub actors: BTreeSet<String>,
    /// The number of the last of these versions. What is written to the id afterwards has a higher one.
    pub last_version: u32,
}

impl PurgePlan {
    /// Fits this plan alone: the same versions of the same ids in the same store.
    pub fn token(&self, info: &StoreInfo) -> String {
        let mut mac = keyed(&info.secret);
        mac.update(TOOL.as_bytes());
        mac.update(&self.store.0);
        for item in &self.items {
            mac.update(item.id.as_str().as_bytes());
            mac.update(&(item.written_by.len() as u64).to_le_bytes());
            item.written_by.iter().for_each(|tx| mac.update(&tx.0.to_le_bytes()));
        }
        hex(&mac.finalize().into_bytes()[..10])
    }

    pub fn versions(&self) -> usize {
        self.items.iter().map(|item| item.written_by.len()).sum()
    }

    /// The transactions that lose something.
    pub fn transactions(&self) -> BTreeSet<TxId> {
        self.items.iter().flat_map(|item| item.written_by.iter().copied()).collect()
    }
}

/// A purge that was done: the removed versions, the actor and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    pub tx_id: TxId,
    pub at: Timestamp,
    pub actor: String,
    pub plan: PurgePlan,
    /// The id that the store has afterwards.
    pub store: StoreId,
}

impl Storage {
    /// The versions that a purge would remove now, and the token that confirms it.
    pub fn plan_purge(&self, selection: &PurgeSelection) -> Result<(PurgePlan, String), Error> {
        let info = self.backend.info()?;
        let plan = plan(&*self.backend.reader()?, selection)?;
        let token = plan.token(&info);
        Ok((plan, token))
    }

    /// Removes what a plan with this token says, if that is still what there is to be removed. `note` is told of it before it is
    /// done, and may refuse. What the disk still has of it afterwards, `Backend::scrub` removes.
    pub fn purge(
        &self,
        selection: &PurgeSelection,
        token: &str,
        principal: &Principal,
        note: impl FnOnce(&Purged) -> Result<(), Error>,
    ) -> Result<Purged, Error> {
        purge(&*self.backend, &self.sources, selection, Some(token), principal, note)
    }
}

/// Purges without asking for a token if `token` is `None`.
pub(crate) fn purge(
    backend: &dyn Backend,
    sources: &Sources,
    selection: &PurgeSelection,
    token: Option<&str>,
    principal: &Principal,
    note: impl FnOnce(&Purged) -> Result<(), Error>,
) -> Result<Purged, Error> {
    if !principal.is_owner() {
        let what = "only the owner of the store removes something for good".to_owned();
        return Err(Error::Forbidden { what });
    }
    let info = backend.info()?;
    let mut pending = backend.begin()?;
    let head = pending.reader().head()?;
    let plan = plan(pending.reader(), selection)?;
    if token.is_some_and(|token| token != plan.token(&info)) {
        let what = "the token is not that of what would be removed now; run it without the token, look at what it \
                    says, and take the new one";
        return Err(Error::Invalid { what: what.to_owned() });
    }
    let (by, at) = (head.next(), (sources.now)());
    let changes = closed(pending.reader(), &plan, head)?;
    let rows = tombstones(pending.reader(), &plan, by, &info.secret)?;
    pending.append(&Transaction {
        id: by,
        at,
        actor: principal.actor.clone(),
        origin: principal.origin.clone(),
        tool: TOOL.to_owned(),
        undoes: Vec::new(),
        undone_by: None,
        changes,
        left_out: 0,
    })?;
    pending.overwrite(&rows)?;
    // Replies hold stored text, and which of them hold this one can't be told.
    pending.forget_before(Timestamp::MAX)?;
    pending.renew()?;
    let store = pending.reader().store_id()?;
    let purged = Purged { tx_id: by, at, actor: principal.actor.clone(), plan, store };
    note(&purged)?;
    pending.commit()?;
    Ok(purged)
}

/// What a purge would remove.
pub(crate) fn plan(reader: &dyn Reader, selection: &PurgeSelection) -> Result<PurgePlan, Error> {
    let (store, head) = (reader.store_id()?, reader.head()?);
    let ids = match selection {
        PurgeSelection::Ids(ids) => {
            let mut known = BTreeSet::new();
            for id in ids {
                known.insert((type_of(reader, *id)?, *id));
            }
            known
        }
        PurgeSelection::Source(name) => of_source(reader, name, head)?,
        PurgeSelection::By(author) => written_by(reader, author, head)?,
    };
    let mut items = Vec::new();
    for (entity_type, id) in ids {
        let mut found: Vec<PurgeItem> = item(reader, entity_type, id, head)?.into_iter().collect();
        if entity_type == EntityType::Document {
            for section in sections_ever(reader, id)? {
                found.extend(item(reader, EntityType::Section, section, head)?);
            }
        }
        items.push(found);
    }
    items.sort_by_key(|found| found.first().map(|item| (item.written_by.first().copied(), item.id)));
    let items: Vec<PurgeItem> = items.into_iter().flatten().collect();
    if items.is_empty() {
        let what = match selection {
            PurgeSelection::Ids(_) => "what these ids had was removed for good already".to_owned(),
            PurgeSelection::Source(name) => {
                format!("there is no document of a source `{name}`, and there was none")
            }
            PurgeSelection::By(author) => {
                format!(
                    "there is no entry, fact or document that `{}` has written to since then",
                    author.name
                )
            }
        };
        return Err(Error::Invalid { what });
    }
    Ok(PurgePlan { store, items })
}

/// The type of the record that an id names or ever named.
fn type_of(reader: &dyn Reader, id: Id) -> Result<EntityType, Error> {
    for entity_type in PURGEABLE {
        if reader.latest(entity_type, id)?.is_some() {
            return Ok(entity_type);
        }
    }
    if let Some(stored) = reader.latest(EntityType::Section, id)? {
        let document = stored.record.as_section().map(|section| section.document);
        let document = document.map_or_else(String::new, |document| format!(" `{document}`"));
        return Err(Error::Invalid {
            what: format!("`{id}` is a section of the document{document}; purge the document"),
        });
    }
    if reader.is_taken(id)? {
        let what = format!(
            "`{id}` is a namespace or a scope; what is in it can be purged, and it can be renamed or deleted"
        );
        return Err(Error::Invalid { what });
    }
    Err(Error::UnknownId { entity_type: EntityType::Entry, id })
}

fn of_source(reader: &dyn Reader, name: &str, head: TxId) -> Result<BTreeSet<(EntityType, Id)>, Error> {
    let mut found = BTreeSet::new();
    let mut from = Position::before(TxId(1));
    loop {
        let page = reader.changes(&[EntityType::Document], from, head.next(), PAGE)?;
        for change in &page.changes {
            let document = change.after.as_ref().and_then(Record::as_document);
            if document.is_some_and(|document| document.source == name) {
                found.insert((EntityType::Document, change.id));
            }
        }
        match page.next {
            Some(next) => from = next,
            None => return Ok(found),
        }
    }
}

/// The ids whose text somebody wrote or changed. Who took a change back, or hid an entry, has written nothing of it.
fn written_by(reader: &dyn Reader, author: &Author, head: TxId) -> Result<BTreeSet<(EntityType, Id)>, Error> {
    let mut found = BTreeSet::new();
    let all: Vec<TxId> = (1..=head.0).map(TxId).collect();
    for page in all.chunks(PAGE) {
        let headers = reader.transactions(page, head, View::HEADER)?.into_iter().flatten();
        let own: BTreeMap<TxId, String> = headers
            .filter(|header| author.has_written(header))
            .map(|header| (header.id, header.actor))
            .collect();
        let ids: Vec<TxId> = own.keys().copied().collect();
        for ids in ids.chunks(TRANSACTIONS) {
            for (tx, rows) in ids.iter().zip(reader.log_rows(ids, usize::MAX)?) {
                for row in rows.iter().skip(1) {
                    let Some(record) = row.record()? else { continue };
                    if actor_of(&record) != own.get(tx).map(String::as_str) {
                        continue;
                    }
                    match &record {
                        Record::Entry(_) | Record::Triple(_) | Record::Document(_) => {
                            found.insert((record.entity_type(), row.id()?));
                        }
                        Record::Section(section) => {
                            found.insert((EntityType::Document, section.document));
                        }
                        Record::Namespace(_) | Record::Scope(_) => {}
                    }
                }
            }
        }
    }
    Ok(found)
}

fn actor_of(record: &Record) -> Option<&str> {
    match record {
        Record::Entry(entry) => Some(&entry.actor),
        Record::Triple(triple) => Some(&triple.actor),
        Record::Document(document) => Some(&document.actor),
        Record::Section(section) => Some(&section.actor),
        Record::Namespace(_) | Record::Scope(_) => None,
    }
}

/// Every section that a document ever had. A section only changes together with its document.
fn sections_ever(reader: &dyn Reader, document: Id) -> Result<BTreeSet<Id>, Error> {
    let mut sections = BTreeSet::new();
    for tx in reader.touches(EntityType::Document, document, None)? {
        sections.extend(reader.sections_of(document, tx)?.into_iter().map(|stored| stored.id));
    }
    Ok(sections)
}

/// None for an id of which nothing is left to be removed.
fn item(
    reader: &dyn Reader,
    entity_type: EntityType,
    id: Id,
    head: TxId,
) -> Result<Option<PurgeItem>, Error> {
    let touches = reader.touches(entity_type, id, None)?;
    let key = |at| RecordKey { entity_type, id, at };
    let keys: Vec<RecordKey> = touches.iter().map(|tx| key(At::Live(*tx))).collect();
    let mut found: Option<PurgeItem> = None;
    for (tx, stored) in touches.iter().zip(reader.records(&keys)?) {
        let Some(stored) = stored.filter(|stored| stored.tx_id == *tx && stored.record.tombstone().is_none())
        else {
            continue;
        };
        let record = stored.record;
        let item = found.get_or_insert_with(|| PurgeItem {
            entity_type,
            id,
            scope: ScopeId::GLOBAL_DEFAULT,
            topic: String::new(),
            is_live: false,
            written_by: Vec::new(),
            actors: BTreeSet::new(),
            last_version: 0,
        });
        item.scope = record.scope().unwrap_or(ScopeId::GLOBAL_DEFAULT);
        item.written_by.push(*tx);
        item.actors.extend(actor_of(&record).map(str::to_owned));
        item.last_version = record.version();
        item.topic = match record {
            Record::Entry(entry) => entry.topic,
            Record::Triple(triple) => triple.subject,
            Record::Document(document) => document.path,
            _ => String::new(),
        };
    }
    if let Some(item) = &mut found {
        item.is_live = reader.record(entity_type, id, head)?.is_some();
    }
    Ok(found)
}

/// The changes that close what is live.
fn closed(reader: &dyn Reader, plan: &PurgePlan, head: TxId) -> Result<Vec<Change>, Error> {
    let live: Vec<&PurgeItem> = plan.items.iter().filter(|item| item.is_live).collect();
    let key =
        |item: &&PurgeItem| RecordKey { entity_type: item.entity_type, id: item.id, at: At::Live(head) };
    let found = reader.records(&live.iter().map(key).collect::<Vec<_>>())?;
    let changes = live.iter().zip(found).map(|(item, stored)| {
        let missing = || Error::damaged(format!("the live version of `{}` is missing", item.id));
        let before = Some(Version::from(stored.ok_or_else(missing)?));
        Ok(Change { entity_type: item.entity_type, id: item.id, before, after: None })
    });
    changes.collect()
}

/// What comes into the places of the rows.
fn tombstones(
    reader: &dyn Reader,
    plan: &PurgePlan,
    by: TxId,
    secret: &[u8; 32],
) -> Result<Vec<LogRow>, Error> {
    let wanted: HashSet<(EntityType, Id)> =
        plan.items.iter().map(|item| (item.entity_type, item.id)).collect();
    let transactions: Vec<TxId> = plan.transactions().into_iter().collect();
    let mut rows = Vec::with_capacity(plan.versions());
    for ids in transactions.chunks(TRANSACTIONS) {
        for row in reader.log_rows(ids, usize::MAX)?.into_iter().flatten() {
            let Some(entity_type) = entity_type_of(row.kind) else { continue };
            if !wanted.contains(&(entity_type, row.id()?)) {
                continue;
            }
            let (Some(record), Some(body)) = (row.record()?, &row.body) else { continue };
            if record.tombstone().is_some() {
                continue;
            }
            let hash = hex(&keyed(secret).chain_update(body).finalize().into_bytes());
            let record = record.purged(Tombstone { by, hash });
            let record =
                record.ok_or_else(|| Error::Bug { what: format!("a {entity_type} was to be purged") })?;
            rows.push(row_with(&row, &record));
        }
    }
    if rows.len() != plan.versions() {
        let what =
            format!("{} versions were to be overwritten, and the log has {}", plan.versions(), rows.len());
        return Err(Error::damaged(what));
    }
    Ok(rows)
}

fn keyed(secret: &[u8; 32]) -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("any length will do")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
