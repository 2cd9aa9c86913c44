//! Edits YAML by lines. No crate keeps the parts of a file that it does not understand, so only one simple
//! form is edited: a name at the margin with an indented block of names below it. Everything else is refused.

use serde_json::{Map, Value};

use super::edit::{Piece, Refusal};
use super::toml::newline_of;

pub fn value(text: &str) -> Result<Value, Refusal> {
    if text.lines().all(is_blank) {
        return Ok(Value::Object(Map::new()));
    }
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| Refusal(format!("it is not YAML: {error}")))?;
    match value {
        Value::Object(map) => Ok(Value::Object(map)),
        _ => Err(Refusal("it is YAML, but not a mapping".to_owned())),
    }
}

pub fn apply(text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
    let file = value(text)?;
    let mut text = text.to_owned();
    for piece in pieces.iter().filter(|piece| !piece.is_in(&file)) {
        let (above, name, value) = entry(piece)?;
        let newline = newline_of(&text);
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        if let Some(last) = lines.last_mut()
            && !last.ends_with('\n')
        {
            last.push_str(newline);
        }
        match Block::find(&lines, above)? {
            Some(block) => {
                let (at, indent) = match block.inner(&lines, name) {
                    // Replacing the lines of our entry would lose the names that somebody added to it.
                    Some(_)
                        if file[above][name].as_object().is_some_and(|there| !is_subset(there, value)) =>
                    {
                        return Err(unsure());
                    }
                    Some(ours) => (drain(&mut lines, ours), block.indent),
                    None => (block.end, block.indent),
                };
                lines.splice(at..at, yaml_lines(name, value, indent, newline));
            }
            None if file.get(above).is_none() => {
                lines.push(format!("{above}:{newline}"));
                lines.extend(yaml_lines(name, value, 2, newline));
            }
            None => return Err(unsure()),
        }
        text = lines.concat();
    }
    Ok(text)
}

pub fn strip(text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for piece in pieces {
        let (above, name, _) = entry(piece)?;
        let Some(block) = Block::find(&lines, above)? else { return Err(unsure()) };
        let Some(ours) = block.inner(&lines, name) else { return Err(unsure()) };
        let is_alone = ours == (block.start + 1..block.end);
        drain(&mut lines, ours);
        if is_alone {
            lines.remove(block.start);
        }
    }
    Ok(lines.concat())
}

fn drain(lines: &mut Vec<String>, range: std::ops::Range<usize>) -> usize {
    let start = range.start;
    lines.drain(range);
    start
}

fn is_subset(there: &Map<String, Value>, ours: &Map<String, Value>) -> bool {
    there.keys().all(|name| ours.contains_key(name))
}

/// The names and the value of an entry. Goose is the only host with YAML, and its entries have two names:
/// `extensions` and ours.
fn entry(piece: &Piece) -> Result<(&'static str, &'static str, &Map<String, Value>), Refusal> {
    match piece {
        Piece::Entry { path, value } if path.len() == 2 => Ok((path[0], path[1], value)),
        _ => Err(unsure()),
    }
}

/// The lines of a name at the margin, and of the block below it.
struct Block {
    start: usize,
    end: usize,
    indent: usize,
}

impl Block {
    fn find(lines: &[String], name: &str) -> Result<Option<Block>, Refusal> {
        let is_head = |line: &String| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        let Some(start) = lines.iter().position(is_head) else { return Ok(None) };
        let value = lines[start][name.len() + 1..].trim();
        if !value.is_empty() && !value.starts_with('#') {
            return Err(unsure());
        }
        let mut end = start + 1;
        for (at, line) in lines.iter().enumerate().skip(start + 1) {
            match is_blank(line) {
                true => {}
                false if indent(line) == 0 => break,
                false => end = at + 1,
            }
        }
        let first = lines[start + 1..end].iter().find(|line| !is_blank(line));
        Ok(Some(Block { start, end, indent: first.map_or(2, |line| indent(line)) }))
    }

    /// The lines of a name in the block.
    fn inner(&self, lines: &[String], name: &str) -> Option<std::ops::Range<usize>> {
        let is_head = |line: &String| {
            indent(line) == self.indent && line[self.indent..].trim_end().strip_suffix(':') == Some(name)
        };
        let start = (self.start + 1..self.end).find(|at| is_head(&lines[*at]))?;
        let next = (start + 1..self.end)
            .find(|at| indent(&lines[*at]) <= self.indent && !lines[*at].trim().is_empty())
            .unwrap_or(self.end);
        // Empty lines before the next name do not belong to this one.
        let end =
            (start + 1..next).rev().find(|at| !lines[*at].trim().is_empty()).map_or(start + 1, |at| at + 1);
        Some(start..end)
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn yaml_lines(name: &str, value: &Map<String, Value>, indent: usize, newline: &str) -> Vec<String> {
    let outer = " ".repeat(indent);
    let inner = " ".repeat(indent * 2);
    let mut lines = vec![format!("{outer}{name}:{newline}")];
    for (name, value) in value {
        match value {
            Value::Array(list) => {
                lines.push(format!("{inner}{name}:{newline}"));
                lines.extend(list.iter().map(|element| format!("{inner}- {}{newline}", scalar(element))));
            }
            value => lines.push(format!("{inner}{name}: {}{newline}", scalar(value))),
        }
    }
    lines
}

/// A value as YAML: plain words without quotes, everything else as JSON, which is valid YAML.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text)
            if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
                && !matches!(
                    text.as_str(),
                    "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
                ) =>
        {
            text.clone()
        }
        value => value.to_string(),
    }
}

fn unsure() -> Refusal {
    Refusal("it is written in a way that can't be edited safely".to_owned())
}
