//! Repairs arguments in the form in which models send them. A value that can mean only one thing by the
//! tool's schema is converted:
//!
//! | sent | schema type | converted to |
//! |---|---|---|
//! | `"5"` | a number | `5` |
//! | `"True"` | a truth value | `true` |
//! | `"xs"` | an enum with `XS` | `"XS"` |
//! | `"ops"` | a list of texts | `["ops"]` |
//! | `"[\"ops\"]"`, `"{\"id\": 1}"` | a list, an object | the list, the object |
//! | `""` | anything optional | no argument |
//!
//! An empty id is not converted but refused: without its `tx_id`, an `undo` would take back another
//! transaction. An empty field of an `update*` tool is refused too, because `""` may be meant to clear the
//! field.

use serde_json::{Map, Value};

use crate::Stop;

/// The meaning of an empty text for an optional argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    Absent,
    /// In a tool that changes fields, an empty text could mean to leave a field or to clear it.
    Ambiguous,
}

/// Converts the fields of an object to the types in its schema, as far as each conversion is unambiguous.
pub(crate) fn repair(
    fields: &mut Map<String, Value>,
    schema: &Map<String, Value>,
    empty: Empty,
) -> Result<(), Stop> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let is_empty = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    let mut absent = Vec::new();
    for (name, value) in fields.iter_mut() {
        let Some(schema) = properties.get(name) else { continue };
        if is_empty(value) {
            match empty {
                _ if is_required(name) || is_id(name) => {}
                Empty::Absent => absent.push(name.clone()),
                Empty::Ambiguous => return Err(ambiguous(name, properties)),
            }
            continue;
        }
        repair_value(value, schema)?;
    }
    absent.iter().for_each(|name| drop(fields.shift_remove(name)));
    Ok(())
}

fn repair_value(value: &mut Value, schema: &Value) -> Result<(), Stop> {
    if let Value::String(text) = value
        && let Some(converted) = convert(text, schema)
    {
        *value = converted;
    }
    match (value, schema["type"].as_str()) {
        (Value::Object(fields), Some("object")) => match schema.as_object() {
            Some(schema) => repair(fields, schema, Empty::Absent),
            None => Ok(()),
        },
        (Value::Array(items), Some("array")) => {
            items.iter_mut().try_for_each(|item| repair_value(item, &schema["items"]))
        }
        _ => Ok(()),
    }
}

/// The value that a text stands for, if the schema asks for a type that this text is not.
fn convert(text: &str, schema: &Value) -> Option<Value> {
    if let Some(values) = schema["enum"].as_array() {
        let is_it =
            |value: &&Value| value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(text.trim()));
        return values.iter().find(is_it).cloned();
    }
    let parsed = || serde_json::from_str::<Value>(text.trim()).ok();
    match schema["type"].as_str()? {
        "integer" | "number" => parsed().filter(Value::is_number),
        "boolean" => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        "object" => parsed().filter(Value::is_object),
        "array" => Some(parsed().filter(Value::is_array).unwrap_or_else(|| {
            let mut only = Value::String(text.to_owned());
            if let Some(converted) = convert(text, &schema["items"]) {
                only = converted;
            }
            Value::Array(vec![only])
        })),
        _ => None,
    }
}

/// Whether a name is that of an argument with ids: `id`, `ids`, `tx_id`, `passage_ids`, and `follows`.
fn is_id(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    matches!(last, "id" | "ids" | "follows")
}

fn ambiguous(name: &str, properties: &Map<String, Value>) -> Stop {
    let next = match properties.contains_key("clear") {
        true => format!("leave it out to keep it, or name it in `clear`: [\"{name}\"] to remove it"),
        false => "leave it out to keep it".to_owned(),
    };
    Stop::invalid(format!("`{name}`: is empty; {next}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(sent: Value, taken: Value) {
        let schema = json!({
            "type": "object",
            "properties": {
                "tx_id": {"type": "integer"},
                "limit": {"type": "integer"},
                "confidence": {"type": "number"},
                "dry_run": {"type": "boolean"},
                "size": {"type": "string", "enum": ["XS", "keep_both"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "sizes": {"type": "array", "items": {"type": "string", "enum": ["XS", "S"]}},
                "numbers": {"type": "array", "items": {"type": "integer"}},
                "topic": {"type": "string"},
                "name": {"type": "string"},
                "options": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "top": {"type": "integer"}, "mode": {"type": "string"},
                }},
            },
            "required": ["name"],
        });
        let (Value::Object(mut sent), Value::Object(schema)) = (sent, schema) else { panic!("two objects") };
        repair(&mut sent, &schema, Empty::Absent).unwrap_or_else(|stop| panic!("{}", stop.message));
        assert_eq!(Value::Object(sent), taken);
    }

    #[test]
    fn what_can_only_mean_one_thing_is_taken() {
        check(json!({"limit": "5"}), json!({"limit": 5}));
        check(json!({"limit": " 5.0 "}), json!({"limit": 5.0}));
        check(json!({"confidence": "0.5"}), json!({"confidence": 0.5}));
        check(json!({"dry_run": "True"}), json!({"dry_run": true}));
        check(json!({"size": "xs"}), json!({"size": "XS"}));
        check(json!({"size": "KEEP_BOTH"}), json!({"size": "keep_both"}));
        check(json!({"tags": "ops"}), json!({"tags": ["ops"]}));
        check(json!({"tags": "[\"a\", \"b\"]"}), json!({"tags": ["a", "b"]}));
        check(json!({"sizes": "xs"}), json!({"sizes": ["XS"]}));
        check(json!({"sizes": ["xs", "s"]}), json!({"sizes": ["XS", "S"]}));
        check(json!({"numbers": "7"}), json!({"numbers": [7]}));
        check(
            json!({"options": "{\"name\": \"a\", \"top\": \"3\"}"}),
            json!({"options": {"name": "a", "top": 3}}),
        );
        check(json!({"topic": "", "limit": " ", "tags": ""}), json!({}));
        check(json!({"options": {"name": "a", "mode": ""}}), json!({"options": {"name": "a"}}));
    }

    #[test]
    fn what_could_mean_something_else_stays() {
        for sent in [
            json!({"limit": "five"}),
            json!({"limit": "[5]"}),
            json!({"dry_run": "yes"}),
            json!({"size": "medium"}),
            json!({"topic": "5"}),
            json!({"topic": "[1]"}),
            json!({"options": "[1]"}),
            json!({"tx_id": ""}),
            json!({"name": ""}),
            json!({"unknown": ""}),
        ] {
            check(sent.clone(), sent);
        }
    }
}
