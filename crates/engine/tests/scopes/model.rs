//! The meaning of histories in the simplest form: maps, recursion, and a list of all states.

use std::collections::{BTreeMap, BTreeSet};

use kenning_engine::{Error, Stored};
use kenning_model::{
    Change, DEFAULT, EntityType, GLOBAL, GLOBAL_ABOUT, Id, Namespace, Record, ScopeId, ScopeName, Status,
    TxId, fold,
};
use kenning_storage::{
    DEPTH_MAX, EntryPatch, Missing, NamespacePatch, NewNamespace, NewScope, NewTriple, OnConflict,
    ScopePatch, UndoTarget, UndoWish, Write,
};

/// The content of a record, without who wrote it and when.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordContent {
    Namespace { name: String, about: String },
    Scope(Place),
    Entry { scope: ScopeId, content: String, suppressed: bool },
    Triple { scope: ScopeId, subject: String, object: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub number: ScopeId,
    pub namespace: Id,
    pub name: String,
    pub about: String,
    pub parents: Vec<ScopeId>,
}

impl RecordContent {
    pub fn of(record: &Record) -> RecordContent {
        match record {
            Record::Namespace(it) => {
                RecordContent::Namespace { name: it.name.clone(), about: it.description.clone() }
            }
            Record::Scope(it) => RecordContent::Scope(Place {
                number: it.number,
                namespace: it.namespace,
                name: it.name.clone(),
                about: it.description.clone(),
                parents: it.parents.clone(),
            }),
            Record::Entry(it) => RecordContent::Entry {
                scope: it.scope,
                content: it.content.clone(),
                suppressed: it.status == Status::Suppressed,
            },
            Record::Triple(it) => RecordContent::Triple {
                scope: it.scope,
                subject: fold(&it.subject),
                object: fold(&it.object),
            },
            other => panic!("nobody has written {other:?}"),
        }
    }

    /// The scope of the record; namespaces and scopes are in none.
    pub fn scope(&self) -> Option<ScopeId> {
        match self {
            RecordContent::Entry { scope, .. } | RecordContent::Triple { scope, .. } => Some(*scope),
            RecordContent::Namespace { .. } | RecordContent::Scope(_) => None,
        }
    }

    fn is_seen_from(&self, closure: &[ScopeId]) -> bool {
        self.scope().is_none_or(|scope| closure.contains(&scope))
    }

    fn is_within(&self, within: ScopeId) -> bool {
        match self {
            RecordContent::Scope(place) => place.number == within,
            other => other.scope() == Some(within),
        }
    }

    pub fn entity_type(&self) -> EntityType {
        match self {
            RecordContent::Namespace { .. } => EntityType::Namespace,
            RecordContent::Scope(_) => EntityType::Scope,
            RecordContent::Entry { .. } => EntityType::Entry,
            RecordContent::Triple { .. } => EntityType::Triple,
        }
    }
}

/// A version of a record. Every write makes a new version, so two states differ exactly in the records that
/// were written between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    pub number: u32,
    pub tx: usize,
    pub content: RecordContent,
}

impl Version {
    pub fn of(stored: &Stored) -> Version {
        let (number, tx) = (stored.record.version(), stored.tx_id.0 as usize);
        Version { number, tx, content: RecordContent::of(&stored.record) }
    }
}

/// All records that are live after one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct State(pub BTreeMap<Id, Version>);

/// The id that the model uses for `global:default`, which has no id in the log.
pub fn built_in() -> Id {
    Id::from_bits(1)
}

impl State {
    fn empty() -> State {
        let (name, about) = (GLOBAL.to_owned(), GLOBAL_ABOUT.to_owned());
        let default = Place {
            number: ScopeId::GLOBAL_DEFAULT,
            namespace: Namespace::GLOBAL_ID,
            name: DEFAULT.to_owned(),
            about: about.clone(),
            parents: Vec::new(),
        };
        let version = |content: RecordContent| Version { number: 0, tx: 0, content };
        State(BTreeMap::from([
            (Namespace::GLOBAL_ID, version(RecordContent::Namespace { name, about })),
            (built_in(), version(RecordContent::Scope(default))),
        ]))
    }

    pub fn content_of(&self, id: Id) -> Option<&RecordContent> {
        self.0.get(&id).map(|version| &version.content)
    }

