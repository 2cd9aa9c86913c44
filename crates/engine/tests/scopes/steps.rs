//! The random steps of a history, and the writes that each of them stands for in a given state.

use kenning_model::{DEFAULT, EntityType, GLOBAL, Id, Namespace, ScopeId, ScopeName, TxId};
use kenning_storage::{
    EntryPatch, NamespacePatch, NewEntry, NewNamespace, NewScope, NewTriple, OnConflict, ScopePatch,
    UndoTarget, UndoWish, Write,
};
use proptest::prelude::*;

use crate::model::Model;

pub const NAMESPACES: [&str; 3] = [GLOBAL, "acme", "beta"];
pub const NAMES: [&str; 5] = [DEFAULT, "web", "shop", "ops", "lab"];
pub const WORDS: [&str; 4] = ["deploy", "banana", "release", "getUserName"];

/// The kinds of steps. A number chooses among the records that exist when the step is taken. `Replace`,
/// `Turn` and `Strand` consist of several writes, and end with an undo that would leave the tree of scopes
/// invalid.
#[derive(Clone, Debug)]
pub enum Op {
    CreateNamespace { name: usize },
    UpdateNamespace { which: usize, name: Option<usize> },
    DeleteNamespace { which: usize },
    CreateScope { namespace: usize, name: usize, parents: Vec<usize> },
    RenameScope { which: usize, name: usize },
    Inherit { which: usize, parents: Vec<usize> },
    DeleteScope { which: usize },
    Replace { which: usize },
    Turn { which: usize, under: Option<usize> },
    Strand { which: usize, renamed: usize },
    Store { scope: usize, word: usize },
    Update { which: usize, scope: Option<usize>, word: usize },
    Delete { which: usize },
    Relate { scope: usize, subject: u8, object: u8, on_conflict: usize },
    Resolve { active: usize, suppressed: Vec<usize> },
    UndoTx { ago: usize, any_actor: bool, within: Option<usize> },
    UndoUndo { ago: usize },
    UndoNewest { count: u32, any_actor: bool, within: Option<usize> },
}

fn op() -> impl Strategy<Value = Op> {
    let one = any::<usize>;
    let parents = || prop::collection::vec(any::<usize>(), 0..4);
    let within = || prop::option::weighted(0.2, any::<usize>());
    let ago = || prop_oneof![3 => 0..6usize, 1 => any::<usize>()];
    prop_oneof![
        2 => one().prop_map(|name| Op::CreateNamespace { name }),
        2 => (one(), prop::option::weighted(0.8, one()))
            .prop_map(|(which, name)| Op::UpdateNamespace { which, name }),
        1 => one().prop_map(|which| Op::DeleteNamespace { which }),
        6 => (one(), one(), parents())
            .prop_map(|(namespace, name, parents)| Op::CreateScope { namespace, name, parents }),
        3 => (one(), one()).prop_map(|(which, name)| Op::RenameScope { which, name }),
        6 => (one(), parents()).prop_map(|(which, parents)| Op::Inherit { which, parents }),
        3 => one().prop_map(|which| Op::DeleteScope { which }),
        1 => one().prop_map(|which| Op::Replace { which }),
        2 => (one(), prop::option::of(one())).prop_map(|(which, under)| Op::Turn { which, under }),
        1 => (one(), one()).prop_map(|(which, renamed)| Op::Strand { which, renamed }),
        5 => (one(), one()).prop_map(|(scope, word)| Op::Store { scope, word }),
        4 => (one(), prop::option::weighted(0.7, one()), one())
            .prop_map(|(which, scope, word)| Op::Update { which, scope, word }),
        2 => one().prop_map(|which| Op::Delete { which }),
        4 => (one(), 0..2u8, 0..3u8, 0..3usize).prop_map(|(scope, subject, object, on_conflict)| {
            Op::Relate { scope, subject, object, on_conflict }
        }),
        2 => (one(), prop::collection::vec(one(), 1..3))
            .prop_map(|(active, suppressed)| Op::Resolve { active, suppressed }),
        7 => (ago(), prop::bool::weighted(0.8), within())
            .prop_map(|(ago, any_actor, within)| Op::UndoTx { ago, any_actor, within }),
        4 => (0..3usize).prop_map(|ago| Op::UndoUndo { ago }),
        3 => (1..5u32, any::<bool>(), within())
            .prop_map(|(count, any_actor, within)| Op::UndoNewest { count, any_actor, within }),
    ]
}

