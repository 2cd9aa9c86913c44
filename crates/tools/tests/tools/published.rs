//! The published texts about the tools: kept in files, compared on every run, rewritten by `UPDATE_EXPECT=1`.

use std::path::Path;

use kenning_tools::{Code, Definition, Effect, Family, TOOL_NAME_BYTES_MAX, definitions};
use serde_json::{Value, json};

const ABOUT_BYTES_MAX: usize = 600;
/// The bound for the list of all tools, counting four bytes as a token.
const LIST_TOKENS_MAX: usize = 10_000;
/// The bound for the tools that are listed by default: memory and knowledge.
const DEFAULT_TOKENS_MAX: usize = 4_500;

#[test]
fn schemas_are_the_published_ones() {
    let mut published: Vec<String> = Vec::new();
    for tool in definitions() {
        let schema = json!({"input": tool.published_schema(), "output": tool.output_schema});
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).expect("plain data"));
        let file = format!("{}.json", tool.name);
        expect_file(&Path::new("schemas").join(&file), &text);
        published.push(file);
    }
    let mut files: Vec<String> = std::fs::read_dir("schemas")
        .expect("the schemas")
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    published.sort();
    assert_eq!(files, published, "every schema belongs to a tool");
}

#[test]
fn input_schemas_are_portable() {
    for tool in definitions() {
        let root = &tool.input_schema;
        assert_eq!(root["type"], "object", "{}", tool.name);
        for word in ["oneOf", "anyOf", "allOf"] {
            assert!(!root.contains_key(word), "{}: some hosts refuse `{word}` at the root", tool.name);
        }
        let text = serde_json::to_string(root).expect("plain data");
        for word in ["null", "uint", "\"$ref\"", "\"$schema\"", "\"title\":"] {
            assert!(!text.contains(word), "{}: {word} in {text}", tool.name);
        }
    }
}

/// A schema and all schemas inside it.
fn schemas(schema: &Value) -> Vec<&Value> {
    let below = schema["properties"].as_object().into_iter().flat_map(|fields| fields.values());
    let below = below.chain(schema.get("items")).chain(schema["anyOf"].as_array().into_iter().flatten());
    [schema].into_iter().chain(below.flat_map(schemas)).collect()
}

fn listed() -> impl Iterator<Item = (&'static str, Value)> {
    definitions().iter().map(|tool| (tool.name, Value::Object((*tool.listed_schema).clone())))
}

#[test]
fn what_is_left_out_of_the_list_still_holds() {
    for tool in definitions() {
        let text = serde_json::to_string(&*tool.listed_schema).expect("plain data");
        for word in ["additionalProperties", "maxLength", "idempotency_key"] {
            assert!(!text.contains(word), "{}: {word}", tool.name);
        }
        assert_eq!(tool.input_schema["additionalProperties"], false);
        let has_key = tool.input_schema["properties"].get("idempotency_key").is_some();
        assert_eq!(has_key, tool.effect.writes(), "{}", tool.name);
        assert!(!tool.title().contains(['_', '.']) && tool.title().starts_with(char::is_uppercase));
    }
}

/// The listed schemas only use fields that `google.genai.types.Schema` has; it raises an error on any other.
#[test]
fn listed_schemas_fit_gemini() {
    const KEYWORDS: [&str; 16] = [
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "pattern",
        "anyOf",
        "default",
        "items",
        "minimum",
        "maximum",
    ];
    for (name, root) in listed() {
        for schema in schemas(&root) {
            for keyword in schema.as_object().expect("a schema is an object").keys() {
                assert!(KEYWORDS.contains(&keyword.as_str()), "{name}: {keyword} in {schema}");
            }
            assert!(schema["type"].is_string(), "{name}: a type is one name: {schema}");
            let is_text = schema["enum"].as_array().is_none_or(|values| values.iter().all(Value::is_string));
            assert!(is_text, "{name}: {schema}");
            for required in strings(&schema["required"]) {
                assert!(schema["properties"][required].is_object(), "{name}: {required}");
            }
        }
    }
}

