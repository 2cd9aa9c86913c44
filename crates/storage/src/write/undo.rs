//! Undoes transactions by committing the reverse changes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use kenning_model::{
    Change, EntityType, Id, Principal, Record, ScopeId, ScopeName, Status, Timestamp, Transaction, TxId,
    Version,
};

use super::{Draft, Plan};
use crate::backend::{At, RecordKey, Stored, Touched, View};
use crate::{Error, purge};

/// How many headers of transactions are read at a time.
const HEADERS_READ: usize = 1000;

#[derive(Clone, Debug)]
pub enum UndoTarget {
    Tx(TxId),
    /// The newest transactions of this origin (of any origin, with `any_actor`) that are neither an undo nor
    /// undone.
    Newest(u32),
    /// All transactions of an author that are neither an undo nor undone.
    By(Author),
}

/// Selects the transactions of an author, from a time on.
#[derive(Clone, Debug)]
pub struct Author {
    /// The actor's name in the log, or the origin, such as `key 3f9a0c41d2`. A client may claim any name; the
    /// origin is the process or the credential itself.
    pub name: String,
    pub since: Option<Timestamp>,
}

impl Author {
    pub(crate) fn has_written(&self, tx: &Transaction) -> bool {
        (tx.actor == self.name || tx.origin == self.name) && self.since.is_none_or(|since| tx.at >= since)
    }
}

#[derive(Clone, Debug)]
pub struct UndoWish {
    pub target: UndoTarget,
    pub any_actor: bool,
    /// Only transactions that changed nothing outside this scope.
    pub within: Option<(ScopeId, ScopeName)>,
}

/// A question for the changes that an undo would make.
pub struct UndoPlan<'a> {
    pub wish: UndoWish,
    pub principal: &'a Principal,
}

/// How much of a transaction is in reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Some,
    Everything,
}

