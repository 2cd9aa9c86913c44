//! `kenning rm` and `kenning undelete`: delete entries and facts, and bring them back.

use clap::Args;
use kenning_model::{EntityType, Id};
use kenning_storage::{Request, Write};
use kenning_tools::memory::item::one_line;
use serde_json::json;

use super::refusal::Refused;
use super::store::Store;
use super::{Outcome, line, print, usage};
use crate::config::Config;
use crate::terminal::{self, DIM, ID, PLAIN, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning rm K7H9M2PQX8
  kenning undelete K7H9M2PQX8

Documents are removed with `kenning documents SOURCE --remove`.")]
pub struct Rm {
    /// Ids of entries, or of facts of the graph
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Print for programs: a line for each
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  kenning rm K7H9M2PQX8
  kenning undelete K7H9M2PQX8

It comes back as it was; `kenning show ID` also shows what was deleted.")]
pub struct Undelete {
    /// Ids of what was deleted
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Print for programs: a line for each
    #[arg(long)]
    json: bool,
}

/// Nothing is deleted if one of the ids is unknown.
pub fn run(config: &Config, rm: Rm) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, None)?;
    let mut found = Vec::new();
    {
        let snapshot = store.snapshot()?;
        for text in &rm.ids {
            let id = store.id(text)?;
            let stored = store.find(&snapshot, id)?.ok_or_else(|| store.unknown("entry or fact", text))?;
            let (kind, called) = match &stored.record {
                kenning_model::Record::Entry(entry) => ("entry", one_line(&entry.topic, 60)),
                kenning_model::Record::Triple(triple) => ("triple", fact(triple)),
                other => {
                    let kind = other.entity_type();
                    return Err(usage(format!(
                        "`{id}` is a {kind}; `kenning documents SOURCE --remove` removes documents"
                    )));
                }
            };
            found.push((id, kind, called));
        }
    }
    for (id, kind, called) in found {
        let reply = store.call(config, "delete", json!({"id": id.to_string(), "entity_type": kind}))?;
        if rm.json {
            print(&reply.structured.to_string())?;
            continue;
        }
        let tx = &reply.structured["tx_id"];
        let mut shown = Text::plain("Deleted ").with(ID, id.to_string());
        shown.push(PLAIN, format!(" {}", line(&called)));
        shown.push(DIM, format!(" (transaction {tx}; `kenning undelete {id}` brings it back)"));
        terminal::print(&shown)?;
    }
    Ok(Outcome::Done)
}

pub fn run_undelete(config: &Config, undelete: Undelete) -> anyhow::Result<Outcome> {
    if config.read_only {
        return Err(usage("`undelete` writes, and `--read-only` was given"));
    }
    let store = Store::existing(config, None)?;
    let mut wanted = Vec::new();
    {
        let snapshot = store.snapshot()?;
        for text in &undelete.ids {
            let id = store.id(text)?;
            if let Some(stored) = store.find(&snapshot, id)? {
                return Err(usage(format!("{} `{id}` is not deleted", stored.record.entity_type())));
            }
            let mut kinds = [EntityType::Entry, EntityType::Triple].into_iter();
            let was =
                |kind: &EntityType| snapshot.transactions_of(*kind, id).is_ok_and(|all| !all.is_empty());
            let Some(kind) = kinds.find(was) else {
                return Err(gone(&store, &snapshot, id, text));
            };
            wanted.push((kind, id));
        }
    }
    for (entity_type, id) in wanted {
        let write = Write::Restore { entity_type, id };
        let (principal, tool) = (store.caller.principal.clone(), "undelete".to_owned());
        let done = store.engine.commit(Request { principal, tool, write, keyed: None });
        let tx = done.map_err(|error| missing_scope(&store, id, error))?.tx.id;
        if undelete.json {
            print(
                &json!({"id": id.to_string(), "entity_type": entity_type.as_str(), "tx_id": tx.0})
                    .to_string(),
            )?;
            continue;
        }
        let mut shown = Text::plain("Brought back ").with(ID, id.to_string());
        shown.push(DIM, format!(" (transaction {tx}; `kenning undo {tx}` takes that back)"));
        terminal::print(&shown)?;
    }
    Ok(Outcome::Done)
}

/// The error for an id that is neither a deleted entry nor a deleted fact. A document can only be brought
/// back by undoing its transaction.
fn gone(store: &Store, snapshot: &kenning_engine::Snapshot<'_>, id: Id, text: &str) -> anyhow::Error {
    let touched = snapshot.transactions_of(EntityType::Document, id).unwrap_or_default();
    match touched.last() {
        Some(tx) => usage(format!("`{id}` was a document; `kenning undo {tx}` brings it back")),
        None => store.unknown("deleted entry or fact", text),
    }
}

fn missing_scope(store: &Store, id: Id, error: kenning_engine::Error) -> anyhow::Error {
    let kenning_engine::Error::Unsound { .. } = &error else { return error.into() };
    let last =
        |kind| store.snapshot().ok().and_then(|snapshot| snapshot.transactions_of(kind, id).ok()?.pop());
    let tx = [EntityType::Entry, EntityType::Triple].into_iter().find_map(last);
    let hint = tx.map(|tx| format!("; `kenning undo {tx}` brings both back")).unwrap_or_default();
    Refused { outcome: Outcome::Failed, message: format!("the scope of `{id}` is deleted too{hint}") }.into()
}

/// A fact as text, such as `checkout owned by team red`.
pub fn fact(triple: &kenning_model::Triple) -> String {
    line(&format!("{} {} {}", triple.subject, triple.predicate, triple.object))
}
