//! The scopes of a store as of one transaction: which scope inherits from which, what each of them sees, and
//! whether the whole tree is sound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kenning_model::{
    Change, DEFAULT, EntityType, GLOBAL, GLOBAL_ABOUT, Id, Namespace, Record, Scope, ScopeId, ScopeName,
    ScopeNames, Timestamp, TxId,
};

use crate::backend::{Reader, Stored};
use crate::{Error, Missing, Reach};

/// The greatest number of levels of parents between a scope and its namespace's `default`.
pub const DEPTH_MAX: usize = 16;

/// The live namespaces and scopes, with the built-in ones as version 0.
#[derive(Clone, Debug)]
pub struct Tree {
    namespaces: BTreeMap<Id, Namespace>,
    scopes: BTreeMap<ScopeId, (Id, Scope)>,
    /// The `default` of each namespace.
    defaults: BTreeMap<Id, ScopeId>,
}

impl Tree {
    pub fn read(reader: &dyn Reader, at: TxId) -> Result<Tree, Error> {
        let mut tree = Tree::built_in();
        for entity_type in [EntityType::Namespace, EntityType::Scope] {
            for Stored { id, record, .. } in reader.live(entity_type, at)? {
                tree.set(id, record);
            }
        }
        Ok(tree)
    }

    /// All namespaces, and the scopes of these names with everything that they inherit from. The cost does
    /// not grow with the number of scopes.
    pub(crate) fn around(reader: &dyn Reader, names: &[ScopeName], at: TxId) -> Result<Tree, Error> {
        let mut tree = Tree::built_in();
        for Stored { id, record, .. } in reader.live(EntityType::Namespace, at)? {
            tree.set(id, record);
        }
        for name in names {
            let Some(named) = reader.scope_named(name, at)? else { continue };
            for scope in reader.closure(named, at)? {
                if tree.scopes.contains_key(&scope) {
                    continue;
                }
                let id = reader.scope_id(scope)?;
                let found = id.map(|id| reader.record(EntityType::Scope, id, at)).transpose()?.flatten();
                let Stored { id, record, .. } =
                    found.ok_or_else(|| Error::damaged(format!("scope {} is missing", scope.0)))?;
                tree.set(id, record);
            }
        }
        Ok(tree)
    }

    /// A tree with these scopes of one namespace, and the built-in ones.
    pub(crate) fn of_scopes(scopes: impl IntoIterator<Item = (Id, Scope)>) -> Tree {
        let mut tree = Tree::built_in();
        scopes.into_iter().for_each(|(id, scope)| tree.set(id, Record::Scope(scope)));
        tree
    }

    fn built_in() -> Tree {
        let (description, actor) = (GLOBAL_ABOUT.to_owned(), GLOBAL.to_owned());
        let recorded_at = Timestamp::UNIX_EPOCH;
        let namespace = Namespace {
            name: GLOBAL.to_owned(),
            description: description.clone(),
            actor: actor.clone(),
            version: 0,
            recorded_at,
            updated_at: None,
        };
        let scope = Scope {
            number: ScopeId::GLOBAL_DEFAULT,
            namespace: Namespace::GLOBAL_ID,
            name: DEFAULT.to_owned(),
            description,
            parents: Vec::new(),
            actor,
            version: 0,
            recorded_at,
            updated_at: None,
        };
        Tree {
            namespaces: BTreeMap::from([(Namespace::GLOBAL_ID, namespace)]),
            scopes: BTreeMap::from([(scope.number, (Namespace::GLOBAL_ID, scope))]),
            defaults: BTreeMap::from([(Namespace::GLOBAL_ID, ScopeId::GLOBAL_DEFAULT)]),
        }
    }

    fn set(&mut self, id: Id, record: Record) {
        match record {
            Record::Namespace(namespace) => drop(self.namespaces.insert(id, namespace)),
            Record::Scope(scope) => {
                if scope.name == DEFAULT {
                    self.defaults.insert(scope.namespace, scope.number);
                }
                self.scopes.insert(scope.number, (id, scope));
            }
            _ => {}
        }
    }

    /// The tree after these changes.
    pub(crate) fn after(mut self, changes: &[Change]) -> Tree {
        for change in changes {
            match &change.after {
                Some(record) => self.set(change.id, record.clone()),
                None => {
                    self.namespaces.remove(&change.id);
                    self.scopes.retain(|_, (id, _)| *id != change.id);
                    self.defaults.retain(|_, number| self.scopes.contains_key(number));
                }
            }
        }
        self
    }