impl Plan<'_> {
    pub(super) fn undo(&self, wish: &UndoWish) -> Result<Draft, Error> {
        let targets = match &wish.target {
            UndoTarget::Tx(tx) => {
                let tx = self.undoable(*tx, wish)?;
                if is_final(&tx) {
                    let what = format!(
                        "what transaction {} is about was removed for good by `kenning purge`, so it can't be taken back",
                        tx.id
                    );
                    return Err(Error::Invalid { what });
                }
                vec![tx]
            }
            UndoTarget::Newest(count) => self.newest(*count, wish)?,
            UndoTarget::By(author) => self.standing_of(author, wish)?,
        };
        let undoes: Vec<TxId> = targets.iter().map(|tx| tx.id).collect();
        // The targets come newest first, so for each id the change of the oldest one remains, whose state
        // before is restored.
        let mut touched: Vec<(TxId, Change)> = Vec::new();
        let mut places: HashMap<(EntityType, Id), usize> = HashMap::new();
        for tx in targets {
            for change in tx.changes {
                match places.entry((change.entity_type, change.id)) {
                    Entry::Occupied(place) => touched[*place.get()] = (tx.id, change),
                    Entry::Vacant(place) => {
                        place.insert(touched.len());
                        touched.push((tx.id, change));
                    }
                }
            }
        }
        let mut later = Vec::new();
        let mut changes = Vec::new();
        // What was removed for good does not come back, and is not in the way of what else the same transactions did.
        touched.retain(|(_, change)| !is_purged(change));
        for (oldest, change) in touched {
            let touches = self.reader.touches(change.entity_type, change.id, None)?;
            later.extend(self.in_the_way(&touches, oldest, &undoes)?);
            changes.extend(self.restored(change)?);
        }
        if !later.is_empty() {
            return Err(changed_since(undoes, later));
        }
        self.check_places(&changes, &undoes)?;
        Ok(Draft { changes, undoes, ..Draft::default() })
    }

    /// Refuses an undo that would leave two namespaces or scopes with one name, a scope that inherits from
    /// nothing or from itself, or a record in a scope that does not exist.
    fn check_places(&self, changes: &[Change], undoes: &[TxId]) -> Result<(), Error> {
        let restored = changes.iter().filter_map(|change| change.after.as_ref()?.scope());
        let restored: BTreeSet<ScopeId> = restored.collect();
        let is_of_tree = |change: &&Change| !change.entity_type.has_scope();
        if !changes.iter().any(|change| is_of_tree(&change)) {
            return restored.into_iter().try_for_each(|scope| self.check_scope(scope));
        }
        let after = self.tree()?.after(changes);
        if let Err(what) = after.check() {
            return Err(Error::Unsound { what: format!("{what}{}", self.since(undoes)?) });
        }
        let closed = changes.iter().filter(|change| change.after.is_none());
        let closed = closed.filter_map(|change| change.before.as_ref()?.record.as_scope());
        self.check_empty(&closed.map(|scope| scope.number).collect::<Vec<_>>(), changes, undoes)?;
        for scope in restored {
            if after.get(scope).is_none() {
                return Err(self.gone(scope)?);
            }
        }
        Ok(())
    }

    /// Names the later changes of namespaces and scopes for an error: `, because of transaction 9`.
    fn since(&self, undoes: &[TxId]) -> Result<String, Error> {
        const NAMED_MAX: usize = 10;
        let oldest = undoes.iter().min().copied().unwrap_or_default();
        let mut later = BTreeSet::new();
        for entity_type in [EntityType::Namespace, EntityType::Scope] {
            let range = oldest.next()..self.head.next();
            let (entity_type, scopes, own) = (Some(entity_type), None, None);
            let touched = Touched { reach: &self.reach, entity_type, scopes, own, range };
            later.extend(self.reader.transactions_with(&touched, 0..NAMED_MAX as u64)?);
        }
        let named: Vec<String> =
            later.into_iter().filter(|tx| !undoes.contains(tx)).map(|tx| tx.to_string()).collect();
        Ok(match &named[..] {
            [] => String::new(),
            [tx] => format!(", because of transaction {tx}"),
            named => format!(", because of transactions {}", named.join(", ")),
        })
    }

    /// Refuses to delete scopes while records are in them.
    fn check_empty(&self, scopes: &[ScopeId], changes: &[Change], undoes: &[TxId]) -> Result<(), Error> {
        let leaves = |change: &&Change| {
            let before = change.before.as_ref().map(|before| &before.record);
            before.and_then(Record::scope) != change.after.as_ref().and_then(Record::scope)
        };
        let leaving: HashSet<Id> = changes.iter().filter(leaves).map(|change| change.id).collect();
        let mut staying = self.emptied(scopes)?;
        staying.retain(|change| !leaving.contains(&change.id));
        if staying.is_empty() {
            return Ok(());
        }
        let oldest = undoes.iter().min().copied().unwrap_or_default();
        let mut later = Vec::new();
        for change in staying {
            let touches = self.reader.touches(change.entity_type, change.id, Some(scopes))?;
            later.extend(self.in_the_way(&touches, oldest, undoes)?);
        }
        Err(changed_since(undoes.to_vec(), later))
    }

    /// The transactions since `oldest` that touched an id and prevent an undo of `oldest`. If such a
    /// transaction was undone, its undo is examined in its place: that undo may have found the id gone, and
    /// so not have touched it.
    fn in_the_way(&self, touches: &[TxId], oldest: TxId, undoes: &[TxId]) -> Result<Vec<TxId>, Error> {
        let mut later = Vec::new();
        for tx in touches.iter().copied().filter(|tx| *tx > oldest && !undoes.contains(tx)) {
            let standing = self.reader.undone_by(tx, self.head)?.unwrap_or(tx);
            if !self.is_cancelled(standing, oldest, touches)? {
                later.push(standing);
            }
        }
        Ok(later)
    }

    /// The change that gives an id the state from before `change`; none if it has that state already.
    fn restored(&self, change: Change) -> Result<Option<Change>, Error> {
        let Change { entity_type, id, before: wanted, .. } = change;
        let latest = self.reader.latest(entity_type, id)?;
        let version = latest.map_or(0, |stored| stored.record.version()) + 1;
        let before = self.reader.record(entity_type, id, self.head)?.map(Version::from);
        if wanted.is_none() && before.is_none() {
            return Ok(None);
        }
        let after = wanted.map(|wanted| wanted.record.again(version, self.now));
        Ok(Some(Change { entity_type, id, before, after }))
    }

    fn undoable(&self, id: TxId, wish: &UndoWish) -> Result<Transaction, Error> {
        let unknown = || Error::UnknownTx { tx: id, head: self.head };
        let tx = self.reader.transaction(id, self.head, View::WHOLE)?.ok_or_else(unknown)?;
        match self.part_in_reach(&tx) {
            Part::Nothing => return Err(unknown()),
            Part::Some => {
                let what =
                    format!("transaction {id} also changes what you can't see, so it can't be undone by you");
                return Err(Error::Forbidden { what });
            }
            Part::Everything => {}
        }
        if let Some((within, scope)) = &wish.within
            && !is_within(&tx, *within)
        {
            return Err(Error::OutsideScope { tx: id, scope: scope.clone() });
        }
        // A client may claim any name as the actor; the origin is this process or credential.
        if !wish.any_actor && tx.origin != self.origin {
            return Err(Error::NotYours { tx: id, actor: tx.actor });
        }
        if tx.origin != self.origin {
            self.reach.check_foreign_undo(&tx.changes)?;
        }
        match tx.undone_by {
            Some(by) => Err(Error::AlreadyUndone { tx: id, by }),
            None => Ok(tx),
        }
    }

    /// How much of a transaction the principal may see.
    fn part_in_reach(&self, tx: &Transaction) -> Part {
        if self.reach.is_everything() {
            return Part::Everything;
        }
        let is_seen = |change: &Change| {
            let before = change.before.iter().map(|before| &before.record);
            before.chain(&change.after).all(|record| self.reach.sees(change.id, record))
        };
        let seen = tx.changes.iter().filter(|change| is_seen(change)).count();
        match seen {
            0 => Part::Nothing,
            many if many == tx.changes.len() => Part::Everything,
            _ => Part::Some,
        }
    }

    fn newest(&self, count: u32, wish: &UndoWish) -> Result<Vec<Transaction>, Error> {
        let mut found = Vec::new();
        let mut before = self.head.next();
        while found.len() < count as usize {
            let next = match wish.any_actor {
                true => (before > TxId(1)).then(|| TxId(before.0 - 1)),
                false => self.reader.newest_of(self.origin, before)?,
            };
            let Some(id) = next else {
                let found = found.len() as u32;
                return Err(Error::TooFewToUndo { asked: count, found, any_actor: wish.any_actor });
            };
            before = id;
            let tx = self.reader.transaction(id, self.head, View::WHOLE)?;
            let tx = tx.ok_or_else(|| Error::damaged(format!("transaction {id} is missing")))?;
            let is_wanted = wish.within.as_ref().is_none_or(|(within, _)| is_within(&tx, *within))
                && self.part_in_reach(&tx) == Part::Everything
                && (tx.origin == self.origin || self.reach.check_foreign_undo(&tx.changes).is_ok());
            if is_wanted && tx.undoes.is_empty() && tx.undone_by.is_none() && !is_final(&tx) {
                found.push(tx);
            }
        }
        Ok(found)
    }

    /// The transactions of an author that are neither an undo nor undone, newest first.
    fn standing_of(&self, author: &Author, wish: &UndoWish) -> Result<Vec<Transaction>, Error> {
        let mut found = Vec::new();
        for id in self.transactions_of(author)?.into_iter().rev() {
            let header = self.reader.transaction(id, self.head, View::HEADER)?;
            if header.is_some_and(|header| header.undoes.is_empty() && header.undone_by.is_none()) {
                found.push(self.undoable(id, wish)?);
                found.pop_if(|tx| is_final(tx));
            }
        }
        if found.is_empty() {
            let what = format!("nothing that `{}` has written since then is left to take back", author.name);
            return Err(Error::Invalid { what });
        }
        Ok(found)
    }

    /// The numbers of an author's transactions, oldest first.
    fn transactions_of(&self, author: &Author) -> Result<Vec<TxId>, Error> {
        let mut found = Vec::new();
        self.each_header(|tx| found.extend(author.has_written(&tx).then_some(tx.id)))?;
        Ok(found)
    }

    fn each_header(&self, mut each: impl FnMut(Transaction)) -> Result<(), Error> {
        let all: Vec<TxId> = (1..=self.head.0).map(TxId).collect();
        for page in all.chunks(HEADERS_READ) {
            let headers = self.reader.transactions(page, self.head, View::HEADER)?;
            headers.into_iter().flatten().for_each(&mut each);
        }
        Ok(())
    }

    /// Suppresses every live entry whose present content an author has written.
    pub(super) fn quarantine(&self, author: &Author) -> Result<Draft, Error> {
        let (mut written, mut undos) = (HashSet::new(), HashSet::new());
        self.each_header(|tx| {
            if author.has_written(&tx) {
                written.insert(tx.id);
            } else if !tx.undoes.is_empty() {
                undos.insert(tx.id);
            }
        })?;
        let mut changes = Vec::new();
        for entry in self.reader.live(EntityType::Entry, self.head)? {
            let is_by_author = written.contains(&entry.tx_id)
                || undos.contains(&entry.tx_id) && self.is_brought_back(&entry, &written)?;
            if is_by_author && self.reach.sees(entry.id, &entry.record) {
                changes.extend(self.with_status(entry.id, Status::Suppressed)?);
            }
        }
        if changes.is_empty() {
            let what = format!("there is no live entry that `{}` has written since then", author.name);
            return Err(Error::Invalid { what });
        }
        Ok(Draft { changes, ..Draft::default() })
    }

    /// Whether an entry has the content that one of these transactions wrote. An undo by another author can
    /// bring such content back.
    fn is_brought_back(&self, entry: &Stored, written: &HashSet<TxId>) -> Result<bool, Error> {
        let touches = self.reader.touches(EntityType::Entry, entry.id, None)?;
        let by_author = touches.into_iter().filter(|tx| written.contains(tx));
        let key = |tx| RecordKey { entity_type: EntityType::Entry, id: entry.id, at: At::Live(tx) };
        let versions = self.reader.records(&by_author.map(key).collect::<Vec<_>>())?;
        let text =
            |stored: &Stored| stored.record.as_entry().map(|it| (it.topic.clone(), it.content.clone()));
        Ok(versions.iter().flatten().any(|version| text(version) == text(entry)))
    }

    /// Whether an undo and its targets cancel each other: together they leave an id as they found it, so
    /// neither prevents an undo of `oldest`, provided that all of them came after it. `touches` are the
    /// transactions that touched the id.
    ///
    /// For example, 5 and then 6 change an entry, and 7 undoes 6: 6 and 7 cancel each other, so 5 can be undone.
    fn is_cancelled(&self, id: TxId, oldest: TxId, touches: &[TxId]) -> Result<bool, Error> {
        // This is asked for every id that a large transaction touched, so only the header is read.
        let tx = self.reader.transaction(id, self.head, View::HEADER)?;
        let undoes = tx.map(|tx| tx.undoes).unwrap_or_default();
        let here = |target: &&TxId| touches.contains(target);
        Ok(undoes.iter().any(|target| here(&target))
            && undoes.iter().filter(here).all(|target| *target > oldest))
    }
}

/// Whether a transaction can't be taken back: a purge, or one of which a purge has left nothing.
fn is_final(tx: &Transaction) -> bool {
    tx.tool == purge::TOOL || !tx.changes.is_empty() && tx.changes.iter().all(is_purged)
}

/// Whether one of the versions that a change is about was removed for good.
fn is_purged(change: &Change) -> bool {
    let before = change.before.as_ref().map(|before| &before.record);
    before.into_iter().chain(&change.after).any(|record| record.tombstone().is_some())
}

fn changed_since(targets: Vec<TxId>, mut later: Vec<TxId>) -> Error {
    later.sort_unstable();
    later.dedup();
    Error::ChangedSince { targets, later }
}

/// Whether a transaction changed only the content of this scope, and the scope itself.
fn is_within(tx: &Transaction, within: ScopeId) -> bool {
    let is_inside = |record: &Record| match record {
        Record::Scope(scope) => scope.number == within,
        record => record.scope() == Some(within),
    };
    tx.changes.iter().all(|change| {
        let sides = change.before.iter().map(|before| &before.record).chain(&change.after);
        sides.into_iter().all(is_inside)
    })
}
