//! Adds our pieces to a configuration file of a host, and removes them. Everything else in the file stays the
//! same, byte by byte. A file that can't be parsed with certainty is refused.

use serde_json::{Map, Value};

use super::{json, toml, yaml};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas, which most hosts allow.
    Json,
    Toml,
    Yaml,
}

/// A part of a host's file that belongs to Kenning.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// An object at a path of names, such as `mcpServers`, `kenning`. Names that somebody added to it are
    /// kept.
    Entry { path: Vec<&'static str>, value: Map<String, Value> },
    /// An element of the list at a path of names, such as `hooks`, `SessionStart`. It is recognised by the
    /// command that it runs.
    Hook { path: Vec<&'static str>, value: Value },
    /// A value that the file must have as well. If the name exists already, its value is kept.
    Preamble { name: &'static str, value: Value },
}

/// Why a file is not edited.
#[derive(Debug, PartialEq)]
pub struct Refusal(pub String);

impl Format {
    pub fn value(self, text: &str) -> Result<Value, Refusal> {
        match self {
            Format::Json => json::value(text),
            Format::Toml => toml::value(text),
            Format::Yaml => yaml::value(text),
        }
    }

    /// The text with our pieces in it. If they are there already, the text stays the same.
    pub fn apply(self, text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
        let (mark, text) = byte_order_mark(text);
        let before = self.value(text)?;
        let edited = match self {
            Format::Json => json::apply(text, pieces),
            Format::Toml => toml::apply(text, pieces),
            Format::Yaml => yaml::apply(text, pieces),
        }?;
        let after = self.value(&edited).map_err(|_| unsure())?;
        // The result is checked whatever the file looks like: if the edit did anything but set our pieces,
        // nothing is written.
        let is_done = pieces.iter().all(|piece| piece.is_in(&after));
        match is_done && without(before, pieces) == without(after, pieces) {
            true => Ok(format!("{mark}{edited}")),
            false => Err(unsure()),
        }
    }

    /// The text without our pieces, and without the objects and lists that became empty.
    pub fn strip(self, text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
        let (mark, text) = byte_order_mark(text);
        let before = self.value(text)?;
        if !pieces.iter().any(|piece| piece.is_anyhow_in(&before)) {
            return Ok(format!("{mark}{text}"));
        }
        let edited = match self {
            Format::Json => json::strip(text, pieces),
            Format::Toml => toml::strip(text, pieces),
            Format::Yaml => yaml::strip(text, pieces),
        }?;
        let after = self.value(&edited).map_err(|_| unsure())?;
        let is_done = !pieces.iter().any(|piece| piece.is_anyhow_in(&after));
        match is_done && without(before, pieces) == without(after, pieces) {
            true => Ok(format!("{mark}{edited}")),
            false => Err(unsure()),
        }
    }

    /// The text after our pieces were removed. `kept` is the file as it was before they were added, if that
    /// was kept. `None` means that the file is to be removed.
    pub fn removed(
        self,
        text: &str,
        pieces: &[Piece],
        kept: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        let stripped = self.strip(text, pieces)?;
        if stripped == text {
            return Ok(Some(stripped));
        }
        match kept {
            // Nothing else has changed in the meantime, so the old file is restored exactly. It may differ
            // from `stripped` in details: lists that were empty before, or a missing newline at the end.
            Some(kept) if self.is_only_difference(&stripped, pieces, kept) => Ok(Some(kept.to_owned())),
            Some(_) => Ok(Some(stripped)),
            None => {
                let nothing = Value::Object(Map::new());
                let is_empty = without(self.value(byte_order_mark(&stripped).1)?, pieces) == nothing;
                let has_comments =
                    stripped.contains("//") || stripped.contains("/*") || stripped.contains('#');
                Ok((!is_empty || has_comments).then_some(stripped))
            }
        }
    }

    fn is_only_difference(self, stripped: &str, pieces: &[Piece], kept: &str) -> bool {
        if self.strip(kept, pieces).as_deref() != Ok(kept) {
            return false;
        }
        let again = self.apply(kept, pieces).and_then(|text| self.strip(&text, pieces));
        again.as_deref() == Ok(stripped) || kept == stripped
    }
}

fn unsure() -> Refusal {
    Refusal("it is written in a way that can't be edited safely".to_owned())
}

fn byte_order_mark(text: &str) -> (&str, &str) {
    let end = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    text.split_at(end)
}

impl Piece {
    /// Whether the file has this piece with the right value.
    pub fn is_in(&self, file: &Value) -> bool {
        match self {
            Piece::Entry { path, value } => {
                let there = at(file, path).and_then(Value::as_object);
                there.is_some_and(|there| value.iter().all(|(name, value)| there.get(name) == Some(value)))
            }
            Piece::Hook { path, value } => {
                let list = at(file, path).and_then(Value::as_array);
                let ours: Vec<&Value> =
                    list.into_iter().flatten().filter(|element| has_our_hook(element)).collect();
                ours == [value]
            }
            Piece::Preamble { name, .. } => file.get(name).is_some(),
        }
    }

    /// Whether the file has this piece in any form, perhaps with an older value.
    pub fn is_anyhow_in(&self, file: &Value) -> bool {
        match self {
            Piece::Entry { path, .. } => at(file, path).is_some(),
            Piece::Hook { path, .. } => {
                at(file, path).and_then(Value::as_array).is_some_and(|list| list.iter().any(has_our_hook))
            }
            Piece::Preamble { .. } => false,
        }
    }
}

pub fn at<'a>(file: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(file, |value, name| value.get(name))
}

/// The content of a file without our pieces. Empty objects and lists on the path to a piece count as absent.
fn without(mut file: Value, pieces: &[Piece]) -> Value {
    for piece in pieces {
        match piece {
            Piece::Entry { path, .. } => remove(&mut file, path, &mut |_| true),
            Piece::Hook { path, .. } => remove(&mut file, path, &mut |list| {
                if let Value::Array(list) = list {
                    list.iter_mut().for_each(remove_our_handlers);
                    list.retain(|element| !is_our_hook(element) && !is_empty_group(element));
                }
                is_empty(list)
            }),
            Piece::Preamble { name, .. } => remove(&mut file, &[name], &mut |_| true),
        }
    }
    if file.is_null() { Value::Object(Map::new()) } else { file }
}

/// Removes the value at the path if `goes` returns true, and then every object that became empty.
fn remove(value: &mut Value, path: &[&str], goes: &mut dyn FnMut(&mut Value) -> bool) {
    let [name, rest @ ..] = path else { return };
    let Some(inner) = value.get_mut(*name) else { return };
    let is_gone = if rest.is_empty() {
        goes(inner)
    } else {
        remove(inner, rest, goes);
        is_empty(inner)
    };
    if let (true, Value::Object(map)) = (is_gone, value) {
        map.shift_remove(*name);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

fn remove_our_handlers(group: &mut Value) {
    if let Some(Value::Array(handlers)) = group.get_mut("hooks") {
        handlers.retain(|handler| !is_our_hook(handler));
    }
}

fn is_empty_group(element: &Value) -> bool {
    element.get("hooks").is_some_and(is_empty)
}

/// Whether an element is one of our handlers, or a group with one of our handlers.
pub fn has_our_hook(element: &Value) -> bool {
    let handlers = element.get("hooks").and_then(Value::as_array);
    is_our_hook(element) || handlers.is_some_and(|handlers| handlers.iter().any(is_our_hook))
}

/// Whether a handler runs `kenning hook`, from any directory.
pub fn is_our_hook(handler: &Value) -> bool {
    let text = |name: &str| handler.get(name).and_then(Value::as_str);
    let first = handler.get("args").and_then(|args| args.get(0)).and_then(Value::as_str);
    ["command", "bash", "powershell"].into_iter().filter_map(text).any(|command| {
        let (program, rest) = first_word(command);
        let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
        let is_hook = rest.split_whitespace().next().or(first) == Some("hook");
        matches!(name, "kenning" | "kenning.exe") && is_hook || is_kenning(command) && first == Some("hook")
    })
}

fn is_kenning(path: &str) -> bool {
    matches!(path.rsplit(['/', '\\']).next(), Some("kenning" | "kenning.exe"))
}

/// The program that a shell command line starts, without quotes and without PowerShell's `&`, and the rest of
/// the line.
pub fn first_word(line: &str) -> (&str, &str) {
    let line = line.trim_start().trim_start_matches("& ");
    for quote in ['"', '\''] {
        if let Some((word, rest)) = line.strip_prefix(quote).and_then(|line| line.split_once(quote)) {
            return (word, rest);
        }
    }
    line.split_once(' ').unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn our_hook_is_known_wherever_the_program_is() {
        for handler in [
            json!({"command": "kenning hook"}),
            json!({"command": "kenning", "args": ["hook"]}),
            json!({"command": "/opt/a b/kenning", "args": ["hook", "--data-dir", "/x"]}),
            json!({"command": "'/opt/a b/kenning' hook --data-dir /x"}),
            json!({"bash": "/usr/bin/kenning hook"}),
            json!({"powershell": "& \"C:\\Program Files\\kenning.exe\" hook"}),
        ] {
            assert!(is_our_hook(&handler), "{handler}");
            assert!(has_our_hook(&json!({"hooks": [{"command": "other"}, handler]})));
        }
        for handler in [
            json!({"command": "kenning serve"}),
            json!({"command": "mykenning hook"}),
            json!({"command": "echo kenning hook"}),
            json!({"command": "kenning", "args": ["serve"]}),
            json!({"type": "prompt"}),
        ] {
            assert!(!is_our_hook(&handler), "{handler}");
        }
    }
}
