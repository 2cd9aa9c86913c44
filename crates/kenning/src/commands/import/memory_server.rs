//! Reads the file of the official memory server: one line of JSON for each entity and each relation. An
//! observation becomes an entry whose topic is the name of its entity. The type of an entity becomes a tag
//! and a fact (`is a`). A relation becomes a fact.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::writer::{FoundEntry, FoundTriple, SourcePosition, Writer};
use crate::commands::export::bar;
use crate::commands::log_file::{Lines, unreadable};

pub(super) fn read(path: &Path, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let unreadable_file = || format!("{} can't be read", path.display());
    let file = File::open(path).with_context(unreadable_file)?;
    let bar = bar(file.metadata().with_context(unreadable_file)?.len());
    let mut lines = Lines::new(BufReader::new(bar.wrap_read(file)));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    while let Some((number, line)) = lines.next().with_context(unreadable_file)? {
        let place = SourcePosition { file: &name, line: Some(number) };
        match line {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => match serde_json::from_str::<Value>(line) {
                Ok(value) => read_line(&value, place, writer)?,
                Err(error) => writer.refuse(place, unreadable(&error)),
            },
            Err(why) => writer.refuse(place, why),
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn read_line(value: &Value, place: SourcePosition<'_>, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let text = |field: &str| value[field].as_str().map(str::to_owned);
    let source = Some(place.file.to_owned());
    match value["type"].as_str() {
        Some("entity") => {
            let Some(name) = text("name") else {
                writer.refuse(place, "the entity has no name");
                return Ok(());
            };
            let entity_type = text("entityType").filter(|of| !of.trim().is_empty());
            if let Some(object) = &entity_type {
                let [subject, predicate, object] = [&name, "is a", object].map(str::to_owned);
                writer.triple(
                    place,
                    FoundTriple { subject, predicate, object, source: source.clone(), confidence: None },
                )?;
            }
            let observations = match &value["observations"] {
                Value::Array(observations) => &**observations,
                Value::Null => &[],
                _ => {
                    writer.refuse(place, "the observations are no list");
                    &[]
                }
            };
            for observation in observations {
                let Some(content) = observation.as_str() else {
                    writer.refuse(place, "an observation is no text");
                    continue;
                };
                let entry = FoundEntry {
                    topic: name.clone(),
                    content: content.to_owned(),
                    tags: entity_type.iter().cloned().collect(),
                    source: source.clone(),
                    ..FoundEntry::default()
                };
                writer.entry(place, entry)?;
            }
            Ok(())
        }
        Some("relation") => match (text("from"), text("relationType"), text("to")) {
            (Some(subject), Some(predicate), Some(object)) => {
                writer.triple(place, FoundTriple { subject, predicate, object, source, confidence: None })
            }
            _ => {
                writer.refuse(place, "a relation needs `from`, `relationType` and `to`");
                Ok(())
            }
        },
        other => {
            let what = match other {
                Some(other) => format!("there is no type `{}`", other.chars().take(64).collect::<String>()),
                None => "it is neither an entity nor a relation".to_owned(),
            };
            writer.refuse(place, what);
            Ok(())
        }
    }
}