/// The listed schemas meet the rules of the Messages API: names of tools and of arguments, an object without
/// alternatives at the root, a valid schema.
#[test]
fn listed_schemas_fit_anthropic() {
    let is_name = |name: &str, max: usize| {
        (1..=max).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    for (name, root) in listed() {
        assert!(is_name(&name.replace('.', "_"), 64), "{name}");
        assert_eq!(root["type"], "object", "{name}");
        for word in ["oneOf", "anyOf", "allOf"] {
            assert!(root.get(word).is_none(), "{name}: {word}");
        }
        for schema in schemas(&root) {
            let arguments = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
            arguments.for_each(|argument| assert!(is_name(argument, 64), "{name}: {argument}"));
        }
        jsonschema::validator_for(&root).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Makes a schema strict in the way of the SDKs: every object is closed, every field is required, and a field
/// that was optional may be null.
fn strict(schema: &Value) -> Value {
    let mut made = schema.clone();
    if let Some(items) = schema.get("items") {
        made["items"] = strict(items);
    }
    if let Some(fields) = schema["properties"].as_object() {
        let required = strings(&schema["required"]);
        for (name, field) in fields {
            let mut field = strict(field);
            if !required.contains(&name.as_str()) {
                field["type"] = json!([field["type"], "null"]);
                if let Some(Value::Array(values)) = field.get_mut("enum") {
                    values.push(Value::Null);
                }
            }
            made["properties"][name] = field;
        }
        made["required"] = fields.keys().map(String::as_str).collect();
        made["additionalProperties"] = json!(false);
    }
    made
}

#[test]
fn listed_schemas_can_be_made_strict_for_openai() {
    const KEYWORDS: [&str; 14] = [
        "type",
        "description",
        "enum",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "minimum",
        "maximum",
        "pattern",
        "format",
        "minItems",
        "maxItems",
    ];
    for (name, root) in listed() {
        let strict = strict(&root);
        for schema in schemas(&strict) {
            for keyword in schema.as_object().expect("a schema is an object").keys() {
                assert!(KEYWORDS.contains(&keyword.as_str()), "{name}: {keyword} in {schema}");
            }
            let is_object = schema["type"] == "object" || schema["type"] == json!(["object", "null"]);
            assert_eq!(schema["properties"].is_object(), is_object, "{name}: an open object: {schema}");
        }
        jsonschema::validator_for(&strict).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn names_and_descriptions_keep_their_bounds() {
    for tool in definitions() {
        let portable = tool.name.replace('.', "_");
        assert!(portable.len() <= TOOL_NAME_BYTES_MAX);
        assert!(portable.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
        assert!(tool.about.len() <= ABOUT_BYTES_MAX, "{}: {} bytes", tool.name, tool.about.len());
        assert!(!tool.about.contains("  "), "{}: two blanks", tool.name);
        for part in ["Use ", "Do not use ", "Returns "] {
            assert!(tool.about.contains(part), "{} does not say `{part}`", tool.name);
        }
    }
}

#[test]
fn the_list_costs_what_it_may() {
    let tokens = |wanted: fn(&Definition) -> bool| {
        let sent = |tool: &Definition| {
            json!({"name": tool.name, "description": tool.about, "inputSchema": *tool.listed_schema})
                .to_string()
        };
        let bytes: usize =
            definitions().iter().filter(|tool| wanted(tool)).map(|tool| sent(tool).len()).sum();
        bytes / 4
    };
    let default = tokens(|tool| matches!(tool.family, Family::Memory | Family::Knowledge));
    eprintln!("the default tool list costs {default} tokens");
    assert!(default <= DEFAULT_TOKENS_MAX, "{default} tokens");
    let all = tokens(|_| true);
    eprintln!("the whole tool list costs {all} tokens");
    assert!(all <= LIST_TOKENS_MAX, "{all} tokens");
}

#[test]
fn documentation_is_written_from_the_code() {
    expect_file(Path::new("../../docs/tools.md"), &tools_page());
    expect_file(Path::new("../../docs/errors.md"), &errors_page());
}

fn tools_page() -> String {
    let mut page = "# Tools\n\nWritten from the code by a test. Every writing tool also takes an `idempotency_key`: \
        the same key with the same arguments gives the first reply again, for seven days and across restarts.\n"
        .to_owned();
    for tool in definitions() {
        let effect = match tool.effect {
            Effect::Reads => "reads",
            Effect::Writes => "writes",
            Effect::WritesOnce => "writes, once for the same arguments",
            Effect::Removes => "removes, undoably",
        };
        page.push_str(&format!(
            "\n## {}\n\n*{}, {effect}*\n\n{}\n\n",
            tool.name,
            tool.family.as_str(),
            tool.about
        ));
        page.push_str("| argument | type | |\n|---|---|---|\n");
        let required: Vec<&str> = tool.input_schema.get("required").map(strings).unwrap_or_default();
        for (name, schema) in tool.input_schema["properties"].as_object().expect("properties") {
            let needed = if required.contains(&name.as_str()) { " (required)" } else { "" };
            let about = schema["description"].as_str().unwrap_or_default();
            page.push_str(&format!("| `{name}`{needed} | {} | {about} |\n", kind(schema)));
        }
        let reply = &tool.output_schema["oneOf"][0];
        page.push_str(&format!("\nReply: {}\n", fields(reply)));
    }
    page
}

/// The fields of a reply, or the pattern of its keys.
fn fields(reply: &Value) -> String {
    let Some(properties) = reply["properties"].as_object() else {
        let patterns = reply["patternProperties"].as_object().expect("a reply has fields");
        let keys: Vec<String> = patterns.keys().map(|pattern| format!("`{pattern}`")).collect();
        return format!("an object with keys {}", keys.join(", "));
    };
    let required = strings(&reply["required"]);
    let field = |name: &String| match required.contains(&name.as_str()) {
        true => format!("`{name}`"),
        false => format!("`{name}`?"),
    };
    properties.keys().map(field).collect::<Vec<_>>().join(", ")
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        return values.join(" \\| ");
    }
    let kind = schema["type"].as_str().unwrap_or("any");
    match (kind, &schema["maxLength"], &schema["minimum"], &schema["maximum"]) {
        ("string", Value::Number(max), _, _) => format!("text, at most {max} bytes"),
        ("string", ..) if schema["format"] == "date-time" => "moment, RFC 3339".to_owned(),
        ("array", ..) => format!("list of {}", kind_of_items(schema)),
        (_, _, Value::Number(min), Value::Number(max)) => format!("{kind}, {min} to {max}"),
        _ => kind.to_owned(),
    }
}

fn kind_of_items(schema: &Value) -> String {
    let items = kind(&schema["items"]);
    match schema["maxItems"].as_u64() {
        Some(max) => format!("at most {max} of: {items}"),
        None => items,
    }
}

fn errors_page() -> String {
    let mut page = "# Errors\n\nWritten from the code by a test. An error is a result with `isError: true`, in both channels: \
        `{\"error\": {\"code\", \"message\", \"retryable\", \"details\"}}` and one line of text. A failed write has \
        `details.outcome`: `not_applied` or `unknown`. The `kb` and `graph` tools spell some codes otherwise; those for patterns reply \
        `{\"kind\": \"toolError:v1\", \"code\", \"message\", \"retryable\", \"details\"}` with a code of their own, and the one below in \
        `details.code`. What to do next stands in the text after the code.\n\n| code | kb and graph | patterns | next | meaning |\n|---|---|---|---|---|\n"
        .to_owned();
    for code in Code::ALL {
        let retry = code.next_step();
        let spelt = [code.as_str(), code.in_documents().as_str(), code.in_patterns()];
        page.push_str(&format!("| `{}` | {retry} | {} |\n", spelt.join("` | `"), code.about()));
    }
    page
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(crate) fn expect_file(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        std::fs::write(path, text).expect("the file can be rewritten");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == text, "{} is stale; run with UPDATE_EXPECT=1 and read the difference", path.display());
}