    pub fn of_type(&self, entity_type: EntityType) -> Vec<Id> {
        let is_wanted = |version: &&Version| version.content.entity_type() == entity_type;
        self.0.iter().filter(|(_, version)| is_wanted(version)).map(|(id, _)| *id).collect()
    }

    fn namespace(&self, wanted: &str) -> Option<Id> {
        let is_it = |content: &RecordContent| matches!(content, RecordContent::Namespace { name, .. } if name == wanted);
        self.0.iter().find(|(_, version)| is_it(&version.content)).map(|(id, _)| *id)
    }

    pub fn namespace_name(&self, id: Id) -> Option<&str> {
        match self.content_of(id) {
            Some(RecordContent::Namespace { name, .. }) => Some(name),
            _ => None,
        }
    }

    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.values().filter_map(|version| match &version.content {
            RecordContent::Scope(place) => Some(place),
            _ => None,
        })
    }

    pub fn place(&self, number: ScopeId) -> Option<&Place> {
        self.places().find(|place| place.number == number)
    }

    pub fn named(&self, name: &ScopeName) -> Option<&Place> {
        let namespace = self.namespace(&name.namespace)?;
        self.places().find(|place| place.namespace == namespace && place.name == name.name)
    }

    pub fn name(&self, place: &Place) -> ScopeName {
        let namespace = self.namespace_name(place.namespace).expect("scopes are in live namespaces");
        ScopeName::new(namespace, &place.name)
    }

    pub fn default_of(&self, namespace: Id) -> ScopeId {
        let is_it = |place: &&Place| place.namespace == namespace && place.name == DEFAULT;
        self.places().find(is_it).expect("every namespace has a default").number
    }

    pub fn closure(&self, number: ScopeId) -> Vec<ScopeId> {
        let Some(place) = self.place(number) else { return Vec::new() };
        let mut seen = self.generations(vec![number], Vec::new());
        for last in [self.default_of(place.namespace), ScopeId::GLOBAL_DEFAULT] {
            seen.retain(|number| *number != last);
            seen.push(last);
        }
        seen
    }

    /// These scopes, then their parents, then the parents of those, each at its first place.
    fn generations(&self, generation: Vec<ScopeId>, mut seen: Vec<ScopeId>) -> Vec<ScopeId> {
        if generation.is_empty() {
            return seen;
        }
        let mut parents = Vec::new();
        for number in generation {
            if !seen.contains(&number) {
                seen.push(number);
                parents.extend(&self.place(number).expect("parents are live").parents);
            }
        }
        self.generations(parents, seen)
    }

    /// The number of scopes above each other up to the namespace's `default`; `None` in a cycle.
    pub fn depth(&self, place: &Place, below: &[ScopeId]) -> Option<usize> {
        if below.contains(&place.number) {
            return None;
        }
        let below = [below, &[place.number]].concat();
        let mut depth = usize::from(place.name != DEFAULT);
        for parent in &place.parents {
            depth = depth.max(1 + self.depth(self.place(*parent)?, &below)?);
        }
        Some(depth)
    }

    fn is_tree_sound(&self) -> bool {
        let namespaces = self.of_type(EntityType::Namespace);
        let names: BTreeSet<_> = namespaces.iter().map(|id| self.namespace_name(*id)).collect();
        let is_sound = |place: &Place| {
            let is_near = |parent: &Place| parent.namespace == place.namespace;
            self.namespace_name(place.namespace).is_some()
                && place.parents.iter().all(|parent| self.place(*parent).is_some_and(is_near))
                && self.depth(place, &[]).is_some_and(|depth| depth <= DEPTH_MAX)
        };
        let mut scopes = BTreeSet::new();
        names.len() == namespaces.len()
            && self.places().all(is_sound)
            && self.places().all(|place| scopes.insert(self.name(place)))
    }

    /// The live records of a type that a closure sees.
    pub fn seen(&self, entity_type: EntityType, closure: &[ScopeId]) -> BTreeMap<Id, Version> {
        let is_seen =
            |content: &RecordContent| content.entity_type() == entity_type && content.is_seen_from(closure);
        let seen = self.0.iter().filter(|(_, version)| is_seen(&version.content));
        seen.map(|(id, version)| (*id, version.clone())).collect()
    }
}

/// The reason why a write is refused, as far as the model knows it.
#[derive(Debug, PartialEq)]
pub enum Refused {
    UnknownId,
    UnknownNamespace,
    UnknownScope(Lost),
    UnknownTx,
    NameTaken,
    Invalid,
    Unsound,
    OutsideScope,
    NotYours,
    AlreadyUndone(usize),
    ChangedSince(Vec<usize>),
    TooFew,
    Contradiction(usize),
    NeverTogether,
}