    /// All namespaces: `global` first, the others by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (Id, &Namespace)> {
        let mut all: Vec<(Id, &Namespace)> = self.namespaces.iter().map(|(id, it)| (*id, it)).collect();
        all.sort_by_key(|(id, namespace)| (*id != Namespace::GLOBAL_ID, &namespace.name));
        all.into_iter()
    }

    pub fn namespace(&self, name: &str) -> Option<(Id, &Namespace)> {
        let found = self.namespaces.iter().find(|(_, namespace)| namespace.name == name);
        found.map(|(id, namespace)| (*id, namespace))
    }

    /// The scopes of a namespace: `default` first, the others in the order in which they were made.
    pub fn scopes(&self, namespace: Id) -> impl Iterator<Item = (Id, &Scope)> {
        let mut all: Vec<(Id, &Scope)> = self
            .scopes
            .values()
            .filter(|(_, scope)| scope.namespace == namespace)
            .map(|(id, it)| (*id, it))
            .collect();
        all.sort_by_key(|(_, scope)| (scope.name != DEFAULT, scope.number));
        all.into_iter()
    }

    pub fn scope(&self, name: &ScopeName) -> Option<(Id, &Scope)> {
        let (namespace, _) = self.namespace(&name.namespace)?;
        self.scopes(namespace).find(|(_, scope)| scope.name == name.name)
    }

    pub fn get(&self, scope: ScopeId) -> Option<&Scope> {
        self.scopes.get(&scope).map(|(_, scope)| scope)
    }

    pub fn name(&self, scope: &Scope) -> ScopeName {
        ScopeName::new(self.namespace_named(scope.namespace), &scope.name)
    }

    /// The names of all scopes in the tree.
    pub fn names(&self) -> ScopeNames {
        let name = |scope: &Scope| (scope.number, self.name(scope));
        ScopeNames(self.scopes.values().map(|(_, scope)| name(scope)).collect())
    }

    /// The name of the namespace with this id.
    pub(crate) fn namespace_named(&self, id: Id) -> &str {
        self.namespaces.get(&id).map_or("?", |namespace| &namespace.name)
    }

    /// The part of the tree that is in reach.
    pub fn within(mut self, reach: &Reach) -> Tree {
        self.namespaces.retain(|id, _| reach.sees_namespace(*id));
        self.scopes.retain(|number, _| reach.sees_scope(*number));
        self.defaults.retain(|id, _| reach.sees_namespace(*id));
        self
    }

    fn default_of(&self, namespace: Id) -> Option<ScopeId> {
        self.defaults.get(&namespace).copied()
    }

    /// The parents of a scope, with the namespace's `default` last; none for a `default`.
    pub fn parents(&self, scope: &Scope) -> Vec<ScopeId> {
        let default = self.default_of(scope.namespace).filter(|default| *default != scope.number);
        scope.parents.iter().copied().chain(default).collect()
    }

    /// The scopes that inherit from a scope directly.
    pub(crate) fn children(&self, parent: ScopeId) -> impl Iterator<Item = (Id, &Scope)> {
        let is_child = move |(_, scope): &&(Id, Scope)| scope.parents.contains(&parent);
        self.scopes.values().filter(is_child).map(|(id, scope)| (*id, scope))
    }

    /// The closure of a scope, nearest first: itself, its parents in their order, their parents, and so on,
    /// each once; then the `default` of the namespace, then `global:default`.
    pub(crate) fn closure(&self, scope: &Scope) -> Vec<ScopeId> {
        let last = [self.default_of(scope.namespace), Some(ScopeId::GLOBAL_DEFAULT)];
        let is_last = |scope: &ScopeId| last.contains(&Some(*scope));
        let mut seen = Vec::new();
        let mut next = VecDeque::from([scope.number]);
        while let Some(number) = next.pop_front() {
            if !seen.contains(&number) && !is_last(&number) {
                seen.push(number);
                next.extend(self.get(number).into_iter().flat_map(|scope| scope.parents.iter().copied()));
            }
        }
        for number in last.into_iter().flatten() {
            if !seen.contains(&number) {
                seen.push(number);
            }
        }
        seen
    }

    /// Checks the tree. The error says why it is not sound.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for namespace in self.namespaces.values() {
            if !names.insert(&namespace.name) {
                return Err(format!("there would be two namespaces `{}`", namespace.name));
            }
        }
        let mut names = BTreeSet::new();
        for (_, scope) in self.scopes.values() {
            let name = self.name(scope);
            if !self.namespaces.contains_key(&scope.namespace) {
                return Err(format!("the namespace of scope `{}` would be gone", scope.name));
            }
            if !names.insert(name.clone()) {
                return Err(format!("there would be two scopes `{name}`"));
            }
            for parent in &scope.parents {
                match self.get(*parent) {
                    Some(parent) if parent.namespace == scope.namespace => {}
                    _ => return Err(format!("a parent of `{name}` would be gone")),
                }
            }
        }
        self.check_depths()
    }

    fn check_depths(&self) -> Result<(), String> {
        let mut depths = BTreeMap::new();
        for (_, scope) in self.scopes.values() {
            self.depth(scope, &mut depths, &mut Vec::new())?;
        }
        Ok(())
    }

    /// The greatest number of levels above a scope. `below` is the path from the first scope down to this
    /// one, to find circles.
    fn depth(
        &self,
        scope: &Scope,
        depths: &mut BTreeMap<ScopeId, usize>,
        below: &mut Vec<ScopeId>,
    ) -> Result<usize, String> {
        if let Some(depth) = depths.get(&scope.number) {
            return Ok(*depth);
        }
        let name =
            |number: &ScopeId| self.get(*number).map_or_else(String::new, |it| self.name(it).to_string());
        if let Some(start) = below.iter().position(|number| *number == scope.number) {
            let mut circle: Vec<String> = below[start..].iter().map(name).collect();
            circle.push(self.name(scope).to_string());
            return Err(format!("`{}` would inherit from itself: {}", circle[0], circle.join(" > ")));
        }
        // Without this limit, a long chain could exhaust the stack.
        if below.len() > DEPTH_MAX {
            let lowest = name(&below[0]);
            return Err(format!("`{lowest}` would be more than {DEPTH_MAX} levels below `{DEFAULT}`"));
        }
        below.push(scope.number);
        let mut depth = usize::from(scope.name != DEFAULT);
        for parent in scope.parents.iter().filter_map(|parent| self.get(*parent)) {
            depth = depth.max(1 + self.depth(parent, depths, below)?);
        }
        below.pop();
        if depth > DEPTH_MAX {
            let name = self.name(scope);
            return Err(format!(
                "`{name}` would be {depth} levels below `{DEFAULT}`; {DEPTH_MAX} is the most"
            ));
        }
        depths.insert(scope.number, depth);
        Ok(depth)
    }

    /// The error that no namespace in reach has this name, with a suggestion if a similar name exists.
    pub(crate) fn unknown_namespace(
        &self,
        reader: &dyn Reader,
        name: &str,
        reach: &Reach,
    ) -> Result<Error, Error> {
        let in_reach = self.namespaces.iter().filter(|(id, _)| reach.sees_namespace(**id));
        let names = in_reach.map(|(_, namespace)| namespace.name.clone());
        let was_in_reach = reader.namespace_once_named(name)?.is_some_and(|id| reach.sees_namespace(id));
        let deleted_by = if was_in_reach { reader.namespace_deleted_by(name)? } else { None };
        Ok(Error::UnknownNamespace { namespace: name.to_owned(), nearest: nearest(name, names), deleted_by })
    }
}

