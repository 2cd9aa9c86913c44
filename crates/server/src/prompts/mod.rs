//! Prompts: prepared instructions that a person picks and a model follows. A prompt itself writes nothing to
//! the store.

mod correct_stale_facts;
mod ingest_memory;
mod retrieve_context;

use kenning_engine::Engine;
use kenning_model::fold;
use kenning_presentation::text;
use kenning_tools::{Caller, Stop, scope_name, sight};
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptResult, JsonObject, Prompt,
    PromptArgument, PromptMessage, Reference, Role,
};
use serde_json::Value;

use crate::resources;

/// A prompt as the list shows it, and the function that makes its message.
struct PromptRow {
    name: &'static str,
    about: &'static str,
    /// The one required argument: its name and a description. All prompts also take a scope.
    argument: (&'static str, &'static str),
    /// `value` is fenced already; `scope` is a line for the end of the instructions, or empty.
    message: fn(value: &str, scope: &str) -> String,
}

const ROWS: [PromptRow; 3] = [ingest_memory::ROW, retrieve_context::ROW, correct_stale_facts::ROW];

const SCOPE: &str = "scope";

/// The longest value of an argument. The value becomes part of the message, which must not be longer than any
/// other reply.
const VALUE_BYTES_MAX: usize = 32 * 1024;

pub(crate) fn list() -> Vec<Prompt> {
    ROWS.iter()
        .map(|row| {
            let (name, about) = row.argument;
            let arguments = vec![
                PromptArgument::new(name).with_description(about).with_required(true),
                PromptArgument::new(SCOPE)
                    .with_description("Where to look and write: namespace:scope")
                    .with_required(false),
            ];
            Prompt::new(row.name, Some(row.about), Some(arguments))
        })
        .collect()
}

pub(crate) fn get(name: &str, arguments: JsonObject) -> Result<GetPromptResult, ErrorData> {
    let row = find(name)?;
    let (required, _) = row.argument;
    if let Some(unknown) = arguments.keys().find(|key| *key != required && *key != SCOPE) {
        let unknown = text::quote(unknown, 64);
        return Err(invalid(format!(
            "`{name}` has no argument {unknown}; it takes `{required}` and `{SCOPE}`"
        )));
    }
    let value = argument(&arguments, required)?
        .ok_or_else(|| invalid(format!("`{name}` needs the argument `{required}`")))?;
    let scope = match argument(&arguments, SCOPE)? {
        // `update` is left out because it would move an entry to this scope.
        Some(scope) if scope_name(scope).is_err() => {
            return Err(invalid(format!(
                "`{SCOPE}` must be `namespace:scope`, not {}",
                text::quote(scope, 64)
            )));
        }
        Some(scope) => format!(
            "\nPass `scope` {} to `get_task_context`, `query`, `query_graph`, `store` and `relate`; not to `update`, which would move the entry.",
            text::fence_inline(scope)
        ),
        None => String::new(),
    };
    if value.len() > VALUE_BYTES_MAX {
        return Err(invalid(format!(
            "`{required}` has {} bytes, more than the cap of {VALUE_BYTES_MAX}; give it in parts",
            value.len()
        )));
    }
    let message = (row.message)(&text::fence(value), &scope);
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, message)]).with_description(row.about))
}

/// Offers stored topics and known scopes, for prompts and for the parameters of resources.
pub(crate) fn complete(
    engine: &Engine,
    caller: &Caller,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    match &request.r#ref {
        Reference::Prompt(prompt) => drop(find(&prompt.name)?),
        Reference::Resource(template) => {
            let known = resources::templates().iter().any(|row| row.uri_template == template.uri);
            if !known && resources::Uri::parse(&template.uri).is_err() {
                return Err(resources::not_found(&template.uri));
            }
        }
        _ => return Err(invalid("completion knows prompts and resources".to_owned())),
    }
    let typed = fold(&request.argument.value);
    let values = match request.argument.name.as_str() {
        "topic" => {
            // The value that was typed for the other argument decides in which scope topics are looked up.
            let given = request.context.as_ref().and_then(|context| context.arguments.as_ref()?.get(SCOPE));
            topics(engine, caller, given.map_or(&caller.scope, |scope| scope), &typed).map_err(failed)?
        }
        SCOPE => scopes(engine, caller, &typed).map_err(failed)?,
        _ => Vec::new(),
    };
    completed(values)
}

fn topics(engine: &Engine, caller: &Caller, scope: &str, typed: &str) -> Result<Vec<String>, Stop> {
    let snapshot = engine.snapshot(&caller.principal)?;
    // An unknown scope has no topics to offer. It is not an error, since a person may still be typing its
    // name.
    let Ok(sight) = scope_name(scope).and_then(|name| sight(&snapshot, &name)) else {
        return Ok(Vec::new());
    };
    // One more than is shown, to know whether there are more.
    let topics = snapshot.topics(&sight, typed, engine.now(), CompletionInfo::MAX_VALUES + 1)?;
    Ok(topics.iter().map(|topic| text::clean(topic)).collect())
}

fn scopes(engine: &Engine, caller: &Caller, typed: &str) -> Result<Vec<String>, Stop> {
    let tree = engine.snapshot(&caller.principal)?.tree()?;
    let names = tree.names().0.into_values().map(|name| name.to_string());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(typed)).collect();
    names.sort();
    Ok(names)
}

fn failed(stop: Stop) -> ErrorData {
    ErrorData::internal_error(stop.message, None)
}

fn completed(mut values: Vec<String>) -> Result<CompleteResult, ErrorData> {
    let more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    let mut info = CompletionInfo::new(values).map_err(invalid)?;
    info.has_more = Some(more);
    Ok(CompleteResult::new(info))
}

fn find(name: &str) -> Result<&'static PromptRow, ErrorData> {
    ROWS.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let name = text::quote(name, 64);
        invalid(format!("there is no prompt {name}; there are {}", names.join(", ")))
    })
}

fn argument<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<&'a str>, ErrorData> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(value)) if value.trim().is_empty() => Ok(None),
        Some(Value::String(value)) => Ok(Some(value)),
        Some(_) => Err(invalid(format!("`{name}` must be a text"))),
    }
}

fn invalid(message: String) -> ErrorData {
    ErrorData::invalid_params(message, None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_prompt_repeats_is_bounded() {
        let get = |text: String, scope: String| {
            let arguments = json!({"text": text, "scope": scope});
            super::get("ingest_memory", arguments.as_object().cloned().expect("an object"))
        };
        let scope = || "acme:web".to_owned();
        let whole = get("x".repeat(VALUE_BYTES_MAX), scope()).expect("it fits");
        assert!(json!(whole).to_string().len() < VALUE_BYTES_MAX + 8 * 1024);
        let refused = get("x".repeat(VALUE_BYTES_MAX + 1), scope()).expect_err("it is too long");
        assert!(refused.message.contains("more than the cap of 32768"), "{}", refused.message);
        let refused = get("x".to_owned(), "prose ".repeat(50_000)).expect_err("it is no name");
        assert!(refused.message.len() < 200, "{}", refused.message);
    }
}
