//! Memories in one JSON value: the exports of Claude, ChatGPT, mem0 and mcp-memory-service, and plain lists
//! of texts.

use serde_json::{Map, Value};

use super::writer::{FoundEntry, FoundTriple, SourcePosition, Writer};
use super::{Format, blocks};

/// The fields that may contain the list of memories.
const LISTS: [&str; 5] = ["memories", "results", "records", "data", "items"];
/// The fields that may contain the text of a memory.
const TEXTS: [&str; 5] = ["memory", "content", "text", "value", "data"];

/// The program that wrote the value, if its fields tell.
pub(super) fn format_of(value: &Value) -> Option<Format> {
    let first = match value {
        Value::Array(list) => list.first()?,
        value => value,
    };
    if first.get("conversations_memory").is_some() || first.get("project_memories").is_some() {
        return Some(Format::Claude);
    }
    if value.get("export_metadata").is_some() {
        return Some(Format::McpMemoryService);
    }
    let first = list_of(value)?.first();
    match first {
        Some(Value::Object(memory)) if memory.contains_key("memory") => Some(Format::Mem0),
        Some(Value::Object(memory)) if memory.contains_key("content_hash") => Some(Format::McpMemoryService),
        Some(Value::Object(memory)) if text_of(memory).is_some() => Some(Format::Chatgpt),
        Some(Value::String(_)) | None => Some(Format::Chatgpt),
        Some(_) => None,
    }
}

fn list_of(value: &Value) -> Option<&Vec<Value>> {
    match value {
        Value::Array(list) => Some(list),
        Value::Object(fields) => LISTS.iter().find_map(|name| match fields.get(*name)? {
            Value::Array(list) => Some(list),
            nested @ Value::Object(_) => list_of(nested),
            _ => None,
        }),
        _ => None,
    }
}

pub(super) fn read(value: &Value, file: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    if format_of(value) == Some(Format::Claude) {
        return read_claude(value, file, writer);
    }
    let whole = SourcePosition { file, line: None };
    let Some(list) = list_of(value) else {
        writer.refuse(whole, "there is no list of memories in it");
        return Ok(());
    };
    for (number, memory) in (1..).zip(list) {
        // The place of a memory is its number in the list, because a line number means little in JSON.
        let place = format!("{file}, memory {number}");
        read_memory(memory, file, SourcePosition { file: &place, line: None }, writer)?;
    }
    if let Some(Value::Array(relations)) = value.get("relations") {
        for (number, relation) in (1..).zip(relations) {
            let place = format!("{file}, relation {number}");
            let place = SourcePosition { file: &place, line: None };
            let text =
                |names: &[&str]| names.iter().find_map(|name| relation[*name].as_str().map(str::to_owned));
            match (text(&["source"]), text(&["relationship", "relation"]), text(&["target", "destination"])) {
                (Some(subject), Some(predicate), Some(object)) => {
                    let source = Some(file.to_owned());
                    writer.triple(
                        place,
                        FoundTriple { subject, predicate, object, source, confidence: None },
                    )?;
                }
                _ => writer.refuse(place, "a relation needs `source`, `relationship` and `target`"),
            }
        }
    }
    Ok(())
}

fn read_memory(
    memory: &Value,
    file: &str,
    place: SourcePosition<'_>,
    writer: &mut Writer<'_>,
) -> anyhow::Result<()> {
    let memory = match memory {
        Value::String(text) => {
            let entry =
                FoundEntry { content: text.clone(), source: Some(file.to_owned()), ..FoundEntry::default() };
            return writer.entry(place, entry);
        }
        Value::Object(memory) => memory,
        _ => {
            writer.refuse(place, "it is neither a text nor an object");
            return Ok(());
        }
    };
    let Some(content) = text_of(memory) else {
        writer.refuse(place, "it has no text");
        return Ok(());
    };
    if memory.get("enabled") == Some(&Value::Bool(false)) {
        writer.refuse(place, "it was switched off");
        return Ok(());
    }
    let text =
        |name: &str| memory.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let mut tags: Vec<String> =
        ["tags", "categories"].iter().flat_map(|name| texts(memory.get(*name))).collect();
    tags.extend(text("memory_type").filter(|of| *of != "note").map(str::to_owned));
    for (name, field) in [("user", "user_id"), ("agent", "agent_id"), ("run", "run_id")] {
        tags.extend(text(field).map(|id| format!("{name}:{id}")));
    }
    // The other metadata become context, so that a search finds the entry by them.
    let context = match memory.get("metadata") {
        Some(Value::Object(metadata)) => {
            let words =
                metadata.iter().filter_map(|(name, value)| Some(format!("{name}: {}", scalar(value)?)));
            words.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let since = ["created_at", "createdAt", "timestamp"].iter().find_map(|name| moment(memory.get(*name)?));
    let source = since.map_or_else(|| file.to_owned(), |since| format!("{file}, {since}"));
    let entry = FoundEntry {
        topic: text("topic").or(text("title")).unwrap_or_default().to_owned(),
        content: content.to_owned(),
        context: Some(context),
        tags,
        source: Some(source),
        ..FoundEntry::default()
    };
    writer.entry(place, entry)
}

fn text_of(memory: &Map<String, Value>) -> Option<&str> {
    TEXTS.iter().find_map(|name| memory.get(*name)?.as_str().filter(|text| !text.trim().is_empty()))
}

/// The elements of a list, or the parts of a text with commas.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => {
            list.iter().filter_map(|text| Some(text.as_str()?.trim().to_owned())).collect()
        }
        Some(Value::String(text)) => text.split(',').map(|text| text.trim().to_owned()).collect(),
        _ => Vec::new(),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The date of a moment, which some programs write as a number of seconds or milliseconds.
fn moment(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.chars().take(10).collect())
            .filter(|day: &String| day.parse::<jiff::civil::Date>().is_ok()),
        Value::Number(number) => {
            let seconds = number.as_f64().filter(|seconds| (0.0..1e13).contains(seconds))?;
            let seconds = if seconds > 1e11 { seconds / 1000.0 } else { seconds };
            let moment = jiff::Timestamp::from_second(seconds as i64).ok()?;
            Some(moment.strftime("%Y-%m-%d").to_string())
        }
        _ => None,
    }
}

/// Claude's export contains texts with headings: one text about all conversations, and one for each project.
fn read_claude(value: &Value, file: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let accounts = match value {
        Value::Array(accounts) => &**accounts,
        one => std::slice::from_ref(one),
    };
    for account in accounts {
        match &account["conversations_memory"] {
            Value::String(text) => blocks::read_under(text, "Claude", file, writer)?,
            Value::Null => {}
            _ => writer.refuse(SourcePosition { file, line: None }, "`conversations_memory` is no text"),
        }
        if let Value::Object(projects) = &account["project_memories"] {
            for (project, text) in projects {
                let place = format!("{file}, project {project}");
                match text.as_str() {
                    Some(text) => {
                        blocks::read_under(text, &format!("Claude project {project}"), &place, writer)?
                    }
                    None => writer.refuse(
                        SourcePosition { file: &place, line: None },
                        "the memory of the project is no text",
                    ),
                }
            }
        }
        if account["memory_files"].as_array().is_some_and(|files| !files.is_empty()) {
            writer.refuse(
                SourcePosition { file, line: None },
                "`memory_files` has a shape that this program does not know",
            );
        }
    }
    Ok(())
}
