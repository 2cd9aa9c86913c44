//! Creates, renames and deletes namespaces. Records refer to a namespace by its id, so a rename is a single
//! change.

use std::collections::HashSet;

use kenning_model::{Change, DEFAULT, EntityType, GLOBAL, Id, Namespace, Record, Scope};

use super::{Draft, Plan};
use crate::Error;
use crate::tree::Tree;

#[derive(Clone, Debug)]
pub struct NewNamespace {
    pub name: String,
    pub description: String,
}

#[derive(Clone, Debug, Default)]
pub struct NamespacePatch {
    pub name: Option<String>,
    pub description: Option<String>,
}

impl Plan<'_> {
    pub(super) fn create_namespace(&self, new: &NewNamespace) -> Result<Draft, Error> {
        // Only the owner may learn whether a name is taken.
        if !self.reach.is_everything() {
            let what = "only the owner of the store makes namespaces".to_owned();
            return Err(Error::Forbidden { what });
        }
        let tree = self.tree()?;
        free(&tree, &new.name)?;
        let namespace = Namespace {
            name: new.name.clone(),
            description: new.description.clone(),
            actor: self.actor.to_owned(),
            version: 1,
            recorded_at: self.now,
            updated_at: None,
        };
        let mut drawn = HashSet::new();
        let namespace = self.create(Record::Namespace(namespace), &mut drawn)?;
        let default = Scope {
            number: self.reader.next_scope()?,
            namespace: namespace.id,
            name: DEFAULT.to_owned(),
            description: new.description.clone(),
            parents: Vec::new(),
            actor: self.actor.to_owned(),
            version: 1,
            recorded_at: self.now,
            updated_at: None,
        };
        let default = self.create(Record::Scope(default), &mut drawn)?;
        self.in_tree(tree, vec![namespace, default])
    }

    pub(super) fn update_namespace(&self, name: &str, patch: &NamespacePatch) -> Result<Draft, Error> {
        let tree = self.tree()?;
        let id = self.found_namespace(&tree, name, "changed")?;
        let before = self.live(EntityType::Namespace, id)?;
        let Record::Namespace(current) = &before.record else {
            return Err(Error::damaged(format!("`{id}` is not a namespace")));
        };
        let mut namespace = current.clone();
        if let Some(new) = patch.name.as_ref().filter(|new| **new != namespace.name) {
            if !self.reach.is_everything() {
                let what = "only the owner of the store renames namespaces".to_owned();
                return Err(Error::Forbidden { what });
            }
            free(&tree, new)?;
            namespace.name.clone_from(new);
        }
        namespace.description = patch.description.clone().unwrap_or(namespace.description);
        namespace.actor = self.actor.to_owned();
        namespace.version += 1;
        namespace.updated_at = Some(self.now);
        let after = Some(Record::Namespace(namespace));
        let change = Change { entity_type: EntityType::Namespace, id, before: Some(before.into()), after };
        self.in_tree(tree, vec![change])
    }

    pub(super) fn delete_namespace(&self, name: &str) -> Result<Draft, Error> {
        let tree = self.tree()?;
        let id = self.found_namespace(&tree, name, "deleted")?;
        let scopes: Vec<(Id, &Scope)> = tree.scopes(id).collect();
        let mut changes = vec![self.closed(EntityType::Namespace, id)?];
        for (id, _) in &scopes {
            changes.push(self.closed(EntityType::Scope, *id)?);
        }
        let numbers: Vec<_> = scopes.iter().map(|(_, scope)| scope.number).collect();
        changes.extend(self.emptied(&numbers)?);
        self.in_tree(tree, changes)
    }
}

impl Plan<'_> {
    /// The id of a namespace that may be changed; `done` is the verb for the error message.
    fn found_namespace(&self, tree: &Tree, name: &str, done: &str) -> Result<Id, Error> {
        if name == GLOBAL {
            return Err(Error::Invalid { what: format!("`{GLOBAL}` is built in and can't be {done}") });
        }
        match tree.namespace(name).filter(|(id, _)| self.reach.sees_namespace(*id)) {
            Some((id, _)) => Ok(id),
            None => Err(tree.unknown_namespace(self.reader, name, &self.reach)?),
        }
    }
}

fn free(tree: &Tree, name: &str) -> Result<(), Error> {
    match tree.namespace(name) {
        Some(_) => Err(Error::NameTaken { what: format!("a namespace `{name}`") }),
        None => Ok(()),
    }
}
