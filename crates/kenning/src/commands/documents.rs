//! `kenning documents`: lists the documents that were taken in, and removes those of a source.

use clap::Args;
use kenning_engine::{DocumentKind, DocumentSource, Engine, Snapshot};
use kenning_model::{Document, Id, ScopeId, Timestamp};
use kenning_storage::{Request, Write};
use kenning_tools::scope_name;
use serde_json::json;

use super::{Outcome, complain, counted_documents, existing_store, line, print, usage};
use crate::config::Config;

/// Without a source, all sources of the scope.
#[derive(Args)]
pub struct Documents {
    /// Only the documents of this source
    source: Option<String>,
    /// Remove all documents of the source, in one transaction
    #[arg(long, requires = "source")]
    remove: bool,
    /// Print for programs: a line for each
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, documents: Documents) -> anyhow::Result<Outcome> {
    if documents.remove && config.read_only {
        return Err(usage("`documents --remove` writes, and `--read-only` was given"));
    }
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    let engine = config.engine()?;
    let caller = config.caller(&engine);
    if let (true, Some(refusal)) = (documents.remove, &caller.refusal) {
        return Err(usage(refusal.message.clone()));
    }
    let scope = scope_name(&caller.scope).map_err(|stop| usage(stop.message))?;
    let snapshot = engine.snapshot(&caller.principal)?;
    let number = snapshot.scope(&scope)?;
    let sources = snapshot.document_sources(number)?;
    let Some(source) = &documents.source else {
        tell_sources(&scope.to_string(), &sources, documents.json)?;
        return Ok(Outcome::Done);
    };
    if !sources.iter().any(|known| known.name == *source) {
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let there_are = match names.is_empty() {
            true => String::new(),
            false => format!("; there are {}", names.join(", ")),
        };
        complain(&format!("`{scope}` has no documents of a source `{source}`{there_are}"));
        return Ok(Outcome::NotFound);
    }
    let found = of_source(&snapshot, number, source)?;
    match documents.remove {
        true => remove(config, &engine, source, &found, documents.json)?,
        false => tell_documents(&found, documents.json)?,
    }
    Ok(Outcome::Done)
}

/// The documents of a source. Each one is read from the log and compared with the derived table, so that a
/// damaged row of the table can't remove another document.
fn of_source(snapshot: &Snapshot<'_>, scope: ScopeId, source: &str) -> anyhow::Result<Vec<(Id, Document)>> {
    let mut found = Vec::new();
    for known in snapshot.documents_below(scope, source, "")? {
        let stored = snapshot.document(known.id)?;
        let document = stored.as_ref().and_then(|stored| stored.record.as_document());
        let is_it = |document: &&Document| document.source == source && document.scope == scope;
        let Some(document) = document.filter(is_it) else {
            anyhow::bail!("the store is damaged at document {}; `kenning verify` says more", known.id);
        };
        found.push((known.id, document.clone()));
    }
    Ok(found)
}

fn remove(
    config: &Config,
    engine: &Engine,
    source: &str,
    found: &[(Id, Document)],
    as_json: bool,
) -> anyhow::Result<()> {
    let caller = config.caller(engine);
    let write = Write::DeleteDocuments { ids: found.iter().map(|(id, _)| *id).collect() };
    let (principal, tool) = (caller.principal, "documents".to_owned());
    let tx = engine.commit(Request { principal, tool, write, keyed: None })?.tx.id;
    let many = found.len();
    print(&match as_json {
        true => json!({"source": source, "removed": many, "tx_id": tx.0}).to_string(),
        false => {
            let documents = counted_documents(many as u64);
            format!(
                "Removed {documents} of `{source}` in transaction {tx}; `kenning undo {tx}` brings all back"
            )
        }
    })?;
    Ok(())
}

fn tell_sources(scope: &str, sources: &[DocumentSource], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        for source in sources {
            let line = json!({
                "source": source.name,
                "documents": source.documents,
                "kind": kind_of(source),
                "changed_at": source.changed_at.to_string(),
            });
            print(&line.to_string())?;
        }
        return Ok(());
    }
    if sources.is_empty() {
        print(&format!("`{scope}` has no documents; `kenning ingest` takes them in"))?;
        return Ok(());
    }
    let heading = ["SOURCE", "DOCUMENTS", "KIND", "CHANGED"].map(str::to_owned);
    let row = |source: &DocumentSource| {
        let (kind, changed) = (kind_of(source).to_owned(), to_the_minute(source.changed_at));
        [line(&source.name), source.documents.to_string(), kind, changed]
    };
    let rows: Vec<[String; 4]> = std::iter::once(heading).chain(sources.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (names, counts, kinds) = (width(0), width(1), width(2));
    for [name, count, kind, changed] in &rows {
        print(&format!("{name:names$}  {count:>counts$}  {kind:kinds$}  {changed}"))?;
    }
    Ok(())
}

fn kind_of(source: &DocumentSource) -> &'static str {
    match source.kind {
        DocumentKind::Plain => "documents",
        DocumentKind::Pattern => "patterns",
    }
}

fn tell_documents(found: &[(Id, Document)], as_json: bool) -> anyhow::Result<()> {
    for (id, document) in found {
        print(&match as_json {
            true => json!({
                "id": id.as_str(),
                "path": document.path,
                "title": document.title,
                "doc_tag": document.doc_tag,
                "changed_at": document.updated_at.unwrap_or(document.recorded_at).to_string(),
            })
            .to_string(),
            false => format!("{}: {}", line(&document.path), line(&document.title)),
        })?;
    }
    Ok(())
}

fn to_the_minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
