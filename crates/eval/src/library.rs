//! A store into which documents are ingested as by `kenning ingest`; it is searched with the tools that
//! agents call.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use kenning_engine::{DocumentKind, Embedder, Engine, Format, Intake};
use kenning_model::{Id, Record};
use kenning_presentation::{Block, Reply};
use kenning_testkit::TempStore;
use kenning_tools::briefing::{self, AlreadyGiven, Briefing};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::Value;

pub struct Library {
    engine: Engine,
    caller: Caller,
    intake: Intake,
    _store: TempStore,
}

impl Default for Library {
    fn default() -> Library {
        Library::new(Embedder::default())
    }
}

impl Library {
    pub fn new(embedder: Embedder) -> Library {
        Library::of_kind(embedder, DocumentKind::Plain)
    }

    pub fn of_kind(embedder: Embedder, kind: DocumentKind) -> Library {
        let store = TempStore::in_memory();
        Library {
            engine: Engine::new(store.path().to_owned(), Engine::real_sources()).with_embedder(embedder),
            caller: Caller::new(None, "eval".to_owned(), "global:default".to_owned()),
            intake: Intake { kind, ..kenning_testkit::intake("eval") },
            _store: store,
        }
    }

    /// Ingests one file, in the format that its name tells.
    pub fn take_in(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let format = Format::of(Path::new(path)).with_context(|| format!("{path} is no document"))?;
        let prepared = self.intake.prepare(path, format, text.as_bytes().to_vec(), &|_| None, None)?;
        let prepared = prepared.with_context(|| format!("{path} is there already"))?;
        Ok(self.intake.put(&self.engine, prepared.document)?)
    }

    /// Calls a tool as an agent does.
    pub fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<Reply> {
        let definition = find(tool).with_context(|| format!("there is no tool `{tool}`"))?;
        let arguments = arguments.as_object().cloned().context("arguments are an object")?;
        let reply = dispatch(&self.engine, &self.caller, Access::ReadWrite, definition, arguments);
        anyhow::ensure!(!reply.is_error, "{tool}: {}", reply.structured);
        Ok(reply)
    }

    /// The briefing of a hook beside a prompt, for a session that was given nothing yet.
    pub fn beside_prompt(&self, scope: &str, prompt: &str) -> anyhow::Result<Briefing> {
        let caller = Caller { scope: scope.to_owned(), has_graph: false, ..self.caller.clone() };
        briefing::prompt(&self.engine, &caller, prompt, &AlreadyGiven::default())
            .map_err(|stop| anyhow::anyhow!("{}", stop.message))
    }

    /// The text of the section of a hit.
    pub fn section_text(&self, hit: &Value) -> anyhow::Result<String> {
        let id = hit["section_id"].as_str().and_then(Id::parse).context("every hit names its section")?;
        match self.engine.snapshot(&self.caller.principal)?.section(id)?.map(|stored| stored.record) {
            Some(Record::Section(section)) => Ok(section.text),
            _ => anyhow::bail!("there is no section `{id}`"),
        }
    }

    /// The paths of the documents that these results or quotes are from, in the same order.
    pub fn paths(&self, found: &Value) -> anyhow::Result<Vec<String>> {
        let snapshot = self.engine.snapshot(&self.caller.principal)?;
        let mut known: HashMap<Id, String> = HashMap::new();
        let mut paths = Vec::new();
        for one in found.as_array().context("a list")? {
            let id = one["section_id"].as_str().and_then(Id::parse).context("every hit names its section")?;
            let Some(Record::Section(section)) = snapshot.section(id)?.map(|stored| stored.record) else {
                anyhow::bail!("there is no section `{id}`");
            };
            if let std::collections::hash_map::Entry::Vacant(new) = known.entry(section.document) {
                let stored =
                    snapshot.document(section.document)?.context("every section has its document")?;
                let document = stored.record.as_document().context("a document")?;
                new.insert(document.path.clone());
            }
            paths.push(known[&section.document].clone());
        }
        Ok(paths)
    }
}

/// The text that a model reads.
pub fn text_of(reply: &Reply) -> &str {
    let text = |block: &'_ Block| matches!(block, Block::Text(_));
    let first = reply.blocks.iter().find(|block| text(block));
    first.map_or("", |block| if let Block::Text(text) = block { text } else { "" })
}

/// The quoted sentences of a reply.
pub fn quoted(reply: &Reply) -> Vec<&str> {
    let quotes = reply.structured["quotes"].as_array().into_iter().flatten();
    quotes.filter_map(|quote| quote["quote"].as_str()).collect()
}
