//! `kenning purge`: what was kept goes for good, from the history too. The first run only says what would go, and gives a token; with
//! the token it is done, if there is still the same to be removed.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use kenning_engine::{Engine, Error, PurgeNote, PurgedId, brought_back, purge_notes};
use kenning_model::{EntityType, Id, Principal, ScopeId, ScopeNames};
use kenning_storage::{Author, Embedded, PurgeItem, PurgePlan, PurgeSelection, Storage};
use kenning_tools::forget_sets;
use kenning_tools::memory::item::one_line;
use kenning_tools::recall::RecallLog;
use serde_json::{Value, json};

use super::author::moment;
use super::refusal::Refused;
use super::{Outcome, complain, existing_store, line, print, usage};
use crate::config::Config;
use crate::terminal::{self, DIM, ID, NAME, PLAIN, Table, Text};

/// The most things that the output for people names.
const SHOWN_MAX: usize = 20;
/// The number of transactions that are shown of each.
const TRANSACTIONS_SHOWN_MAX: usize = 4;
const TOPIC_BYTES: usize = 60;

#[derive(Args)]
#[command(after_help = "Examples:
  kenning purge K7H9M2PQX8                                # says what would go, and prints the command that does it
  kenning purge --source patterns
  kenning purge --by alice

Unlike `rm`, this can't be undone: all versions of what is named lose their text, in the log, in the index and on the disk. The history
still says who changed what and when. Copies from before still have the text: backups, exports, folders of `kenning mirror`, and the
files that documents were made from.")]
pub struct Purge {
    /// Ids of entries, of facts, or of documents, which go with their sections
    #[arg(value_name = "ID", required_unless_present_any = ["source", "by"])]
    ids: Vec<String>,
    /// Every document that was ever taken in as part of this source
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    source: Option<String>,
    /// Everything that somebody has written to, with what others wrote of the same things: the name that the history shows, or the
    /// origin of one credential, such as "key 3f9a0c41d2"
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ids", "source"])]
    by: Option<String>,
    /// With --by, only what was written to since then: 2026-11-18T20:00:00Z, or how long ago, such as 90m, 12h or 7d
    #[arg(long, value_name = "TIME", requires = "by", value_parser = moment)]
    since: Option<Timestamp>,
    /// Do it: the token that the first run printed
    #[arg(long, value_name = "TOKEN")]
    confirm: Option<String>,
    /// Print for programs
    #[arg(long)]
    json: bool,
}

/// How to treat purged text that a copy would bring back.
#[derive(Args, Clone, Copy)]
pub struct OfPurged {
    /// If it has something that was purged since: remove that from it first
    #[arg(long)]
    pub purge_again: bool,
    /// If it has something that was purged since: bring that back
    #[arg(long, conflicts_with = "purge_again")]
    pub with_purged: bool,
}

pub fn run(config: &Config, purge: Purge) -> anyhow::Result<Outcome> {
    if config.read_only && purge.confirm.is_some() {
        return Err(usage("`purge` writes, and `--read-only` was given; without `--confirm` it only looks"));
    }
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    let selection = purge.selection()?;
    let engine = config.engine()?;
    let (plan, token) = match engine.plan_purge(&selection) {
        Ok(planned) => planned,
        Err(Error::Invalid { what }) => {
            complain(&what);
            return Ok(Outcome::NotFound);
        }
        Err(Error::UnknownId { id, .. }) => {
            let what = format!(
                "there is nothing `{id}`, and there was nothing; `kenning history` shows what was deleted"
            );
            return Err(Refused::not_found(what));
        }
        Err(error) => return Err(error.into()),
    };
    let Some(confirmed) = &purge.confirm else {
        return purge.tell_plan(&engine, &plan, &token);
    };
    let purged = match engine.purge(&selection, confirmed, &config.principal()) {
        Ok(purged) => purged,
        Err(Error::Invalid { what }) => {
            complain(&format!("nothing was removed: {what}"));
            return Ok(Outcome::Failed);
        }
        Err(error) => return Err(error.into()),
    };
    let remains = clean_up(&engine, &purged.plan);
    if purge.json {
        print(
            &json!({
                "dry_run": false,
                "tx_id": purged.tx_id.0,
                "versions": purged.plan.versions(),
                "ids": purged.plan.items.iter().map(|item| item.id.to_string()).collect::<Vec<_>>(),
                "remains": remains,
            })
            .to_string(),
        )?;
    } else {
        let mut shown = Text::plain(format!("Removed for good: {}", counted(&purged.plan)));
        shown.push(DIM, format!(" (transaction {})", purged.tx_id));
        terminal::print(&shown)?;
        remains.iter().for_each(|what| complain(what));
    }
    let damaged = put_aside(engine.dir());
    if !damaged.is_empty() {
        complain(&format!(
            "what was put aside when it was damaged may still have it, and was left as it is: {} in {}",
            damaged.join(", "),
            engine.dir().display()
        ));
    }
    Ok(if remains.is_empty() { Outcome::Done } else { Outcome::Busy })
}

