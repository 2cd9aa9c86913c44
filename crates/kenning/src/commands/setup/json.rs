//! Edits JSON with comments in place.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value};

use super::edit::{Piece, Refusal, has_our_hook, is_our_hook};

/// The syntax that hosts accept in files with comments. A more lenient parser would accept files that the
/// hosts reject.
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The text of a new file.
const NEW: &str = "{}\n";

fn parse(text: &str) -> Result<CstRootNode, Refusal> {
    let text = if text.trim().is_empty() { NEW } else { text };
    CstRootNode::parse(text, &SYNTAX).map_err(|error| Refusal(format!("it is not JSON: {error}")))
}

pub fn value(text: &str) -> Result<Value, Refusal> {
    match parse(text)?.to_serde_value() {
        Some(Value::Object(map)) => Ok(Value::Object(map)),
        _ => Err(Refusal("it is JSON, but not an object".to_owned())),
    }
}

pub fn apply(text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
    let file = value(text)?;
    let root = parse(text)?;
    let object = root.object_value().ok_or_else(no_object)?;
    for piece in pieces.iter().filter(|piece| !piece.is_in(&file)) {
        match piece {
            Piece::Entry { path, value } => set_entry(&object, path, value)?,
            Piece::Hook { path, value } => set_hook(&object, path, value)?,
            Piece::Preamble { name, value } => {
                object.insert(0, name, input(value));
            }
        }
    }
    Ok(root.to_string())
}

pub fn strip(text: &str, pieces: &[Piece]) -> Result<String, Refusal> {
    let root = parse(text)?;
    let object = root.object_value().ok_or_else(no_object)?;
    for piece in pieces {
        match piece {
            Piece::Entry { path, .. } => remove(&object, path, &|_| true),
            Piece::Hook { path, .. } => remove(&object, path, &|node| {
                let Some(list) = node.as_array() else { return false };
                remove_hooks(&list);
                list.elements().is_empty()
            }),
            Piece::Preamble { .. } => {}
        }
    }
    Ok(root.to_string())
}

fn no_object() -> Refusal {
    Refusal("it is JSON, but not an object".to_owned())
}

/// The object at the path. Missing objects are created.
fn object_at(object: &CstObject, path: &[&str]) -> Result<CstObject, Refusal> {
    let mut object = object.clone();
    for name in path {
        object = object
            .object_value_or_create(name)
            .ok_or_else(|| Refusal(format!("`{name}` in it is not an object")))?;
    }
    Ok(object)
}

fn set_entry(object: &CstObject, path: &[&str], value: &Map<String, Value>) -> Result<(), Refusal> {
    let Some((name, above)) = path.split_last() else { return Ok(()) };
    let object = object_at(object, above)?;
    let there = object.get(name);
    let inner = there.as_ref().and_then(|there| there.object_value());
    match (there, inner) {
        // Only values that differ are written, so comments and added names stay. An entry of a remote server
        // has no `command`; its other names would contradict ours, so it is replaced.
        (Some(_), Some(inner)) if inner.get("command").is_some() || inner.properties().is_empty() => {
            for (name, value) in value {
                match inner.get(name) {
                    Some(there)
                        if there.value().and_then(|node| node.to_serde_value()).as_ref() == Some(value) => {}
                    Some(there) => there.set_value(input(value)),
                    None => drop(inner.append(name, input(value))),
                }
            }
        }
        (Some(there), _) => there.set_value(input(&Value::Object(value.clone()))),
        (None, _) => drop(object.append(name, input(&Value::Object(value.clone())))),
    }
    Ok(())
}

fn set_hook(object: &CstObject, path: &[&str], value: &Value) -> Result<(), Refusal> {
    let Some((name, above)) = path.split_last() else { return Ok(()) };
    let object = object_at(object, above)?;
    let list =
        object.array_value_or_create(name).ok_or_else(|| Refusal(format!("`{name}` in it is not a list")))?;
    let is_all_ours = |node: &CstNode| {
        let Some(element) = node.to_serde_value() else { return false };
        let handlers = element.get("hooks").and_then(Value::as_array).cloned();
        is_our_hook(&element) || handlers.is_some_and(|all| !all.is_empty() && all.iter().all(is_our_hook))
    };
    // The first of our elements is replaced in its place. Further elements of ours are removed, also those in
    // a group with handlers of others.
    let first = list.elements().iter().position(is_all_ours);
    remove_hooks(&list);
    match first {
        Some(index) => list.insert(index.min(list.elements().len()), input(value)),
        None => list.append(input(value)),
    };
    Ok(())
}

fn remove_hooks(list: &CstArray) {
    list.elements().into_iter().for_each(remove_hook);
}

/// Removes our handlers from an element, and the element itself if it has no other handlers.
fn remove_hook(node: CstNode) {
    let Some(element) = node.to_serde_value() else { return };
    if !has_our_hook(&element) {
        return;
    }
    let handlers = node.as_object().and_then(|group| group.array_value("hooks"));
    let Some(handlers) = handlers else { return node.remove() };
    for handler in handlers.elements() {
        if handler.to_serde_value().as_ref().is_some_and(is_our_hook) {
            handler.remove();
        }
    }
    if handlers.elements().is_empty() {
        node.remove();
    }
}

/// Removes the property at the path if `goes` returns true, and then the objects that became empty.
fn remove(object: &CstObject, path: &[&str], goes: &dyn Fn(&CstNode) -> bool) {
    let [name, rest @ ..] = path else { return };
    let Some(property) = object.get(name) else { return };
    let Some(value) = property.value() else { return };
    let is_gone = if rest.is_empty() {
        goes(&value)
    } else {
        let Some(inner) = value.as_object() else { return };
        let was_empty = inner.properties().is_empty();
        remove(&inner, rest, goes);
        !was_empty && inner.properties().is_empty() && !inner.children().iter().any(CstNode::is_comment)
    };
    if is_gone {
        property.remove();
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