/// The reason why a scope is missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Lost {
    Deleted(usize),
    Renamed(String),
    NotYet,
    Never,
}

impl Refused {
    pub fn of(error: &Error) -> Refused {
        match error {
            Error::UnknownId { .. } => Refused::UnknownId,
            Error::UnknownNamespace { .. } => Refused::UnknownNamespace,
            Error::UnknownScope { missing, .. } => Refused::UnknownScope(match missing {
                Missing::Deleted { by } => Lost::Deleted(by.0 as usize),
                Missing::Renamed { to } => Lost::Renamed(to.clone()),
                Missing::NotYet { .. } => Lost::NotYet,
                Missing::Never { .. } => Lost::Never,
            }),
            Error::UnknownTx { .. } => Refused::UnknownTx,
            Error::NameTaken { .. } => Refused::NameTaken,
            Error::Invalid { .. } => Refused::Invalid,
            Error::Unsound { .. } => Refused::Unsound,
            Error::OutsideScope { .. } => Refused::OutsideScope,
            Error::NotYours { .. } => Refused::NotYours,
            Error::AlreadyUndone { by, .. } => Refused::AlreadyUndone(by.0 as usize),
            Error::ChangedSince { later, .. } => Refused::ChangedSince(numbers(later)),
            Error::TooFewToUndo { .. } => Refused::TooFew,
            Error::Contradiction { many, .. } => Refused::Contradiction(*many as usize),
            Error::NeverTogether { .. } => Refused::NeverTogether,
            other => panic!("no history leads to {other:?}"),
        }
    }
}

/// The changes that a write makes. A new record has no id before it is written.
#[derive(Debug, Default, PartialEq)]
pub struct Draft {
    pub changes: Vec<(Option<Id>, Option<RecordContent>)>,
    pub undoes: Vec<usize>,
    /// The transactions of which one is the answer if there is nothing to write.
    pub existing: Vec<usize>,
}

impl Draft {
    fn one(id: Option<Id>, content: Option<RecordContent>) -> Draft {
        Draft { changes: vec![(id, content)], ..Draft::default() }
    }

    /// Gives the new records the ids that the store has given them, in order. The namespace of a new scope
    /// may be new too; then it is the first of them.
    pub fn take_ids(&mut self, mut given: impl Iterator<Item = Id>) {
        let mut first = None;
        for (id, content) in self.changes.iter_mut().filter(|(id, _)| id.is_none()) {
            *id = Some(given.next().expect("what is new has an id that nothing had"));
            let first = *first.get_or_insert(*id);
            if let Some(RecordContent::Scope(place)) = content
                && place.namespace == new_id()
            {
                place.namespace = first.expect("it was given");
            }
        }
    }
}

/// Stands for the id of a record that is not written yet.
fn new_id() -> Id {
    Id::from_bits(2)
}

pub struct Logged {
    pub who: usize,
    pub undoes: Vec<usize>,
    pub touched: Vec<Id>,
}

pub struct Model {
    /// The state after each transaction; the first is the empty store.
    pub states: Vec<State>,
    pub log: Vec<Logged>,
    /// The newest version that each id ever had.
    pub versions: BTreeMap<Id, u32>,
    /// The number of the next new scope.
    pub next: ScopeId,
}

impl Model {
    pub fn new() -> Model {
        let (states, log, versions) = (vec![State::empty()], Vec::new(), BTreeMap::new());
        Model { states, log, versions, next: ScopeId(2) }
    }

    pub fn head(&self) -> usize {
        self.log.len()
    }

    pub fn now(&self) -> &State {
        self.states.last().expect("never empty")
    }

    pub fn scopes_ever(&self) -> Vec<ScopeId> {
        (1..self.next.0).map(ScopeId).collect()
    }

    /// The content of an id before and after a transaction that touched it.
    fn sides(&self, tx: usize, id: Id) -> impl Iterator<Item = &RecordContent> {
        [&self.states[tx - 1], &self.states[tx]].into_iter().filter_map(move |state| state.content_of(id))
    }

