//! The tools that ask the client for something before they answer, as clients since 2026-07-28 are asked: with
//! a result that the client answers by calling again.

use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::Suite;

const PREFIX: &str = "test_input_required_result_";

/// What is asked for, by the key of the answer.
type Asked = (String, InputRequest);

pub(crate) fn is_asking(tool: &str) -> bool {
    tool.starts_with(PREFIX) || tool == "test_streaming_elicitation"
}

/// The names of these tools; none of them has arguments.
pub(crate) fn names() -> Vec<String> {
    let own = [
        "elicitation",
        "sampling",
        "list_roots",
        "request_state",
        "tampered_state",
        "multiple_inputs",
        "multi_round",
        "capabilities",
    ];
    let own = own.into_iter().map(|name| format!("{PREFIX}{name}"));
    own.chain(["test_streaming_elicitation".to_owned()]).collect()
}

pub(crate) fn form(key: &str, field: &str) -> Asked {
    let schema = json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
    let requested_schema = serde_json::from_value(schema).expect("a form with one field");
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("Please enter: {field}"),
        requested_schema,
    };
    (key.to_owned(), InputRequest::Elicitation(ElicitRequest::new(params)))
}

/// rmcp marks sampling and roots as deprecated, which they are since 2026-07-28; the suite asks for both.
#[expect(deprecated)]
fn sampling(key: &str) -> Asked {
    let message = SamplingMessage::user_text("What is the capital of France?");
    let params = CreateMessageRequestParams::new(vec![message], 100);
    (key.to_owned(), InputRequest::CreateMessage(CreateMessageRequest::new(params)))
}

#[expect(deprecated)]
fn roots(key: &str) -> Asked {
    (key.to_owned(), InputRequest::ListRoots(ListRootsRequest::default()))
}

pub(crate) fn asked(questions: impl IntoIterator<Item = Asked>) -> InputRequiredResult {
    InputRequiredResult::from_input_requests(questions.into_iter().collect())
}

/// The answer under this key, unless it is not even an object; then the question is put again.
pub(crate) fn answer(answers: Option<&InputResponses>, key: &str) -> Option<Value> {
    answers.and_then(|answers| answers.get(key)).filter(|answer| answer.is_object()).cloned()
}

pub(crate) fn call(
    suite: &Suite,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let answers = request.input_responses.as_ref();
    let done = |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
    let answer = |key| answer(answers, key);
    // The state comes back through the client, so it counts only if its seal is whole.
    let round: Option<u8> = match &request.request_state {
        Some(state) => {
            let refused = |_| ErrorData::invalid_params("`requestState` was not given out here", None);
            Some(suite.codec.open_json(state).map_err(refused)?)
        }
        None => None,
    };
    let asked_in_round = |round: u8, questions: Vec<Asked>| {
        let failed = |error: RequestStateError| ErrorData::internal_error(error.to_string(), None);
        let state = suite.codec.seal_json(&round).map_err(failed)?;
        Ok(InputRequiredResult::new(Some(questions.into_iter().collect()), Some(state)).into())
    };
    match request.name.trim_start_matches(PREFIX) {
        "test_streaming_elicitation" => Ok(asked([form("value", "value")]).into()),
        "elicitation" => match answer("user_name") {
            Some(answer) => done(format!("Hello, {}!", answer["content"]["name"])),
            None => Ok(asked([form("user_name", "name")]).into()),
        },
        "sampling" => match answer("capital_question") {
            Some(answer) => done(format!("The model says: {}", answer["content"])),
            None => Ok(asked([sampling("capital_question")]).into()),
        },
        "list_roots" => match answer("client_roots") {
            Some(answer) => done(format!("The roots are: {}", answer["roots"])),
            None => Ok(asked([roots("client_roots")]).into()),
        },
        "request_state" | "tampered_state" => match (round, answer("confirm")) {
            (Some(_), Some(_)) => done("state-ok".to_owned()),
            _ => asked_in_round(1, vec![form("confirm", "ok")]),
        },
        "multiple_inputs" => match (round, answer("user_name"), answer("greeting"), answer("client_roots")) {
            (Some(_), Some(_), Some(_), Some(_)) => done("All three answers have come.".to_owned()),
            _ => asked_in_round(
                1,
                vec![form("user_name", "name"), sampling("greeting"), roots("client_roots")],
            ),
        },
        "multi_round" => match round {
            None => asked_in_round(1, vec![form("step1", "name")]),
            Some(1) => asked_in_round(2, vec![form("step2", "color")]),
            Some(_) => done("Both answers have come.".to_owned()),
        },
        "capabilities" if answers.is_some() => done("The answers have come.".to_owned()),
        "capabilities" => {
            let client = context.client_capabilities().unwrap_or_default();
            let mut questions = Vec::new();
            questions.extend(client.elicitation.map(|_| form("user_name", "name")));
            questions.extend(client.sampling.map(|_| sampling("greeting")));
            questions.extend(client.roots.map(|_| roots("client_roots")));
            match questions.is_empty() {
                true => done("This client can't be asked for anything.".to_owned()),
                false => Ok(asked(questions).into()),
            }
        }
        _ => Err(ErrorData::invalid_params("there is no such tool", None)),
    }
}