impl Purge {
    fn selection(&self) -> anyhow::Result<PurgeSelection> {
        if let Some(name) = &self.source {
            return Ok(PurgeSelection::Source(name.clone()));
        }
        if let Some(name) = &self.by {
            return Ok(PurgeSelection::By(Author { name: name.clone(), since: self.since }));
        }
        let id = |text: &String| {
            let unknown = || {
                Refused::not_found(format!(
                    "`{}` is no id; `kenning list` and `kenning search` show ids",
                    line(text)
                ))
            };
            Id::parse(&text.to_ascii_uppercase()).ok_or_else(unknown)
        };
        Ok(PurgeSelection::Ids(self.ids.iter().map(id).collect::<anyhow::Result<_>>()?))
    }

    /// The arguments once more, for the second run.
    fn arguments(&self) -> String {
        let quoted = |text: &str| match text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
        {
            true => text.to_owned(),
            false => format!("'{}'", text.replace('\'', r"'\''")),
        };
        match (&self.source, &self.by) {
            (Some(name), _) => format!("--source {}", quoted(name)),
            (_, Some(name)) => {
                let since = self.since.map(|since| format!(" --since {since}")).unwrap_or_default();
                format!("--by {}{since}", quoted(name))
            }
            _ => self.ids.join(" "),
        }
    }

    fn tell_plan(&self, engine: &Engine, plan: &PurgePlan, token: &str) -> anyhow::Result<Outcome> {
        let names = scope_names(engine, plan)?;
        if self.json {
            let items: Vec<Value> = plan.items.iter().map(|item| json_of(item, &names)).collect();
            let plan = json!({
                "dry_run": true,
                "token": token,
                "versions": plan.versions(),
                "transactions": plan.transactions().len(),
                "items": items,
            });
            print(&plan.to_string())?;
            return Ok(Outcome::Done);
        }
        let many = plan.transactions().len();
        let transactions = if many == 1 { "transaction" } else { "transactions" };
        terminal::print(&Text::plain(format!(
            "Would remove for good: {} of {many} {transactions}",
            counted(plan)
        )))?;
        let mut table = Table::new(&["ID", "WHAT", "SCOPE", "VERSIONS", "IN", "BY", ""]).numbers(&[3]);
        // Sections are counted with their document, behind which they come.
        let shown: Vec<&PurgeItem> =
            plan.items.iter().filter(|item| item.entity_type != EntityType::Section).collect();
        for item in shown.iter().take(SHOWN_MAX) {
            table.row(vec![
                Text::styled(ID, item.id.to_string()),
                Text::plain(kind(item.entity_type)),
                Text::styled(NAME, names.of(item.scope)),
                Text::plain(item.written_by.len().to_string()),
                Text::styled(DIM, transactions_of(item)),
                Text::styled(NAME, line(&item.actors.iter().cloned().collect::<Vec<_>>().join(", "))),
                Text::plain(one_line(&item.topic, TOPIC_BYTES)),
            ]);
        }
        terminal::print(&table.text())?;
        if shown.len() > SHOWN_MAX {
            terminal::print(&Text::styled(
                DIM,
                format!("and {} more; `--json` names all", shown.len() - SHOWN_MAX),
            ))?;
        }
        let mut then = Text::styled(
            DIM,
            "Nothing was changed. It can't be undone; copies from before still have the text. To do it:",
        );
        then.push(PLAIN, format!("\n  kenning purge {} --confirm {token}", self.arguments()));
        terminal::print(&then)?;
        Ok(Outcome::Done)
    }
}

/// Removes what of it is beside the log, and says what could not be removed.
fn clean_up(engine: &Engine, plan: &PurgePlan) -> Vec<String> {
    let mut remains = Vec::new();
    if let Err(error) = engine.finish_purge() {
        remains.push(format!(
            "it is gone from the store, but the disk still has some of it: {error}; the next session or command that uses the \
             store tries again"
        ));
    }
    let dir = engine.dir();
    if let Err(error) = forget_sets(dir) {
        remains.push(format!(
            "rows.db may still have questions about it ({error}); they go when their links expire"
        ));
    }
    let ids: Vec<Id> = plan.items.iter().map(|item| item.id).collect();
    if let Some(Err(error)) = RecallLog::existing(dir).map(|log| log.forget(&ids)) {
        remains.push(format!("recall.db still says to whom it was given ({error})"));
    }
    remains
}