/// The scope with this name as of `at`: by the name that it had then, by its present name, or else by a
/// former name that no other scope has now. A scope that is out of reach is unknown.
pub fn find_scope(reader: &dyn Reader, name: &ScopeName, at: TxId, reach: &Reach) -> Result<ScopeId, Error> {
    let in_reach = |scope: Option<ScopeId>| scope.filter(|scope| reach.sees_scope(*scope));
    if let Some(scope) = in_reach(reader.scope_named(name, at)?) {
        return Ok(scope);
    }
    let head = reader.head()?;
    match in_reach(reader.scope_named(name, head)?) {
        Some(scope) if !reader.closure(scope, at)?.is_empty() => Ok(scope),
        Some(_) => Err(Error::UnknownScope { scope: name.clone(), missing: Missing::NotYet { at } }),
        None => match in_reach(reader.scope_once_named(name)?.map(|(scope, _)| scope)) {
            Some(scope) if is_live(reader, scope, head)? && is_live(reader, scope, at)? => Ok(scope),
            _ => Err(unknown_scope(reader, name, head, reach)?),
        },
    }
}

fn is_live(reader: &dyn Reader, scope: ScopeId, at: TxId) -> Result<bool, Error> {
    Ok(!reader.closure(scope, at)?.is_empty())
}

/// The present name of the scope that once had this name, if no scope has this name now.
pub fn renamed_scope(
    reader: &dyn Reader,
    name: &ScopeName,
    reach: &Reach,
) -> Result<Option<ScopeName>, Error> {
    let head = reader.head()?;
    if reader.scope_named(name, head)?.is_some() {
        return Ok(None);
    }
    match reader.scope_once_named(name)? {
        Some((scope, _)) if reach.sees_scope(scope) && is_live(reader, scope, head)? => {
            Ok(ScopeName::parse(&reader.scope_names(&[scope], head)?.of(scope)))
        }
        _ => Ok(None),
    }
}

