//! Asking people for values that a reply needs: with a result that the client answers by a second call
//! (2026-07-28), or with a request to the client (earlier revisions). A client that can't be asked gets the
//! reply unchanged; its text says which values are needed.

use std::time::Duration;

use kenning_engine::Engine;
use kenning_model::Principal;
use kenning_presentation::Ask;
use kenning_tools::Definition;
use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};

/// The key of the one question of a call, under which the client sends the answer.
const KEY: &str = "kenning";
/// How long people may think about the question.
const ANSWER_MAX: Duration = Duration::from_secs(300);
const STATE_TTL: Duration = Duration::from_secs(600);

/// How the client of a request can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskMethod {
    /// With a result, which the client answers with a second call.
    Result,
    /// With a request to the client.
    Request,
    Not,
}

pub(crate) fn ask_method(context: &RequestContext<RoleServer>) -> AskMethod {
    let declared = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that names no elicitation mode can show a form.
    let has_form = declared.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
    match (has_form, context.meta.protocol_version().is_some()) {
        (false, _) => AskMethod::Not,
        (true, true) => AskMethod::Result,
        (true, false) => AskMethod::Request,
    }
}

/// The caller and the call that the sealed state of a question is bound to, so that nobody can answer a
/// question that was put to another caller.
pub(crate) struct Bound(Vec<u8>);

impl Bound {
    pub(crate) fn new(caller: &Principal, tool: &Definition, arguments: &Map<String, Value>) -> Bound {
        let sorted: std::collections::BTreeMap<_, _> = arguments.iter().collect();
        Bound(json!(["tools/call", caller.subject, caller.actor, tool.name, sorted]).to_string().into_bytes())
    }
}

/// The answer that came back with a second call.
pub(crate) enum Answer {
    /// The requested fields that were filled in.
    Given(Map<String, Value>),
    /// The people who were asked declined to answer.
    Declined,
    /// The second call has no answer to the question, so the question is put again.
    Missing,
}

/// The question as a result, or `None` if the state can't be sealed.
pub(crate) fn question(engine: &Engine, ask: &Ask, bound: &Bound) -> Option<InputRequiredResult> {
    let names: Vec<&str> = ask.fields.iter().map(|field| field.name).collect();
    let sealed = SealOptions::new().associated_data(&bound.0).ttl(STATE_TTL);
    let state = codec(engine)?.seal_with(json!(names).to_string().as_bytes(), &sealed);
    let request = InputRequest::Elicitation(ElicitRequest::new(form(ask)?));
    Some(InputRequiredResult::new(Some(InputRequests::from([(KEY.to_owned(), request)])), Some(state)))
}

/// The answer that a second call brings. It is an error if its state was not issued for this call, or is too
/// old.
pub(crate) fn answer(
    engine: &Engine,
    state: &str,
    responses: Option<InputResponses>,
    bound: &Bound,
) -> Result<Answer, ErrorData> {
    let refused = || {
        let message =
            "`requestState` is not one that was given out for this call, or it is too old; call without it";
        ErrorData::invalid_params(message, None)
    };
    let opened = codec(engine).and_then(|codec| codec.open_with(state, &bound.0).ok()).ok_or_else(refused)?;
    let asked: Vec<String> = serde_json::from_slice(&opened).map_err(|_| refused())?;
    let told = responses.and_then(|mut responses| responses.remove(KEY));
    let Some(result) = told.and_then(|told| serde_json::from_value::<ElicitResult>(told).ok()) else {
        return Ok(Answer::Missing);
    };
    Ok(given(result, &asked))
}

/// Asks with a request and waits for the answer; `None` if none comes.
pub(crate) async fn ask(context: &RequestContext<RoleServer>, ask: &Ask) -> Option<Answer> {
    let asked: Vec<String> = ask.fields.iter().map(|field| field.name.to_owned()).collect();
    let request = context.peer.create_elicitation_with_timeout(form(ask)?, Some(ANSWER_MAX));
    tokio::select! {
        // The client has cancelled the call, so nobody waits for the reply any more.
        () = context.ct.cancelled() => None,
        result = request => match result {
            Ok(result) => Some(given(result, &asked)),
            Err(error) => {
                tracing::debug!("the client could not ask: {error}");
                None
            }
        }
    }
}

fn given(result: ElicitResult, asked: &[String]) -> Answer {
    match (result.action, result.content) {
        (ElicitationAction::Accept, Some(Value::Object(mut content))) => {
            // A form may send fields that were not asked for.
            content.retain(|name, _| asked.contains(name));
            Answer::Given(content)
        }
        (ElicitationAction::Accept, _) => Answer::Given(Map::new()),
        _ => Answer::Declined,
    }
}

fn form(ask: &Ask) -> Option<ElicitRequestParams> {
    let mut properties = Map::new();
    for field in &ask.fields {
        let mut schema = json!({"type": "string", "description": field.about});
        if !field.choices.is_empty() {
            schema["enum"] = json!(field.choices);
        }
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<&str> =
        ask.fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let Value::Object(schema) = schema else { return None };
    let requested_schema = ElicitationSchema::from_json_schema(schema)
        .inspect_err(|error| tracing::warn!("a form can't be made: {error}"))
        .ok()?;
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: ask.message.clone(),
        requested_schema,
    })
}

fn codec(engine: &Engine) -> Option<RequestStateCodec> {
    RequestStateCodec::try_new(engine.secret_for("request state").ok()?).ok()
}