/// A step: who takes it, the operation, the earlier transaction that is read afterwards, and the scope whose
/// history is read completely.
pub type Step = (usize, Op, prop::sample::Index, prop::sample::Index);

pub fn step() -> impl Strategy<Value = Step> {
    (0..2usize, op(), any::<prop::sample::Index>(), any::<prop::sample::Index>())
}

/// Chooses the writes of a step.
impl Model {
    /// The writes of a step, with their authors; none if there is no record to choose.
    pub fn writes(&self, who: usize, op: &Op) -> Vec<(usize, Write)> {
        let writes = match op {
            Op::Replace { which } => self.replace(&self.some_name(*which)),
            Op::Turn { which, under: None } => self.turn(&self.some_name(*which), None),
            Op::Turn { which, under } => self.turn(&self.lowest(&self.some_name(*which)), *under),
            Op::Strand { which, renamed } => return self.strand(who, *which, *renamed).unwrap_or_default(),
            _ => self.write(op).into_iter().collect(),
        };
        writes.into_iter().map(|write| (who, write)).collect()
    }

    fn write(&self, op: &Op) -> Option<Write> {
        Some(match op {
            Op::CreateNamespace { name } => {
                let name = NAMESPACES[name % NAMESPACES.len()].to_owned();
                Write::CreateNamespace(NewNamespace { name, description: self.fresh("about") })
            }
            Op::UpdateNamespace { which, name } => {
                let new = name.map(|name| NAMESPACES[name % NAMESPACES.len()].to_owned());
                let patch = NamespacePatch { name: new, description: Some(self.fresh("about")) };
                Write::UpdateNamespace { name: self.some_namespace(*which), patch }
            }
            Op::DeleteNamespace { which } => Write::DeleteNamespace { name: self.some_namespace(*which) },
            Op::CreateScope { namespace, name, parents } => {
                let name = ScopeName::new(&self.some_namespace(*namespace), NAMES[name % NAMES.len()]);
                let parents = self.some_parents(&name, parents);
                Write::CreateScope(NewScope { name, description: self.fresh("about"), parents })
            }
            Op::RenameScope { which, name } => {
                let old = self.some_name(*which);
                let namespace = if name % 16 == 0 { GLOBAL } else { &old.namespace };
                let new = Some(ScopeName::new(namespace, NAMES[name % NAMES.len()]));
                Write::UpdateScope { name: old, patch: ScopePatch { name: new, ..ScopePatch::default() } }
            }
            Op::Inherit { which, parents } => {
                let name = self.some_name(*which);
                let parents = Some(self.some_parents(&name, parents));
                Write::UpdateScope { name, patch: ScopePatch { parents, ..ScopePatch::default() } }
            }
            Op::DeleteScope { which } => Write::DeleteScope { name: self.some_name(*which) },
            Op::Store { scope, word } => {
                let content = self.fresh(WORDS[word % WORDS.len()]);
                Write::Store(NewEntry::new(self.some_scope(*scope), "topic", content))
            }
            Op::Update { which, scope, word } => {
                let content = Some(self.fresh(WORDS[word % WORDS.len()]));
                let scope = scope.map(|scope| self.some_scope(scope));
                let patch = EntryPatch { scope, content, ..EntryPatch::default() };
                Write::Update { id: self.some_id(EntityType::Entry, *which)?, patch, expected_version: None }
            }
            Op::Delete { which } => {
                let entity_type = [EntityType::Entry, EntityType::Triple][which % 2];
                Write::Delete { entity_type, id: self.some_id(entity_type, which / 2)? }
            }
            Op::Relate { scope, subject, object, on_conflict } => Write::Relate {
                triple: NewTriple {
                    scope: self.some_scope(*scope),
                    subject: format!("Subject {subject}"),
                    predicate: "is".into(),
                    object: format!("Object {object}"),
                    source: None,
                    confidence: None,
                },
                on_conflict: [OnConflict::KeepBoth, OnConflict::Replace, OnConflict::Reject][*on_conflict],
            },
            Op::Resolve { active, suppressed } => {
                let entry = |which: &usize| self.some_id(EntityType::Entry, *which);
                let suppressed = suppressed.iter().map(entry).collect::<Option<_>>();
                Write::Resolve { active: entry(active)?, suppressed: suppressed? }
            }
            Op::UndoTx { ago, any_actor, within } => {
                // Sometimes a transaction that does not exist.
                let many = self.head() + usize::from(ago % 16 == 15);
                let tx = self.head() - ago.checked_rem(many).unwrap_or(0);
                self.undo_of(UndoTarget::Tx(TxId(tx as u64)), *any_actor, *within)
            }
            Op::UndoUndo { ago } => {
                let undos = (1..=self.head()).rev().filter(|tx| !self.log[tx - 1].undoes.is_empty());
                let tx = some(&undos.take(3).collect::<Vec<_>>(), *ago)?;
                self.undo_of(UndoTarget::Tx(TxId(tx as u64)), true, None)
            }
            Op::UndoNewest { count, any_actor, within } => {
                self.undo_of(UndoTarget::Newest(*count), *any_actor, *within)
            }
            Op::Replace { .. } | Op::Turn { .. } | Op::Strand { .. } => return None,
        })
    }