    /// The last name of a scope, with the last name of its namespace.
    pub fn last_name(&self, scope: ScopeId, at: usize) -> Option<ScopeName> {
        let earlier = || self.states[..=at].iter().rev();
        let place = earlier().find_map(|state| state.place(scope))?;
        let namespace = earlier().find_map(|state| state.namespace_name(place.namespace));
        Some(ScopeName::new(namespace.expect("it was in one"), &place.name))
    }

    /// The scope with this name at the time, or else the scope that has it now.
    pub fn find(&self, name: &ScopeName, at: usize) -> Result<ScopeId, Lost> {
        if let Some(place) = self.states[at].named(name) {
            return Ok(place.number);
        }
        if let Some(place) = self.now().named(name) {
            return self.states[at].place(place.number).map(|place| place.number).ok_or(Lost::NotYet);
        }
        // A scope that was renamed is found by its old name, if it existed at the time.
        let once = self.once_named(name).filter(|once| self.now().place(*once).is_some());
        once.filter(|once| self.states[at].place(*once).is_some()).ok_or_else(|| self.lost(name))
    }

    /// The scope that had this name last.
    fn once_named(&self, name: &ScopeName) -> Option<ScopeId> {
        self.states.iter().rev().find_map(|state| state.named(name)).map(|place| place.number)
    }

    /// The reason why no scope has this name now.
    fn lost(&self, name: &ScopeName) -> Lost {
        let Some(once) = self.once_named(name) else { return Lost::Never };
        if let Some(place) = self.now().place(once) {
            return Lost::Renamed(self.now().name(place).to_string());
        }
        let last = self.states.iter().rposition(|state| state.place(once).is_some());
        Lost::Deleted(1 + last.expect("it had a name"))
    }

    /// The scope of a write, which is looked up by its present name.
    fn found(&self, name: &ScopeName) -> Result<&Place, Refused> {
        self.now().named(name).ok_or_else(|| Refused::UnknownScope(self.lost(name)))
    }

    /// The changes that a write would make, or why it is refused.
    pub fn draft(&self, who: usize, write: &Write) -> Result<Draft, Refused> {
        match write {
            Write::Store(new) => {
                self.check_scope(new.scope)?;
                let (scope, content) = (new.scope, new.content.clone());
                Ok(Draft::one(None, Some(RecordContent::Entry { scope, content, suppressed: false })))
            }
            Write::Update { id, patch, .. } => self.update(*id, patch),
            Write::Delete { entity_type, id } => {
                let is_it = |content: &&RecordContent| content.entity_type() == *entity_type;
                self.now().content_of(*id).filter(is_it).ok_or(Refused::UnknownId)?;
                Ok(Draft::one(Some(*id), None))
            }
            Write::Relate { triple, on_conflict } => self.relate(triple, *on_conflict),
            Write::Resolve { active, suppressed } => self.resolve(*active, suppressed),
            Write::CreateNamespace(new) => self.create_namespace(new),
            Write::UpdateNamespace { name, patch } => self.update_namespace(name, patch),
            Write::DeleteNamespace { name } => {
                let id = self.namespace_to_change(name)?;
                let scopes = self.now().places().filter(|place| place.namespace == id);
                self.deletion(Some(id), scopes.map(|place| place.number).collect())
            }
            Write::CreateScope(new) => self.create_scope(new),
            Write::PutDocument(_) | Write::DeleteDocuments { .. } => panic!("nobody writes documents here"),
            Write::UpdateScope { name, patch } => self.update_scope(name, patch),
            Write::DeleteScope { name } => {
                let place = self.found(name)?;
                if place.name == DEFAULT {
                    return Err(Refused::Invalid);
                }
                self.deletion(None, vec![place.number])
            }
            Write::Undo(wish) => self.undo(who, wish),
            Write::StoreAll(_) | Write::Batch(_) => panic!("nobody stores many at once here"),
            Write::Restore { .. } => panic!("nobody undeletes here; undo brings back"),
            Write::Quarantine(_) => panic!("nobody hides everything of an author here"),
        }
    }

    fn check_scope(&self, scope: ScopeId) -> Result<(), Refused> {
        self.now().place(scope).map(drop).ok_or(Refused::Unsound)
    }

    fn update(&self, id: Id, patch: &EntryPatch) -> Result<Draft, Refused> {
        let Some(RecordContent::Entry { scope, content, suppressed }) = self.now().content_of(id) else {
            return Err(Refused::UnknownId);
        };
        patch.scope.map_or(Ok(()), |scope| self.check_scope(scope))?;
        let scope = patch.scope.unwrap_or(*scope);
        let content = patch.content.clone().unwrap_or(content.clone());
        Ok(Draft::one(Some(id), Some(RecordContent::Entry { scope, content, suppressed: *suppressed })))
    }

