//! Creates, renames, re-parents and deletes scopes. Records refer to a scope by its number, so a rename is a
//! single change.

use std::collections::HashSet;

use kenning_model::{Change, DEFAULT, EntityType, Record, Scope, ScopeId, ScopeName, Version};

use super::{Draft, Plan};
use crate::Error;
use crate::backend::Stored;
use crate::tree::{Tree, unknown_scope};

#[derive(Clone, Debug)]
pub struct NewScope {
    pub name: ScopeName,
    pub description: String,
    /// The parents in order. The namespace's `default` need not be among them.
    pub parents: Vec<ScopeName>,
}

#[derive(Clone, Debug, Default)]
pub struct ScopePatch {
    pub name: Option<ScopeName>,
    pub description: Option<String>,
    pub parents: Option<Vec<ScopeName>>,
}

impl Plan<'_> {
    pub(super) fn create_scope(&self, new: &NewScope) -> Result<Draft, Error> {
        // No scope inherits from a new scope yet, so only the scopes above it can make it unsound.
        let default = ScopeName::new(&new.name.namespace, DEFAULT);
        let near: Vec<ScopeName> =
            [default, new.name.clone()].into_iter().chain(new.parents.clone()).collect();
        let tree = Tree::around(self.reader, &near, self.head)?;
        let found = tree.namespace(&new.name.namespace).filter(|(id, _)| self.reach.sees_namespace(*id));
        let Some((namespace, _)) = found else {
            return Err(tree.unknown_namespace(self.reader, &new.name.namespace, &self.reach)?);
        };
        free(&tree, &new.name)?;
        let scope = Scope {
            number: self.reader.next_scope()?,
            namespace,
            name: new.name.name.clone(),
            description: new.description.clone(),
            parents: self.parents(&tree, &new.name, &new.parents)?,
            actor: self.actor.to_owned(),
            version: 1,
            recorded_at: self.now,
            updated_at: None,
        };
        let change = self.create(Record::Scope(scope), &mut HashSet::new())?;
        self.in_tree(tree, vec![change])
    }

    pub(super) fn update_scope(&self, name: &ScopeName, patch: &ScopePatch) -> Result<Draft, Error> {
        let tree = self.tree()?;
        let (id, current) = self.found(&tree, name)?;
        let mut scope = current.clone();
        let is_default = scope.name == DEFAULT;
        if is_default && scope.number == ScopeId::GLOBAL_DEFAULT {
            return Err(Error::Invalid { what: format!("`{name}` is built in and can't be changed") });
        }
        if let Some(new) = patch.name.as_ref().filter(|new| *new != name) {
            if new.namespace != name.namespace {
                let what = format!("`{name}` can't become `{new}`: a scope stays in its namespace");
                return Err(Error::Invalid { what });
            }
            if is_default {
                return Err(Error::Invalid {
                    what: format!("`{name}` can't be renamed: every namespace has a `{DEFAULT}`"),
                });
            }
            free(&tree, new)?;
            scope.name.clone_from(&new.name);
        }
        if let Some(parents) = &patch.parents {
            if is_default && !parents.is_empty() {
                let what =
                    format!("`{name}` can't have parents: all scopes of the namespace inherit from it");
                return Err(Error::Invalid { what });
            }
            scope.parents = self.parents(&tree, name, parents)?;
        }
        scope.description = patch.description.clone().unwrap_or(scope.description);
        let change = self.changed(id, scope)?;
        self.in_tree(tree, vec![change])
    }

    pub(super) fn delete_scope(&self, name: &ScopeName) -> Result<Draft, Error> {
        let tree = self.tree()?;
        let (id, scope) = self.found(&tree, name)?;
        if scope.name == DEFAULT {
            let what = format!(
                "`{name}` can't be deleted: every namespace has a `{DEFAULT}`; `delete_namespace` removes both"
            );
            return Err(Error::Invalid { what });
        }
        let mut changes = vec![self.closed(EntityType::Scope, id)?];
        for (id, child) in tree.children(scope.number) {
            let mut child = child.clone();
            child.parents.retain(|parent| *parent != scope.number);
            changes.push(self.changed(id, child)?);
        }
        changes.extend(self.emptied(&[scope.number])?);
        self.in_tree(tree, changes)
    }

    pub(super) fn tree(&self) -> Result<Tree, Error> {
        Tree::read(self.reader, self.head)
    }

    /// A draft, after checking that its changes leave the tree sound.
    pub(super) fn in_tree(&self, tree: Tree, changes: Vec<Change>) -> Result<Draft, Error> {
        let after = tree.after(&changes);
        after.check().map_err(|what| Error::Invalid { what })?;
        Ok(Draft { changes, tree: Some(after), ..Draft::default() })
    }

    fn found<'t>(&self, tree: &'t Tree, name: &ScopeName) -> Result<(kenning_model::Id, &'t Scope), Error> {
        match tree.scope(name).filter(|(_, scope)| self.reach.sees_scope(scope.number)) {
            Some(found) => Ok(found),
            None => Err(unknown_scope(self.reader, name, self.head, &self.reach)?),
        }
    }

    /// The numbers of the named parents, each once, without `default`.
    fn parents(&self, tree: &Tree, child: &ScopeName, named: &[ScopeName]) -> Result<Vec<ScopeId>, Error> {
        let mut parents = Vec::new();
        for name in named {
            if name.namespace != child.namespace {
                let what =
                    format!("`{child}` can't inherit from `{name}`: parents are of the same namespace");
                return Err(Error::Invalid { what });
            }
            let (_, parent) = self.found(tree, name)?;
            if parent.name != DEFAULT && !parents.contains(&parent.number) {
                parents.push(parent.number);
            }
        }
        Ok(parents)
    }

    fn changed(&self, id: kenning_model::Id, mut scope: Scope) -> Result<Change, Error> {
        let before = self.live(EntityType::Scope, id)?;
        scope.actor = self.actor.to_owned();
        scope.version = before.record.version() + 1;
        scope.updated_at = Some(self.now);
        let after = Some(Record::Scope(scope));
        Ok(Change { entity_type: EntityType::Scope, id, before: Some(before.into()), after })
    }

    /// The changes that delete everything in these scopes.
    pub(super) fn emptied(&self, scopes: &[ScopeId]) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::new();
        for entity_type in [EntityType::Entry, EntityType::Triple, EntityType::Document, EntityType::Section]
        {
            changes.extend(self.reader.all_in(entity_type, scopes, self.head)?.into_iter().map(closing));
        }
        Ok(changes)
    }

    /// Refuses a write into a scope that does not exist any more.
    pub(super) fn check_scope(&self, scope: ScopeId) -> Result<(), Error> {
        if self.reader.closure(scope, self.head)?.is_empty() {
            return Err(self.gone(scope)?);
        }
        Ok(())
    }

    pub(super) fn gone(&self, scope: ScopeId) -> Result<Error, Error> {
        let name = self.reader.scope_names(&[scope], self.head)?.of(scope);
        Ok(Error::Unsound { what: format!("the scope `{name}` is no longer there") })
    }
}

fn closing(stored: Stored) -> Change {
    let (id, entity_type) = (stored.id, stored.record.entity_type());
    Change { entity_type, id, before: Some(Version::from(stored)), after: None }
}

fn free(tree: &Tree, name: &ScopeName) -> Result<(), Error> {
    match tree.scope(name) {
        Some(_) => Err(Error::NameTaken { what: format!("a scope `{name}`") }),
        None => Ok(()),
    }
}
