//! The other tools of the suite: each kind of content, progress, log messages, requests to the client, and
//! changes of lists.

use std::time::Duration;

use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};

use crate::{ChangedList, Suite, inputs, resources};

/// A sound file without a single sample.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
/// The time between two notifications, so that the suite sees them one after the other.
const STEP: Duration = Duration::from_millis(20);

/// rmcp marks log messages and sampling as deprecated, which they are since 2026-07-28; the suite checks both.
#[expect(deprecated)]
const INFO: LoggingLevel = LoggingLevel::Info;

/// The tools without arguments, and what they show.
const PLAIN: [(&str, &str); 15] = [
    ("test_simple_text", "A text"),
    ("test_image_content", "A picture"),
    ("test_audio_content", "A sound"),
    ("test_embedded_resource", "An embedded resource"),
    ("test_multiple_content_types", "A text, a picture and a resource"),
    ("test_error_handling", "An error"),
    ("test_tool_with_progress", "Three notifications of progress"),
    ("test_tool_with_logging", "Three log messages"),
    ("test_logging_tool", "A log message, for a request that asks for it"),
    ("test_elicitation_sep1034_defaults", "A form with default values"),
    ("test_elicitation_sep1330_enums", "A form with every kind of choice"),
    ("test_missing_capability", "A call that needs a client with sampling"),
    ("test_trigger_tool_change", "A change of the list of tools"),
    ("test_trigger_prompt_change", "A change of the list of prompts"),
    ("test_reconnection", "An answer after a moment"),
];

pub(crate) fn list() -> Vec<Tool> {
    let tool = |name: String, about: &'static str, schema: Value| match schema {
        Value::Object(schema) => Tool::new(name, about, schema),
        _ => Tool::new(name, about, Map::new()),
    };
    let nothing = || json!({"type": "object", "properties": {}});
    let text =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let header = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    });
    // The suite calls the first tool without arguments to see whether a header is understood.
    let mut listed = Vec::from(PLAIN.map(|(name, about)| tool(name.into(), about, nothing())));
    listed.extend([
        tool("test_sampling".into(), "A request to the client's model", text("prompt")),
        tool("test_elicitation".into(), "A form for the client", text("message")),
        tool("test_custom_header".into(), "An argument that a header repeats", header),
        tool(
            "json_schema_2020_12_tool".into(),
            "A schema with the words of JSON Schema 2020-12",
            full_schema(),
        ),
    ]);
    listed.extend(inputs::names().into_iter().map(|name| tool(name, "A question to the client", nothing())));
    listed
}

fn full_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

pub(crate) async fn call(
    suite: &Suite,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let blocks = match request.name.as_ref() {
        "test_simple_text" => vec![ContentBlock::text("This is a simple text response for testing.")],
        "test_image_content" => vec![picture()],
        "test_audio_content" => vec![ContentBlock::Audio(AudioContent::new(WAV, "audio/wav"))],
        "test_embedded_resource" => vec![embedded("test://embedded-resource")],
        "test_multiple_content_types" => {
            let text = ContentBlock::text("Multiple content types test:");
            vec![text, picture(), embedded("test://mixed-content-resource")]
        }
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            return Ok(CallToolResult::error(vec![ContentBlock::text(text)]));
        }
        "test_tool_with_progress" => progress(context).await,
        "test_tool_with_logging" => {
            for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                log(context, INFO, text).await;
                tokio::time::sleep(STEP).await;
            }
            vec![ContentBlock::text("Three messages were logged.")]
        }
        "test_logging_tool" => {
            if let Some(level) = context.meta.log_level() {
                log(context, level, "This request asked for log messages.").await;
            }
            vec![ContentBlock::text("The call is over.")]
        }
        "test_sampling" => sampled(context, &argument("prompt")).await?,
        "test_elicitation" => {
            let text = json!({"type": "string"});
            let schema = json!({
                "type": "object",
                "properties": {"username": text, "email": text},
                "required": ["username", "email"],
            });
            filled_in(context, &argument("message"), schema).await?
        }
        "test_elicitation_sep1034_defaults" => {
            filled_in(context, "Please check the values", defaults()).await?
        }
        "test_elicitation_sep1330_enums" => filled_in(context, "Please choose", choices()).await?,
        "test_missing_capability" => match context.client_capabilities().unwrap_or_default().sampling {
            Some(_) => vec![ContentBlock::text("The client has a model.")],
            None => return Err(needs_sampling()),
        },
        "test_trigger_tool_change" => changed(suite, ChangedList::Tools),
        "test_trigger_prompt_change" => changed(suite, ChangedList::Prompts),
        "test_reconnection" => {
            tokio::time::sleep(STEP).await;
            vec![ContentBlock::text("The answer came after a moment.")]
        }
        "test_custom_header" => vec![ContentBlock::text(argument("region"))],
        "json_schema_2020_12_tool" => vec![ContentBlock::text(argument("name"))],
        _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
    };
    Ok(CallToolResult::success(blocks))
}

fn picture() -> ContentBlock {
    ContentBlock::image(resources::PNG, "image/png")
}

fn embedded(uri: &str) -> ContentBlock {
    ContentBlock::resource(resources::text(uri, "This is an embedded resource content."))
}

fn changed(suite: &Suite, list: ChangedList) -> Vec<ContentBlock> {
    // It is no error if nobody listens.
    let _ = suite.changed.send(list);
    vec![ContentBlock::text("Whoever listens was told of the change.")]
}

#[expect(deprecated)]
fn needs_sampling() -> ErrorData {
    ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_sampling().build())
}

async fn progress(context: &RequestContext<RoleServer>) -> Vec<ContentBlock> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let notice = ProgressNotificationParam::new(token, done).with_total(100.0);
            // An error means that the client is gone, and with it whoever waits for the answer.
            let _ = context.peer.notify_progress(notice).await;
        }
        tokio::time::sleep(STEP).await;
    }
    vec![ContentBlock::text("The work is done.")]
}

#[expect(deprecated)]
async fn log(context: &RequestContext<RoleServer>, level: LoggingLevel, text: &str) {
    let message = LoggingMessageNotificationParam::new(level, json!(text)).with_logger("conformance");
    // An error means that the client is gone.
    let _ = context.peer.notify_logging_message(message).await;
}

#[expect(deprecated)]
async fn sampled(context: &RequestContext<RoleServer>, prompt: &str) -> Result<Vec<ContentBlock>, ErrorData> {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    let result = context.peer.create_message(params).await.map_err(not_answered)?;
    let text = result.message.content.first().and_then(|block| block.as_text());
    let text = text.map(|block| block.text.clone()).unwrap_or_default();
    Ok(vec![ContentBlock::text(format!("LLM response: {text}"))])
}

async fn filled_in(
    context: &RequestContext<RoleServer>,
    message: &str,
    schema: Value,
) -> Result<Vec<ContentBlock>, ErrorData> {
    let requested_schema = serde_json::from_value(schema)
        .map_err(|error| ErrorData::internal_error(format!("a form can't be made: {error}"), None))?;
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema,
    };
    let result = context.peer.create_elicitation(form).await.map_err(not_answered)?;
    let text = json!({"action": result.action, "content": result.content});
    Ok(vec![ContentBlock::text(format!("User response: {text}"))])
}

fn not_answered(error: rmcp::ServiceError) -> ErrorData {
    ErrorData::internal_error(format!("the client has not answered: {error}"), None)
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

fn choices() -> Value {
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    let plain = json!(["option1", "option2", "option3"]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }})
}