    fn relate(&self, new: &NewTriple, on_conflict: OnConflict) -> Result<Draft, Refused> {
        self.check_scope(new.scope)?;
        let (subject, object) = (fold(&new.subject), fold(&new.object));
        let (existing, conflicts) = self.facts(new);
        let mut draft = Draft::default();
        if existing.is_empty() {
            if on_conflict == OnConflict::Reject && !conflicts.is_empty() {
                return Err(Refused::Contradiction(conflicts.len()));
            }
            draft.changes.push((None, Some(RecordContent::Triple { scope: new.scope, subject, object })));
        }
        if on_conflict == OnConflict::Replace {
            let here =
                |id: &&Id| self.now().content_of(**id).and_then(RecordContent::scope) == Some(new.scope);
            draft.changes.extend(conflicts.iter().filter(here).map(|id| (Some(*id), None)));
        }
        draft.existing = existing.iter().map(|id| self.now().0[id].tx).collect();
        Ok(draft)
    }

    /// Among the facts that the scope of the new fact sees: the same facts in the scope itself, and the facts
    /// that contradict it.
    pub fn facts(&self, new: &NewTriple) -> (Vec<Id>, Vec<Id>) {
        let closure = self.now().closure(new.scope);
        let (mut same, mut others) = (Vec::new(), Vec::new());
        for (id, version) in self.now().seen(EntityType::Triple, &closure) {
            let RecordContent::Triple { scope, subject, object } = version.content else { continue };
            if subject != fold(&new.subject) {
                continue;
            }
            if object != fold(&new.object) {
                others.push(id);
            } else if scope == new.scope {
                // An undo can bring back a fact that was stored again meanwhile, so there may be two.
                same.push(id);
            }
        }
        (same, others)
    }

    fn resolve(&self, active: Id, suppressed: &[Id]) -> Result<Draft, Refused> {
        let mut draft = Draft::default();
        let mut asked = BTreeSet::new();
        for (id, suppress) in [(active, false)].into_iter().chain(suppressed.iter().map(|id| (*id, true))) {
            if !asked.insert(id) {
                return Err(Refused::Invalid);
            }
            let Some(RecordContent::Entry { scope, content, suppressed }) = self.now().content_of(id) else {
                return Err(Refused::UnknownId);
            };
            if suppress && !self.is_seen_together(active, *scope) {
                return Err(Refused::NeverTogether);
            }
            if *suppressed != suppress {
                let content =
                    RecordContent::Entry { scope: *scope, content: content.clone(), suppressed: suppress };
                draft.changes.push((Some(id), Some(content)));
            }
        }
        draft.existing.extend(suppressed.iter().map(|id| self.settled_in(*id)).max());
        Ok(draft)
    }

    /// Whether some scope sees both the scope of this entry and the other scope.
    fn is_seen_together(&self, entry: Id, other: ScopeId) -> bool {
        let one = self.now().content_of(entry).and_then(RecordContent::scope);
        let closures = self.now().places().map(|place| self.now().closure(place.number));
        one.is_some_and(|one| closures.into_iter().any(|seen| seen.contains(&one) && seen.contains(&other)))
    }

    /// The transaction that suppressed an entry, whatever has changed in the entry since; for an entry that
    /// is not suppressed its last transaction.
    fn settled_in(&self, id: Id) -> usize {
        let is_hidden = |state: &&State| {
            matches!(state.content_of(id), Some(RecordContent::Entry { suppressed: true, .. }))
        };
        let since = self.states.iter().rev().take_while(is_hidden).last();
        since.unwrap_or(self.now()).0[&id].tx
    }

    fn create_namespace(&self, new: &NewNamespace) -> Result<Draft, Refused> {
        if self.now().namespace(&new.name).is_some() {
            return Err(Refused::NameTaken);
        }
        let (name, about) = (new.name.clone(), new.description.clone());
        let default = Place {
            number: self.next,
            namespace: new_id(),
            name: DEFAULT.to_owned(),
            about: about.clone(),
            parents: Vec::new(),
        };
        let changes = vec![
            (None, Some(RecordContent::Namespace { name, about })),
            (None, Some(RecordContent::Scope(default))),
        ];
        Ok(Draft { changes, ..Draft::default() })
    }