/// Files of stores that could not be read any more.
fn put_aside(dir: &Path) -> Vec<String> {
    let Ok(inside) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = inside.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".damaged")).collect()
}

fn scope_names(engine: &Engine, plan: &PurgePlan) -> anyhow::Result<ScopeNames> {
    let reader = engine.storage()?.reader()?;
    let scopes: std::collections::BTreeSet<ScopeId> = plan.items.iter().map(|item| item.scope).collect();
    Ok(reader.scope_names(&scopes.into_iter().collect::<Vec<_>>(), reader.head()?)?)
}

fn json_of(item: &PurgeItem, names: &ScopeNames) -> Value {
    json!({
        "type": item.entity_type,
        "id": item.id,
        "scope": names.of(item.scope),
        "is_live": item.is_live,
        "topic": item.topic,
        "versions": item.written_by.len(),
        "transactions": item.written_by.iter().map(|tx| tx.0).collect::<Vec<_>>(),
        "actors": item.actors,
    })
}

fn kind(entity_type: EntityType) -> &'static str {
    match entity_type {
        // As people call it.
        EntityType::Triple => "fact",
        other => other.as_str(),
    }
}

/// `2 entries, 1 document with 14 sections: 21 versions`
fn counted(plan: &PurgePlan) -> String {
    let mut counts: BTreeMap<EntityType, usize> = BTreeMap::new();
    plan.items.iter().for_each(|item| *counts.entry(item.entity_type).or_default() += 1);
    let of = |entity_type, one: &str, many: &str| match counts.get(&entity_type) {
        None => None,
        Some(1) => Some(format!("1 {one}")),
        Some(number) => Some(format!("{number} {many}")),
    };
    let documents = of(EntityType::Document, "document", "documents").map(|documents| {
        let sections = of(EntityType::Section, "section", "sections");
        sections.map_or(documents.clone(), |sections| format!("{documents} with {sections}"))
    });
    let kinds =
        [of(EntityType::Entry, "entry", "entries"), of(EntityType::Triple, "fact", "facts"), documents];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    let versions = plan.versions();
    format!("{}: {versions} {}", kinds.join(", "), if versions == 1 { "version" } else { "versions" })
}

fn transactions_of(item: &PurgeItem) -> String {
    let shown = item.written_by.iter().take(TRANSACTIONS_SHOWN_MAX).map(ToString::to_string);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if item.written_by.len() > TRANSACTIONS_SHOWN_MAX {
        text.push_str(", …");
    }
    text
}

/// Looks at a backup before it is put back. What was removed for good since it was made comes back only if that is wanted.
pub(super) fn check_backup(
    backup: Embedded,
    notes: &[PurgeNote],
    wish: OfPurged,
    principal: &Principal,
) -> Result<(), Error> {
    let storage = Storage::on(Box::new(backup), Engine::real_sources());
    let found = brought_back(&storage, notes)?;
    if found.is_empty() || wish.with_purged {
        return Ok(());
    }
    if !wish.purge_again {
        return Err(Error::Invalid { what: refusal("the backup", &found) });
    }
    remove_again(&storage, &found, principal)?;
    storage.backend().scrub()
}

/// Removes from a store what was removed for good from another copy of it.
pub(super) fn remove_again(
    storage: &Storage,
    found: &[PurgedId],
    principal: &Principal,
) -> Result<(), Error> {
    let own = found.iter().filter(|purged| purged.entity_type != EntityType::Section);
    let selection = PurgeSelection::Ids(own.map(|purged| purged.id).collect());
    let (_, token) = storage.plan_purge(&selection)?;
    storage.purge(&selection, &token, principal, |_| Ok(())).map(drop)
}

/// Why a copy is not taken as it is.
pub(super) fn refusal(what: &str, found: &[PurgedId]) -> String {
    let own: Vec<&PurgedId> =
        found.iter().filter(|purged| purged.entity_type != EntityType::Section).collect();
    let named: Vec<String> = own
        .iter()
        .take(SHOWN_MAX)
        .map(|purged| format!("{} {}", kind(purged.entity_type), purged.id))
        .collect();
    let more = own.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{what} still has what was purged since: {}{more}; `--purge-again` takes the rest without it, `--with-purged` brings it back",
        named.join(", ")
    )
}

/// The notes of a data directory; without any there is nothing to look for.
pub(super) fn notes_of(dir: &Path) -> anyhow::Result<Vec<PurgeNote>> {
    use anyhow::Context;
    purge_notes(dir).with_context(|| format!("what was purged can't be read from {}", dir.display()))
}