    /// Renames a scope, makes a new one with its old name, and undoes the renaming.
    fn replace(&self, name: &ScopeName) -> Vec<Write> {
        let new = Some(ScopeName::new(&name.namespace, "moved"));
        let patch = ScopePatch { name: new, ..ScopePatch::default() };
        let (description, parents) = (self.fresh("about"), Vec::new());
        vec![
            Write::UpdateScope { name: name.clone(), patch },
            Write::CreateScope(NewScope { name: name.clone(), description, parents }),
            self.undo_of_next(),
        ]
    }

    /// Removes the parents of a scope, gives the highest of its former ancestors another parent or this scope
    /// as parent, and undoes the removal.
    fn turn(&self, name: &ScopeName, under: Option<usize>) -> Vec<Write> {
        let now = self.now();
        let inherits = |name: &ScopeName, parents| {
            let patch = ScopePatch { parents: Some(parents), ..ScopePatch::default() };
            Write::UpdateScope { name: name.clone(), patch }
        };
        let mut highest = now.named(name);
        while let Some(parent) = highest.and_then(|place| now.place(*place.parents.first()?)) {
            highest = Some(parent);
        }
        let highest = highest.map_or(name.clone(), |place| now.name(place));
        let above = under.map_or(vec![name.clone()], |which| self.some_parents(name, &[which]));
        vec![inherits(name, Vec::new()), inherits(&highest, above), self.undo_of_next()]
    }

    /// Deletes an entry and renames a scope; another author deletes the scope of the entry; then the first
    /// two writes are undone.
    fn strand(&self, who: usize, which: usize, renamed: usize) -> Option<Vec<(usize, Write)>> {
        let now = self.now();
        let id = some(&now.of_type(EntityType::Entry), which)?;
        let home = now.name(now.place(now.content_of(id)?.scope()?)?);
        let newest = UndoWish { target: UndoTarget::Newest(2), any_actor: false, within: None };
        Some(vec![
            (who, Write::Delete { entity_type: EntityType::Entry, id }),
            (who, self.write(&Op::RenameScope { which: renamed, name: which })?),
            (1 - who, Write::DeleteScope { name: home }),
            (who, Write::Undo(newest)),
        ])
    }