    fn namespace_to_change(&self, name: &str) -> Result<Id, Refused> {
        match self.now().namespace(name) {
            Some(Namespace::GLOBAL_ID) => Err(Refused::Invalid),
            found => found.ok_or(Refused::UnknownNamespace),
        }
    }

    fn update_namespace(&self, name: &str, patch: &NamespacePatch) -> Result<Draft, Refused> {
        let id = self.namespace_to_change(name)?;
        let Some(RecordContent::Namespace { name, about }) = self.now().content_of(id).cloned() else {
            panic!("`{id}` was found by its name");
        };
        let new = patch.name.clone().unwrap_or(name.clone());
        if new != name && self.now().namespace(&new).is_some() {
            return Err(Refused::NameTaken);
        }
        let about = patch.description.clone().unwrap_or(about);
        Ok(Draft::one(Some(id), Some(RecordContent::Namespace { name: new, about })))
    }

    fn create_scope(&self, new: &NewScope) -> Result<Draft, Refused> {
        let namespace = self.now().namespace(&new.name.namespace).ok_or(Refused::UnknownNamespace)?;
        if self.now().named(&new.name).is_some() {
            return Err(Refused::NameTaken);
        }
        let place = Place {
            number: self.next,
            namespace,
            name: new.name.name.clone(),
            about: new.description.clone(),
            parents: self.parents(&new.name, &new.parents)?,
        };
        self.in_tree(None, place)
    }

    fn update_scope(&self, name: &ScopeName, patch: &ScopePatch) -> Result<Draft, Refused> {
        let mut place = self.found(name)?.clone();
        let is_default = place.name == DEFAULT;
        if place.number == ScopeId::GLOBAL_DEFAULT {
            return Err(Refused::Invalid);
        }
        if let Some(new) = patch.name.as_ref().filter(|new| *new != name) {
            if new.namespace != name.namespace || is_default {
                return Err(Refused::Invalid);
            }
            if self.now().named(new).is_some() {
                return Err(Refused::NameTaken);
            }
            place.name = new.name.clone();
        }
        if let Some(parents) = &patch.parents {
            if is_default && !parents.is_empty() {
                return Err(Refused::Invalid);
            }
            place.parents = self.parents(name, parents)?;
        }
        self.in_tree(Some(self.id_of(place.number)), place)
    }

    fn id_of(&self, number: ScopeId) -> Id {
        let is_it = |content: &RecordContent| matches!(content, RecordContent::Scope(place) if place.number == number);
        let found = self.now().0.iter().find(|(_, version)| is_it(&version.content));
        *found.expect("the scope is live").0
    }

    fn parents(&self, child: &ScopeName, named: &[ScopeName]) -> Result<Vec<ScopeId>, Refused> {
        let mut parents = Vec::new();
        for name in named {
            if name.namespace != child.namespace {
                return Err(Refused::Invalid);
            }
            let parent = self.found(name)?;
            if parent.name != DEFAULT && !parents.contains(&parent.number) {
                parents.push(parent.number);
            }
        }
        Ok(parents)
    }

    fn in_tree(&self, id: Option<Id>, place: Place) -> Result<Draft, Refused> {
        let draft = Draft::one(id, Some(RecordContent::Scope(place)));
        match self.after(&draft).is_tree_sound() {
            true => Ok(draft),
            false => Err(Refused::Invalid),
        }
    }

    /// Deletes these scopes, all records in them, and the namespace if one is given.
    fn deletion(&self, namespace: Option<Id>, scopes: Vec<ScopeId>) -> Result<Draft, Refused> {
        let mut draft = Draft::default();
        draft.changes.extend(namespace.map(|id| (Some(id), None)));
        for (id, version) in &self.now().0 {
            let after = match &version.content {
                RecordContent::Scope(place) if scopes.contains(&place.number) => None,
                RecordContent::Scope(place) if place.parents.iter().any(|parent| scopes.contains(parent)) => {
                    let mut place = place.clone();
                    place.parents.retain(|parent| !scopes.contains(parent));
                    Some(RecordContent::Scope(place))
                }
                content if content.scope().is_some_and(|scope| scopes.contains(&scope)) => None,
                _ => continue,
            };
            draft.changes.push((Some(*id), after));
        }
        Ok(draft)
    }