/// The error that no scope in reach has this name, with a suggestion if a similar name exists.
pub(crate) fn unknown_scope(
    reader: &dyn Reader,
    name: &ScopeName,
    head: TxId,
    reach: &Reach,
) -> Result<Error, Error> {
    let missing = match reader.scope_once_named(name)?.filter(|(scope, _)| reach.sees_scope(*scope)) {
        Some((scope, _)) if !reader.closure(scope, head)?.is_empty() => {
            Missing::Renamed { to: reader.scope_names(&[scope], head)?.of(scope) }
        }
        Some((_, by)) => Missing::Deleted { by },
        None => {
            let tree = Tree::read(reader, head)?.within(reach);
            let names = tree.names().0.into_values().map(|name| name.to_string());
            Missing::Never {
                nearest: nearest(&name.to_string(), names),
                has_namespace: tree.namespace(&name.namespace).is_some(),
            }
        }
    };
    Ok(Error::UnknownScope { scope: name.clone(), missing })
}

/// The most similar known name, if it is similar enough.
fn nearest(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let distance = |known: &String| strsim::damerau_levenshtein(name, known);
    let (distance, known) = known.map(|known| (distance(&known), known)).min()?;
    (distance <= name.len().max(known.len()) / 3).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(scopes: &[(u32, &str, &[u32])]) -> Tree {
        let scope = |(number, name, parents): &(u32, &str, &[u32])| {
            let built_in = Tree::built_in().get(ScopeId::GLOBAL_DEFAULT).expect("built in").clone();
            let parents = parents.iter().map(|parent| ScopeId(*parent)).collect();
            let scope = Scope { number: ScopeId(*number), name: (*name).to_owned(), parents, ..built_in };
            (Id::from_bits(u64::from(*number)), Scope { namespace: Id::from_bits(99), ..scope })
        };
        let mut tree = Tree::of_scopes(scopes.iter().map(scope));
        let global = tree.namespaces[&Namespace::GLOBAL_ID].clone();
        tree.namespaces.insert(Id::from_bits(99), Namespace { name: "acme".to_owned(), ..global });
        tree
    }

    #[track_caller]
    fn check(tree: &Tree, scope: u32, expected: &[u32]) {
        let closure = tree.closure(tree.get(ScopeId(scope)).expect("there"));
        assert_eq!(closure.iter().map(|scope| scope.0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn nearest_come_first_each_once_and_the_defaults_last() {
        let tree = tree(&[
            (2, "default", &[]),
            (3, "mobile", &[5, 2]),
            (4, "payments", &[5]),
            (5, "platform", &[]),
            (6, "shop", &[4, 3]),
            (7, "alone", &[]),
        ]);
        check(&tree, 1, &[1]);
        check(&tree, 2, &[2, 1]);
        check(&tree, 7, &[7, 2, 1]);
        check(&tree, 6, &[6, 4, 3, 5, 2, 1]);
        assert_eq!(tree.check(), Ok(()));
    }

    #[test]
    fn what_is_not_sound_is_said() {
        let said = |scopes: &[(u32, &str, &[u32])]| tree(scopes).check().expect_err("it is not sound");
        let circle = said(&[(2, "default", &[]), (3, "aa", &[4]), (4, "bb", &[5]), (5, "cc", &[3])]);
        assert_eq!(circle, "`acme:aa` would inherit from itself: acme:aa > acme:bb > acme:cc > acme:aa");
        assert_eq!(said(&[(2, "default", &[]), (3, "aa", &[9])]), "a parent of `acme:aa` would be gone");
        assert_eq!(
            said(&[(2, "default", &[]), (3, "aa", &[]), (4, "aa", &[])]),
            "there would be two scopes `acme:aa`"
        );
    }

    #[test]
    fn sixteen_levels_are_the_most() {
        let chain = |many: u32| {
            let parents: Vec<u32> = (0..=many).collect();
            let mut scopes: Vec<(u32, String, Vec<u32>)> = vec![(2, DEFAULT.to_owned(), vec![])];
            scopes.extend((1..=many).map(|level| {
                let above = parents[level as usize - 1];
                (level + 2, format!("s{level}"), if above == 0 { vec![] } else { vec![above + 2] })
            }));
            let scopes: Vec<(u32, &str, &[u32])> =
                scopes.iter().map(|(number, name, parents)| (*number, &**name, &**parents)).collect();
            tree(&scopes).check()
        };
        assert_eq!(chain(16), Ok(()));
        assert!(chain(17).is_err());
        assert!(chain(5_000).is_err());
    }
}
