//! Edits TOML in place: only the lines of our own table are rewritten, at the positions that the parser
//! reports.

use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Document, Item, Table};

use super::edit::{Piece, Refusal};

fn parse(text: &str) -> Result<Document<&str>, Refusal> {
    Document::parse(text).map_err(|error| {
        let place = error.span().map(|span| text[..span.start].lines().count().max(1));
        let place = place.map(|line| format!(" in line {line}")).unwrap_or_default();
        Refusal(format!("it is not TOML{place}: {}", error.message()))
    })
}

pub fn value(text: &str) -> Result<Value, Refusal> {
    Ok(table_value(parse(text)?.as_table()))
}

pub fn apply(text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
    let mut text = text.to_owned();
    for (path, value) in entries(pieces) {
        text = set(&text, path, value)?;
    }
    Ok(text)
}

pub fn strip(text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
    let mut text = text.to_owned();
    for (path, _) in entries(pieces) {
        text = cut(&text, path)?;
    }
    Ok(text)
}

/// The entries among the pieces. Codex is the only host with TOML, and its hooks are in a file of their own.
fn entries(pieces: &[Piece]) -> impl Iterator<Item = (&[&'static str], &Map<String, Value>)> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Entry { path, value } => Some((path.as_slice(), value)),
        Piece::Hook { .. } | Piece::Preamble { .. } => None,
    })
}

fn set(text: &str, path: &[&str], value: &Map<String, Value>) -> Result<String, Refusal> {
    let document = parse(text)?;
    let newline = newline_of(text);
    let line = |name: &str, value: &Value| format!("{name} = {}{newline}", literal(value));
    let Some(there) = item_at(&document, path) else {
        let lines: String = value.iter().map(|(name, value)| line(name, value)).collect();
        let start = match text {
            "" => String::new(),
            text if text.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        return Ok(format!("{text}{start}[{}]{newline}{lines}", path.join(".")));
    };
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    match there {
        // Only values that differ are written, so comments and added names stay. A table of a remote server
        // has no `command`; its other names would contradict ours, so it is replaced.
        Item::Table(table) if table.contains_key("command") => {
            let header = table.span().ok_or_else(unsure)?;
            let below = line_end(text, header.end);
            for (name, value) in value {
                match table.get(name) {
                    Some(there) if item_value(there) == *value => {}
                    Some(there) => changes.push((there.span().ok_or_else(unsure)?, literal(value))),
                    None => changes.push((below..below, line(name, value))),
                }
            }
        }
        Item::Table(_) => return set(&cut(text, path)?, path, value),
        Item::Value(there) => {
            let fields: Vec<String> =
                value.iter().map(|(name, value)| format!("{name} = {}", literal(value))).collect();
            changes.push((there.span().ok_or_else(unsure)?, format!("{{ {} }}", fields.join(", "))));
        }
        Item::None | Item::ArrayOfTables(_) => return Err(unsure()),
    }
    Ok(changed(text, changes))
}

/// The text without the table and its subtables, and without the empty line before each.
fn cut(text: &str, path: &[&str]) -> Result<String, Refusal> {
    let document = parse(text)?;
    let mut ranges = Vec::new();
    match item_at(&document, path) {
        None => return Ok(text.to_owned()),
        Some(Item::Table(table)) => ranges_of(text, table, &mut ranges)?,
        Some(item) => {
            let span = item.span().ok_or_else(unsure)?;
            ranges.push(line_start(text, span.start)..line_end(text, span.end));
        }
    }
    for range in &mut ranges {
        let before = &text[..range.start];
        let shorter = before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')).unwrap_or(before);
        // The line before is empty if the text before it also ends with a newline, or if there is no text
        // before it.
        if shorter.len() < before.len() && (shorter.ends_with('\n') || shorter.is_empty()) {
            range.start = shorter.len();
        }
    }
    Ok(changed(text, ranges.into_iter().map(|range| (range, String::new())).collect()))
}

fn ranges_of(text: &str, table: &Table, ranges: &mut Vec<Range<usize>>) -> Result<(), Refusal> {
    let mut end = None;
    for (_, item) in table.iter() {
        match item {
            Item::Table(inner) => ranges_of(text, inner, ranges)?,
            Item::Value(value) => end = end.max(value.span().map(|span| span.end)),
            Item::None | Item::ArrayOfTables(_) => return Err(unsure()),
        }
    }
    if !table.is_implicit() {
        let header = table.span().ok_or_else(unsure)?;
        let end = end.unwrap_or(header.end).max(header.end);
        ranges.push(line_start(text, header.start)..line_end(text, end));
    }
    Ok(())
}

fn changed(text: &str, mut changes: Vec<(Range<usize>, String)>) -> String {
    let mut text = text.to_owned();
    // Changes are applied from the end, so that the positions of earlier changes stay valid. Of two changes
    // at one position, the later one comes after the other in the text.
    changes.reverse();
    changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, with) in changes {
        text.replace_range(range, &with);
    }
    text
}

fn unsure() -> Refusal {
    Refusal("it is written in a way that can't be edited safely".to_owned())
}

fn item_at<'a>(document: &'a Document<&str>, path: &[&str]) -> Option<&'a Item> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(document.as_table().get(first)?, |item, name| item.get(name))
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

pub fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// One of our values as TOML: a text or a list of texts. The escapes of JSON are valid in TOML.
fn literal(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}

fn table_value(table: &Table) -> Value {
    Value::Object(table.iter().map(|(name, item)| (name.to_owned(), item_value(item))).collect())
}

fn item_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_value(value),
        Item::Table(table) => table_value(table),
        Item::ArrayOfTables(tables) => tables.iter().map(table_value).collect(),
    }
}

fn value_value(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => Value::from(text.value().as_str()),
        Toml::Integer(number) => Value::from(*number.value()),
        Toml::Float(number) => Value::from(*number.value()),
        Toml::Boolean(is) => Value::from(*is.value()),
        Toml::Datetime(time) => Value::from(time.value().to_string()),
        Toml::Array(list) => list.iter().map(value_value).collect(),
        Toml::InlineTable(table) => {
            Value::Object(table.iter().map(|(name, value)| (name.to_owned(), value_value(value))).collect())
        }
    }
}
