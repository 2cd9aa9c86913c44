//! `kenning scopes`

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use kenning_model::{DEFAULT, EntityType, Id, Scope, ScopeId};
use kenning_storage::Tree;
use serde_json::{Map, json};

use super::refusal::Refused;
use super::{
    Outcome, counted_documents, counted_entries, existing_store, line, print, print_reply, run_tool,
};
use crate::config::Config;

#[derive(Args)]
pub struct Scopes {
    /// Only this namespace
    namespace: Option<String>,
    /// Print what `get_namespaces` replies, with all details
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, scopes: Scopes) -> anyhow::Result<Outcome> {
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    if scopes.json {
        let mut arguments = Map::new();
        arguments.insert("namespace".to_owned(), json!(scopes.namespace));
        arguments.insert("style".to_owned(), json!("details"));
        return print_reply(&run_tool(config, "get_namespaces", arguments)?, true);
    }
    let engine = config.engine()?;
    let snapshot = engine.snapshot(&config.principal())?;
    let tree = snapshot.tree()?;
    let counts = Counts {
        entries: snapshot.count_by_scope(EntityType::Entry)?,
        documents: snapshot.count_by_scope(EntityType::Document)?,
    };
    if let Some(name) = &scopes.namespace
        && tree.namespace(name).is_none()
    {
        let names: Vec<&str> = tree.namespaces().map(|(_, namespace)| namespace.name.as_str()).collect();
        return Err(Refused::not_found(format!(
            "there is no namespace `{name}`; there are {}",
            names.join(", ")
        )));
    }
    let wanted = |name: &str| scopes.namespace.as_ref().is_none_or(|wanted| wanted == name);
    let drawn: Vec<String> = tree
        .namespaces()
        .filter(|(_, namespace)| wanted(&namespace.name))
        .map(|(id, namespace)| {
            let mut drawing = Drawing::new(&tree, id, &counts);
            format!("{}: {}\n{}", namespace.name, line(&namespace.description), drawing.draw())
        })
        .collect();
    print(drawn.join("\n").trim_end())?;
    Ok(Outcome::Done)
}

/// How many entries and documents each scope has itself, without those that it inherits.
struct Counts {
    entries: BTreeMap<ScopeId, u64>,
    documents: BTreeMap<ScopeId, u64>,
}

impl Counts {
    fn of(&self, scope: ScopeId) -> String {
        let entries = self.entries.get(&scope).map(|many| counted_entries(*many));
        let documents = self.documents.get(&scope).map(|many| counted_documents(*many));
        let both: Vec<String> = entries.into_iter().chain(documents).collect();
        if both.is_empty() { "empty".to_owned() } else { both.join(", ") }
    }
}

/// Draws a namespace as a tree. A scope with several parents stands below the first, and its line names the
/// other scopes that it inherits from.
struct Drawing<'a> {
    tree: &'a Tree,
    counts: &'a Counts,
    children: BTreeMap<ScopeId, Vec<&'a Scope>>,
    default: Option<&'a Scope>,
    drawn: BTreeSet<ScopeId>,
    lines: String,
}

impl<'a> Drawing<'a> {
    fn new(tree: &'a Tree, namespace: Id, counts: &'a Counts) -> Drawing<'a> {
        let mut children: BTreeMap<ScopeId, Vec<&Scope>> = BTreeMap::new();
        for (_, scope) in tree.scopes(namespace) {
            if let Some(first) = tree.parents(scope).first() {
                children.entry(*first).or_default().push(scope);
            }
        }
        children.values_mut().for_each(|scopes| scopes.sort_by_key(|scope| &scope.name));
        let default = tree.scopes(namespace).map(|(_, scope)| scope).find(|scope| scope.name == DEFAULT);
        Drawing { tree, counts, children, default, drawn: BTreeSet::new(), lines: String::new() }
    }

    fn draw(&mut self) -> String {
        if let Some(default) = self.default {
            self.scope(default, "", "");
        }
        std::mem::take(&mut self.lines)
    }

    fn scope(&mut self, scope: &Scope, branch: &str, below: &str) {
        if !self.drawn.insert(scope.number) {
            return;
        }
        let others = self.tree.parents(scope).into_iter().skip(1).filter_map(|parent| self.tree.get(parent));
        let others: Vec<&str> = others.map(|parent| &*parent.name).filter(|name| *name != DEFAULT).collect();
        let also = match others.is_empty() {
            true => String::new(),
            false => format!(" (and below {})", others.join(", ")),
        };
        let many = self.counts.of(scope.number);
        let about = line(&scope.description);
        self.lines.push_str(&format!("  {branch}{}{also}, {many}: {about}\n", scope.name));
        let children = self.children.get(&scope.number).cloned().unwrap_or_default();
        for (at, child) in children.iter().enumerate() {
            let (branch, more) =
                if at + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.scope(child, &format!("{below}{branch}"), &format!("{below}{more}"));
        }
    }
}