    /// The undo of a transaction that is in effect as of `at`. Transactions are numbered from 1.
    pub fn undone_by(&self, tx: usize, at: usize) -> Option<usize> {
        (tx + 1..=at)
            .rev()
            .find(|by| self.log[by - 1].undoes.contains(&tx) && self.undone_by(*by, at).is_none())
    }

    /// Whether a transaction changed nothing, like an undo that found nothing left to change.
    pub fn changed_nothing(&self, tx: usize) -> bool {
        self.log[tx - 1].touched.is_empty()
    }

    pub fn touched(&self, tx: usize, id: Id) -> bool {
        self.log[tx - 1].touched.contains(&id)
    }

    /// The later transactions whose change of an id would be lost by an undo back to before `oldest`.
    ///
    /// A transaction that was undone is represented by its undo; and an undo does not count if everything
    /// that it took back for this id came after `oldest`. With `within`, only changes count before or after
    /// which the id was in one of these scopes.
    fn in_the_way(&self, id: Id, oldest: usize, undoes: &[usize], within: Option<&[ScopeId]>) -> Vec<usize> {
        let touches = |tx: usize| {
            let is_here = |content: &RecordContent| {
                within.is_none_or(|within| content.scope().is_some_and(|scope| within.contains(&scope)))
            };
            self.touched(tx, id) && self.sides(tx, id).any(is_here)
        };
        let is_cancelled = |tx: usize| {
            let undoes = self.log[tx - 1].undoes.iter().copied();
            let here: Vec<usize> = undoes.filter(|target| touches(*target)).collect();
            !here.is_empty() && here.iter().all(|target| *target > oldest)
        };
        let later = (oldest + 1..=self.head()).filter(|tx| touches(*tx) && !undoes.contains(tx));
        let standing = later.map(|tx| self.undone_by(tx, self.head()).unwrap_or(tx));
        standing.filter(|tx| !is_cancelled(*tx)).collect()
    }

    fn is_within(&self, tx: usize, within: ScopeId) -> bool {
        let ids = self.log[tx - 1].touched.iter();
        ids.flat_map(|id| self.sides(tx, *id)).all(|content| content.is_within(within))
    }

    fn targets(&self, who: usize, wish: &UndoWish) -> Result<Vec<usize>, Refused> {
        let is_within =
            |tx: usize| wish.within.as_ref().is_none_or(|(within, _)| self.is_within(tx, *within));
        let may = |tx: usize| wish.any_actor || self.log[tx - 1].who == who;
        match wish.target {
            UndoTarget::Tx(TxId(tx)) => {
                let tx = tx as usize;
                if !(1..=self.head()).contains(&tx) {
                    return Err(Refused::UnknownTx);
                } else if !is_within(tx) {
                    return Err(Refused::OutsideScope);
                } else if !may(tx) {
                    return Err(Refused::NotYours);
                }
                self.undone_by(tx, self.head()).map_or(Ok(vec![tx]), |by| Err(Refused::AlreadyUndone(by)))
            }
            UndoTarget::Newest(count) => {
                let stands = |tx: usize| {
                    self.log[tx - 1].undoes.is_empty() && self.undone_by(tx, self.head()).is_none()
                };
                let wanted = (1..=self.head()).rev().filter(|tx| may(*tx) && is_within(*tx) && stands(*tx));
                let targets: Vec<usize> = wanted.take(count as usize).collect();
                if targets.len() < count as usize { Err(Refused::TooFew) } else { Ok(targets) }
            }
            UndoTarget::By(_) => panic!("nobody takes back everything of an author here"),
        }
    }

    fn undo(&self, who: usize, wish: &UndoWish) -> Result<Draft, Refused> {
        let undoes = self.targets(who, wish)?;
        let mut ids: BTreeMap<Id, usize> = BTreeMap::new();
        // The newest comes first, so the oldest that touched an id remains.
        for tx in &undoes {
            ids.extend(self.log[tx - 1].touched.iter().map(|id| (*id, *tx)));
        }
        let mut later = BTreeSet::new();
        let mut changes = Vec::new();
        for (id, oldest) in ids {
            later.extend(self.in_the_way(id, oldest, &undoes, None));
            let wanted = self.states[oldest - 1].content_of(id).cloned();
            if wanted.is_some() || self.now().content_of(id).is_some() {
                changes.push((Some(id), wanted));
            }
        }
        if !later.is_empty() {
            return Err(Refused::ChangedSince(later.into_iter().collect()));
        }
        let draft = Draft { changes, undoes, ..Draft::default() };
        let after = self.after(&draft);
        if !after.is_tree_sound() {
            return Err(Refused::Unsound);
        }
        self.check_homes(&draft, &after)?;
        Ok(draft)
    }

