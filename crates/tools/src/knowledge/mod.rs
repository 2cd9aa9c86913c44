//! Knowledge: namespaces, scopes that inherit from each other, the entries in them, and the context for a
//! task.

mod create_namespace;
mod create_scope;
mod delete_knowledge;
mod delete_namespace;
mod delete_scope;
mod get_namespaces;
mod get_task_context;
mod resolve_knowledge_collision;
mod update_knowledge;
mod update_namespace;
mod update_scope;
mod write_knowledge;

use kenning_engine::Snapshot;
use kenning_model::ScopeName;
use kenning_presentation::text::clean;
use kenning_storage::{Committed, Tree};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::Parents;
use crate::keyed::{ByName, Keyed};
use crate::memory::similar::SimilarEntry;
use crate::tool::{ToolRow, row, scope_name_in};
use crate::{Context, Stop};

pub(crate) fn tools() -> Vec<ToolRow> {
    vec![
        row::<get_task_context::GetTaskContext>(),
        row::<write_knowledge::WriteKnowledge>(),
        row::<update_knowledge::UpdateKnowledge>(),
        row::<delete_knowledge::DeleteKnowledge>(),
        row::<resolve_knowledge_collision::ResolveKnowledgeCollision>(),
        row::<get_namespaces::GetNamespaces>(),
        row::<create_namespace::CreateNamespace>(),
        row::<update_namespace::UpdateNamespace>(),
        row::<delete_namespace::DeleteNamespace>(),
        row::<create_scope::CreateScope>(),
        row::<update_scope::UpdateScope>(),
        row::<delete_scope::DeleteScope>(),
    ]
}

/// A namespace as the tools that write it show it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct NamespaceOutput {
    name: String,
    description: String,
    scopes: Keyed<Described, ByName>,
    /// How many scopes did not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    scopes_left_out: Option<usize>,
    tx_id: u64,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Described {
    description: String,
}

/// A reply shows at most this many scopes; that many fit, whatever their descriptions are.
const SCOPES_SHOWN_MAX: usize = 50;

impl NamespaceOutput {
    fn new(done: &Committed) -> NamespaceOutput {
        let tree = tree_of(done);
        let changed = done
            .tx
            .changes
            .iter()
            .find_map(|change| Some((change.id, change.after.as_ref()?.as_namespace()?)));
        let (id, namespace) = changed.expect("the change of a namespace leaves one");
        let scopes: Vec<(String, Described)> = tree
            .scopes(id)
            .map(|(_, scope)| (scope.name.clone(), Described { description: clean(&scope.description) }))
            .collect();
        let left_out = scopes.len().saturating_sub(SCOPES_SHOWN_MAX);
        NamespaceOutput {
            name: namespace.name.clone(),
            description: clean(&namespace.description),
            scopes: Keyed::new(scopes.into_iter().take(SCOPES_SHOWN_MAX).collect()),
            scopes_left_out: Some(left_out).filter(|left_out| *left_out > 0),
            tx_id: done.tx.id.0,
        }
    }
}

/// An entry as the tools that write it show it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct EntryOutput {
    id: String,
    scope: String,
    tx_id: u64,
    /// Entries in sight that say the same, or something else of the same subject.
    #[serde(default)]
    similar: Vec<SimilarEntry>,
}

/// A scope as the tools that write it show it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ScopeOutput {
    scope: String,
    description: String,
    parents: Vec<String>,
    tx_id: u64,
}

impl ScopeOutput {
    fn new(done: &Committed) -> ScopeOutput {
        let (tree, names) = (tree_of(done), tree_of(done).names());
        let changed = done.tx.changes.iter().find_map(|change| change.after.as_ref()?.as_scope());
        let scope = changed.expect("the change of a scope leaves one");
        ScopeOutput {
            scope: names.of(scope.number),
            description: clean(&scope.description),
            parents: tree.parents(scope).into_iter().map(|parent| names.of(parent)).collect(),
            tx_id: done.tx.id.0,
        }
    }

    /// The sentence about the parents: `inherits from acme:mobile, acme:default, global:default`
    fn inheritance(&self) -> String {
        const LAST: &str = "global:default";
        let parents = self.parents.iter().map(String::as_str).filter(|parent| *parent != LAST);
        let parents: Vec<&str> = parents.chain([LAST]).collect();
        format!("inherits from {}", parents.join(", "))
    }
}

/// Parses the names of a scope's parents; the error suggests a name in `namespace`.
fn parents(namespace: &str, named: Parents) -> Result<Vec<ScopeName>, Stop> {
    let parent = |text: &String| scope_name_in("parents", text, |name| format!("write `{namespace}:{name}`"));
    named.0.iter().map(parent).collect()
}

/// The present name of a namespace. If it was renamed since, a note in the reply gives the new name.
fn current_name(ctx: &Context<'_>, snapshot: &Snapshot<'_>, name: String) -> Result<String, Stop> {
    let tree = snapshot.tree()?;
    if tree.namespace(&name).is_some() {
        return Ok(name);
    }
    let Some(id) = snapshot.namespace_id(&name)? else { return Ok(name) };
    match tree.namespaces().find(|(known, _)| *known == id) {
        Some((_, namespace)) => {
            ctx.note(format!("Namespace `{name}` is called `{}` now.", namespace.name));
            Ok(namespace.name.clone())
        }
        None => Ok(name),
    }
}

fn tree_of(done: &Committed) -> &Tree {
    done.tree.as_ref().expect("a change of namespaces or scopes tells what they are now")
}