    /// The undo of the transaction that is written next.
    fn undo_of_next(&self) -> Write {
        self.undo_of(UndoTarget::Tx(TxId(self.head() as u64 + 1)), true, None)
    }

    fn undo_of(&self, target: UndoTarget, any_actor: bool, within: Option<usize>) -> Write {
        let within = within.and_then(|which| some(&self.live_names(), which));
        let scope = |name: &ScopeName| self.now().named(name).expect("it is live").number;
        let within = within.map(|name| (scope(&name), name));
        Write::Undo(UndoWish { target, any_actor, within })
    }

    fn fresh(&self, word: &str) -> String {
        format!("{word} number {}", self.head())
    }

    fn live_names(&self) -> Vec<ScopeName> {
        let now = self.now();
        now.places().map(|place| now.name(place)).collect()
    }

    /// An id of this type, mostly of a live record; else one that existed at some time, of any type.
    fn some_id(&self, entity_type: EntityType, which: usize) -> Option<Id> {
        match which % 16 {
            0 => some(&self.versions.keys().copied().collect::<Vec<_>>(), which / 16),
            _ => some(&self.now().of_type(entity_type), which / 16),
        }
    }

    /// The name of a namespace, mostly of one that exists.
    fn some_namespace(&self, which: usize) -> String {
        let now = self.now();
        let mut ids = now.of_type(EntityType::Namespace);
        ids.retain(|id| *id != Namespace::GLOBAL_ID);
        let live = some(&ids, which / 8).and_then(|id| now.namespace_name(id));
        live.filter(|_| !which.is_multiple_of(8))
            .unwrap_or(NAMESPACES[which / 8 % NAMESPACES.len()])
            .to_owned()
    }

    /// The name of a scope, mostly of one that exists, and of these mostly one that may be changed.
    fn some_name(&self, which: usize) -> ScopeName {
        let (kind, which) = (which % 12, which / 12);
        let mut live = self.live_names();
        let is_made = |name: &ScopeName| name.name != DEFAULT;
        if kind > 1 && live.iter().any(is_made) {
            live.retain(is_made);
        }
        let any = ScopeName::new(
            NAMESPACES[which % NAMESPACES.len()],
            NAMES[which / NAMESPACES.len() % NAMES.len()],
        );
        some(&live, which).filter(|_| kind > 0).unwrap_or(any)
    }

    /// The number of a scope, mostly of one that exists; else one that existed at some time, or one that
    /// never did.
    fn some_scope(&self, which: usize) -> ScopeId {
        let live: Vec<ScopeId> = self.now().places().map(|place| place.number).collect();
        let any: Vec<ScopeId> = (1..=self.next.0).map(ScopeId).collect();
        some(if which.is_multiple_of(12) { &any } else { &live }, which / 12).expect("one is built in")
    }

    /// Parents for a scope, mostly of the same namespace, and often the deepest scope there, so that great
    /// depths occur.
    fn some_parents(&self, child: &ScopeName, which: &[usize]) -> Vec<ScopeName> {
        let near: Vec<ScopeName> =
            self.live_names().into_iter().filter(|name| name.namespace == child.namespace).collect();
        let parent = |which: &usize| match which % 12 {
            0 => self.some_name(which / 12),
            1..5 => self.lowest(child),
            _ => some(&near, which / 12).unwrap_or(child.clone()),
        };
        which.iter().map(parent).collect()
    }

    /// The scope of its namespace with the longest chain of ancestors; the scope itself if there is none.
    fn lowest(&self, name: &ScopeName) -> ScopeName {
        let now = self.now();
        let near = now.places().filter(|place| now.name(place).namespace == name.namespace);
        near.max_by_key(|place| now.depth(place, &[])).map_or(name.clone(), |place| now.name(place))
    }
}

fn some<T: Clone>(of: &[T], which: usize) -> Option<T> {
    of.get(which.checked_rem(of.len())?).cloned()
}