    /// Refuses an undo that would leave a record in a scope that does not exist.
    fn check_homes(&self, draft: &Draft, after: &State) -> Result<(), Refused> {
        let homeless = |(id, version): (&Id, &Version)| {
            let scope = version.content.scope().filter(|scope| after.place(*scope).is_none())?;
            Some((*id, scope))
        };
        let homeless: Vec<(Id, ScopeId)> = after.0.iter().filter_map(homeless).collect();
        let was_there =
            |id: Id, scope: ScopeId| self.now().content_of(id).and_then(RecordContent::scope) == Some(scope);
        let staying = homeless.iter().filter(|(id, scope)| was_there(*id, *scope));
        let staying: Vec<Id> = staying.map(|(id, _)| *id).collect();
        if staying.is_empty() {
            return if homeless.is_empty() { Ok(()) } else { Err(Refused::Unsound) };
        }
        let oldest = *draft.undoes.iter().min().expect("something is undone");
        let closed = self.now().places().map(|place| place.number);
        let closed: Vec<ScopeId> = closed.filter(|scope| after.place(*scope).is_none()).collect();
        let later = staying.iter().flat_map(|id| self.in_the_way(*id, oldest, &draft.undoes, Some(&closed)));
        Err(Refused::ChangedSince(later.collect::<BTreeSet<_>>().into_iter().collect()))
    }

    /// The state that a draft leads to. A new record without an id is kept under an id that no other record
    /// has.
    fn after(&self, draft: &Draft) -> State {
        let mut state = self.now().clone();
        for (id, content) in &draft.changes {
            let id = id.unwrap_or_else(new_id);
            match content {
                Some(content) => {
                    let number = self.versions.get(&id).copied().unwrap_or(0) + 1;
                    let version = Version { number, tx: self.head() + 1, content: content.clone() };
                    state.0.insert(id, version);
                }
                None => drop(state.0.remove(&id)),
            }
        }
        state
    }

    /// Adds a draft that was written to the model.
    pub fn push(&mut self, who: usize, draft: &Draft) {
        let state = self.after(draft);
        let mut touched: Vec<Id> = self.now().0.keys().chain(state.0.keys()).copied().collect();
        touched.sort();
        touched.dedup();
        touched.retain(|id| self.now().0.get(id) != state.0.get(id));
        for (id, version) in &state.0 {
            self.versions.insert(*id, version.number);
            if let RecordContent::Scope(place) = &version.content {
                self.next = self.next.max(ScopeId(place.number.0 + 1));
            }
        }
        self.states.push(state);
        self.log.push(Logged { who, undoes: draft.undoes.clone(), touched });
    }

    /// The versions of an id before and after a transaction, as far as a closure sees them; `None` if it sees
    /// neither.
    pub fn change(&self, tx: usize, id: Id, closure: &[ScopeId]) -> Option<Sides> {
        let side = |state: &State| state.0.get(&id).filter(|it| it.content.is_seen_from(closure)).cloned();
        let sides = Sides { before: side(&self.states[tx - 1]), after: side(&self.states[tx]) };
        (self.touched(tx, id) && (sides.before.is_some() || sides.after.is_some())).then_some(sides)
    }

    pub fn changes(&self, tx: usize, closure: &[ScopeId]) -> BTreeMap<Id, Sides> {
        let ids = self.log[tx - 1].touched.iter();
        ids.filter_map(|id| Some((*id, self.change(tx, *id, closure)?))).collect()
    }
}

#[derive(Debug, PartialEq)]
pub struct Sides {
    pub before: Option<Version>,
    pub after: Option<Version>,
}

impl Sides {
    pub fn of(tx: TxId, change: &Change) -> Sides {
        let version = |tx: TxId, record: &Record| Version {
            number: record.version(),
            tx: tx.0 as usize,
            content: RecordContent::of(record),
        };
        Sides {
            before: change.before.as_ref().map(|before| version(before.tx_id, &before.record)),
            after: change.after.as_ref().map(|after| version(tx, after)),
        }
    }
}

pub fn numbers(transactions: &[TxId]) -> Vec<usize> {
    transactions.iter().map(|tx| tx.0 as usize).collect()
}
