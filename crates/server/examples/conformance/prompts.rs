//! The prompts that the suite gets.

use rmcp::ErrorData;
use rmcp::model::*;

use crate::{inputs, resources};

pub(crate) fn list() -> Vec<Prompt> {
    let argument = |name| PromptArgument::new(name).with_required(true);
    let prompt = |name, about, arguments| Prompt::new(name, Some(about), arguments);
    vec![
        prompt("test_simple_prompt", "A prompt without arguments", None),
        prompt(
            "test_prompt_with_arguments",
            "A prompt with two arguments",
            Some(vec![argument("arg1"), argument("arg2")]),
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            "A prompt with a resource in it",
            Some(vec![argument("resourceUri")]),
        ),
        prompt("test_prompt_with_image", "A prompt with a picture in it", None),
        prompt("test_input_required_result_prompt", "A prompt that asks for a value first", None),
    ]
}

pub(crate) fn get(request: GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)).and_then(|value| value.as_str());
        value
            .map(str::to_owned)
            .ok_or_else(|| ErrorData::invalid_params(format!("`{name}` is missing"), None))
    };
    let user = |text: &str| PromptMessage::new_text(Role::User, text);
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![user("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let text =
                format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1")?, argument("arg2")?);
            vec![user(&text)]
        }
        "test_prompt_with_embedded_resource" => {
            let contents =
                resources::text(&argument("resourceUri")?, "Embedded resource content for testing.");
            vec![
                PromptMessage::new(Role::User, ContentBlock::resource(contents)),
                user("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            PromptMessage::new(Role::User, ContentBlock::image(resources::PNG, "image/png")),
            user("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            match inputs::answer(request.input_responses.as_ref(), "user_context") {
                Some(answer) => vec![user(&format!("In this context: {}", answer["content"]["context"]))],
                None => return Ok(inputs::asked([inputs::form("user_context", "context")]).into()),
            }
        }
        _ => return Err(ErrorData::invalid_params("there is no such prompt", None)),
    };
    Ok(GetPromptResult::new(messages).into())
}
