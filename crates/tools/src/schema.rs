//! JSON Schemas in the form that hosts accept: without references, without formats that validators warn
//! about, without null for optional arguments, and with an object at the root.

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{Family, patterns};

/// The version of the replies of kb and graph tools.
const DOCUMENTS_VERSION: u32 = 1;

/// The schema of the arguments. Writing tools also take an idempotency key, which `dispatch` handles for all
/// of them.
pub(crate) fn input<T: JsonSchema>(writes: bool) -> Map<String, Value> {
    let mut schema = generate::<T>(Contract::Deserialize);
    schema.shift_remove("description");
    schema.entry("properties").or_insert_with(|| json!({}));
    if writes && let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert(
            crate::dispatch::KEY.to_owned(),
            json!({"type": "string", "maxLength": crate::arguments::NAME_BYTES_MAX}),
        );
    }
    // Nested objects refuse unknown fields too, but stating that at the root is enough, since a model reads
    // every byte.
    schema.values_mut().for_each(drop_closed);
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

fn drop_closed(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.shift_remove("additionalProperties");
            object.values_mut().for_each(drop_closed);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_closed),
        _ => {}
    }
}

/// An input schema in the form that is listed to clients. The parts that are left out still apply: unknown
/// arguments and long texts are refused with a message that says so. They are left out because Gemini's SDK
/// refuses the whole list over one `additionalProperties`, and because models do not set the idempotency key
/// and would read it and the caps with every request.
pub(crate) fn listed(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut listed = schema.clone();
    listed.shift_remove("additionalProperties");
    if let Some(Value::Object(properties)) = listed.get_mut("properties") {
        properties.shift_remove(crate::dispatch::KEY);
        properties.values_mut().for_each(drop_lengths);
    }
    listed
}

fn drop_lengths(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for bound in ["maxLength", "minItems", "maxItems", "minimum", "maximum"] {
                if object.get(bound).is_some_and(Value::is_number) {
                    object.shift_remove(bound);
                }
            }
            object.values_mut().for_each(drop_lengths);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_lengths),
        _ => {}
    }
}

/// An input schema in the form that is published for validators: an optional argument may be null, which
/// means that it is absent. Hosts get the schema without null, because some refuse a type with two kinds.
pub(crate) fn with_null(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            if let Value::Object(inner) = property {
                *inner = with_null(inner);
                if !required.iter().any(|required| required == name) {
                    allow_null(inner);
                }
            }
        }
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        *items = with_null(items);
    }
    schema
}

fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(kind)) = schema.get("type").cloned() {
        schema.insert("type".to_owned(), json!([kind, "null"]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.push(json!({"type": "null"}));
    }
}

/// The schema of the reply: the tool's own output, which may be of several kinds, or the error that every
/// tool may return.
pub(crate) fn output<T: JsonSchema>(family: Family) -> Map<String, Value> {
    let mut schema = Map::new();
    if matches!(family, Family::Kb | Family::Graph | Family::Legacy) {
        // A version only ever gets additional fields.
        schema.insert("$comment".to_owned(), json!(format!("version {DOCUMENTS_VERSION}")));
    }
    schema.insert("type".to_owned(), json!("object"));
    let mut success = generate::<T>(Contract::Serialize);
    let mut branches = match success.shift_remove("anyOf") {
        Some(Value::Array(kinds)) => kinds,
        _ => vec![Value::Object(success)],
    };
    branches.push(match family {
        Family::Patterns => patterns::tool_error::schema(),
        _ => error(),
    });
    schema.insert("oneOf".to_owned(), Value::Array(branches));
    schema
}

fn error() -> Value {
    json!({
        "type": "object",
        "properties": {"error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "retryable": {"type": "boolean"},
                "details": {"type": "object"},
            },
            "required": ["code", "message", "retryable", "details"],
            "additionalProperties": false,
        }},
        "required": ["error"],
        "additionalProperties": false,
    })
}

fn generate<T: JsonSchema>(contract: Contract) -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract.clone();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema, matches!(contract, Contract::Deserialize));
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn tidy(schema: &mut Value, input: bool) {
    match schema {
        Value::Object(object) => {
            // A property may also be named `title`; then its value is an object.
            if object.get("title").is_some_and(Value::is_string) {
                object.shift_remove("title");
            }
            // AJV prints warnings about formats such as `uint64` on the user's terminal.
            if object.get("format").and_then(Value::as_str).is_some_and(|format| format != "date-time") {
                object.shift_remove("format");
            }
            match object.get("type").cloned() {
                Some(Value::Array(kinds)) if input => {
                    if let Some(kind) = kinds.into_iter().find(|kind| kind != "null") {
                        object.insert("type".to_owned(), kind);
                    }
                }
                Some(Value::Array(kinds)) => {
                    object.shift_remove("type");
                    let branches: Vec<Value> = kinds.into_iter().map(|kind| json!({"type": kind})).collect();
                    object.insert("anyOf".to_owned(), Value::Array(branches));
                }
                _ => {}
            }
            // The schema of an `Option` of an enum lists null among its values.
            if let (true, Some(Value::Array(values))) = (input, object.get_mut("enum")) {
                values.retain(|value| !value.is_null());
            }
            // The schema of an `Option` of a type with its own schema: null is dropped, and the other branch
            // takes the place of both.
            if input && let Some(Value::Array(branches)) = object.get("anyOf").cloned() {
                let mut rest: Vec<Value> =
                    branches.into_iter().filter(|branch| branch != &json!({"type": "null"})).collect();
                if let (1, Some(Value::Object(only))) = (rest.len(), rest.pop()) {
                    object.shift_remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            // A reply has only the fields in its schema.
            if !input && object.contains_key("properties") {
                object.shift_remove("unevaluatedProperties");
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(|value| tidy(value, input));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| tidy(value, input)),
        _ => {}
    }
}
