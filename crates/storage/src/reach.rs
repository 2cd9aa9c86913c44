//! What a principal may see and change. Only this module decides it.

use std::collections::BTreeMap;

use kenning_model::{
    Change, EntityType, Grants, Id, Namespace, Principal, Record, Right, Scope, ScopeId, TxId,
};

use crate::Error;
use crate::backend::Reader;
use crate::tree::Tree;

/// The namespaces in which a principal has rights, with every scope that they have or ever had. The present
/// rights apply, also to questions about the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The reach of the owner.
    Everything,
    Some {
        rights: BTreeMap<Id, Right>,
        /// The namespace of each scope, which never changes.
        scopes: BTreeMap<ScopeId, Id>,
    },
}

impl Reach {
    pub fn of(principal: &Principal, reader: &dyn Reader) -> Result<Reach, Error> {
        let Grants::Namespaces(rights) = &principal.grants else { return Ok(Reach::Everything) };
        let namespaces: Vec<Id> = rights.keys().copied().collect();
        let mut scopes: BTreeMap<ScopeId, Id> = reader.scopes_ever(&namespaces)?.into_iter().collect();
        if rights.contains_key(&Namespace::GLOBAL_ID) {
            scopes.insert(ScopeId::GLOBAL_DEFAULT, Namespace::GLOBAL_ID);
        }
        Ok(Reach::Some { rights: rights.clone(), scopes })
    }

    pub fn is_everything(&self) -> bool {
        *self == Reach::Everything
    }

    pub fn sees_scope(&self, scope: ScopeId) -> bool {
        match self {
            Reach::Everything => true,
            Reach::Some { scopes, .. } => scopes.contains_key(&scope),
        }
    }

    pub fn sees_namespace(&self, namespace: Id) -> bool {
        match self {
            Reach::Everything => true,
            Reach::Some { rights, .. } => rights.contains_key(&namespace),
        }
    }

    pub(crate) fn is_admin(&self, namespace: Id) -> bool {
        match self {
            Reach::Everything => true,
            Reach::Some { rights, .. } => rights.get(&namespace) == Some(&Right::Admin),
        }
    }

    /// Whether a version may be seen. The id is needed for namespaces, whose record does not contain it.
    pub fn sees(&self, id: Id, record: &Record) -> bool {
        match record {
            Record::Namespace(_) => self.sees_namespace(id),
            Record::Scope(scope) => self.sees_scope(scope.number),
            record => record.scope().is_none_or(|scope| self.sees_scope(scope)),
        }
    }

    /// The scopes of a list that may be seen, in their order.
    pub fn within(&self, scopes: Vec<ScopeId>) -> Vec<ScopeId> {
        match self {
            Reach::Everything => scopes,
            Reach::Some { .. } => scopes.into_iter().filter(|scope| self.sees_scope(*scope)).collect(),
        }
    }

    /// Every scope that may be seen, for a question about all of them; none means all scopes of the store.
    pub fn scopes(&self) -> Option<Vec<ScopeId>> {
        match self {
            Reach::Everything => None,
            Reach::Some { scopes, .. } => Some(scopes.keys().copied().collect()),
        }
    }

    pub(crate) fn namespaces(&self) -> Option<Vec<Id>> {
        match self {
            Reach::Everything => None,
            Reach::Some { rights, .. } => Some(rights.keys().copied().collect()),
        }
    }

    /// Refuses a transaction that changes what the principal may not change, even if the plan did not check
    /// it. A record that can't be seen is refused as if it did not exist.
    pub(crate) fn check(&self, changes: &[Change], reader: &dyn Reader, head: TxId) -> Result<(), Error> {
        let Reach::Some { rights, scopes } = self else { return Ok(()) };
        let tree = Tree::read(reader, head)?;
        for change in changes {
            let before = change.before.as_ref().map(|before| &before.record);
            let unknown = || Error::UnknownId { entity_type: change.entity_type, id: change.id };
            for record in before.into_iter().chain(&change.after) {
                let (namespace, needed) = match record {
                    Record::Namespace(after) => {
                        check_namespace(reader, change.id, before, after)?;
                        (change.id, Right::Admin)
                    }
                    Record::Scope(scope) => (scope.namespace, Right::Admin),
                    record => {
                        let scope = record.scope().ok_or_else(unknown)?;
                        (*scopes.get(&scope).ok_or_else(unknown)?, needed_in(&tree, scope))
                    }
                };
                let right = rights.get(&namespace).ok_or_else(unknown)?;
                if *right < needed {
                    return Err(Error::Forbidden { what: refusal(&tree, record, namespace, needed) });
                }
            }
        }
        Ok(())
    }

    /// Refuses to undo the writes of others in namespaces where the principal is not an administrator.
    pub(crate) fn check_foreign_undo(&self, changes: &[Change]) -> Result<(), Error> {
        let Reach::Some { scopes, .. } = self else { return Ok(()) };
        for change in changes {
            let before = change.before.as_ref().map(|before| &before.record);
            for record in before.into_iter().chain(&change.after) {
                let namespace = match record {
                    Record::Namespace(_) => Some(change.id),
                    Record::Scope(scope) => Some(scope.namespace),
                    record => record.scope().and_then(|scope| scopes.get(&scope).copied()),
                };
                if !namespace.is_some_and(|namespace| self.is_admin(namespace)) {
                    let what = "taking back what others wrote needs the right `admin` in every namespace that it touches";
                    return Err(Error::Forbidden { what: what.to_owned() });
                }
            }
        }
        Ok(())
    }
}

/// Names of namespaces belong to the whole store: an error that a name is taken would reveal a namespace that
/// can't be seen. A namespace that was deleted may come back under its last name: whoever may delete it may
/// also take that back.
fn check_namespace(
    reader: &dyn Reader,
    id: Id,
    before: Option<&Record>,
    after: &Namespace,
) -> Result<(), Error> {
    let latest = match before {
        Some(_) => None,
        None => reader.latest(EntityType::Namespace, id)?.map(|latest| latest.record),
    };
    let known = before.or(latest.as_ref()).and_then(Record::as_namespace);
    if known.is_some_and(|known| known.name == after.name) {
        return Ok(());
    }
    let what = "only the owner of the store makes and renames namespaces".to_owned();
    Err(Error::Forbidden { what })
}

/// The right that a write to a scope needs. A write to a scope with heirs reaches all of them, so it needs
/// more.
fn needed_in(tree: &Tree, scope: ScopeId) -> Right {
    let is_default = |scope: &Scope| scope.name == kenning_model::DEFAULT;
    let has_heirs = tree.get(scope).is_some_and(is_default) || tree.children(scope).next().is_some();
    if has_heirs { Right::Share } else { Right::Write }
}

fn refusal(tree: &Tree, record: &Record, namespace: Id, needed: Right) -> String {
    let namespace = tree.namespace_named(namespace);
    let right = needed.as_str();
    match record.scope().and_then(|scope| tree.get(scope)) {
        Some(scope) if needed == Right::Share => format!(
            "writing to `{}` needs the right `{right}` in `{namespace}`, because other scopes inherit from it",
            tree.name(scope)
        ),
        Some(scope) => {
            format!("writing to `{}` needs the right `{right}` in `{namespace}`", tree.name(scope))
        }
        None => format!("changing namespaces and scopes needs the right `{right}` in `{namespace}`"),
    }
}
