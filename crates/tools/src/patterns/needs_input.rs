//! `needsInput:v1`: the missing arguments, the reason, and the values to choose from. It is not an error.

use kenning_presentation::card::{unmarked, value};
use kenning_presentation::{Answer, Ask, Body, Field, Format};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{AnswerOrRequest, Named};
use crate::sets::Attached;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NeedsInput {
    #[schemars(extend("const" = "needsInput:v1"))]
    kind: &'static str,
    #[schemars(extend("const" = "elicitation"))]
    r#type: &'static str,
    message: String,
    needs_input: Needed,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<Choice>,
    /// What was found so far, as far as it is the best of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    best_matches: Vec<Named>,
    /// All that was found.
    #[serde(flatten)]
    set: Option<Attached>,
}

#[derive(Serialize, JsonSchema)]
struct Needed {
    fields: Vec<&'static str>,
    reason: String,
    /// Values by the field that they are for.
    #[schemars(extend("additionalProperties" = {"type": "array", "items": {"type": "string"}}))]
    suggestions: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
struct Choice {
    label: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    description: Option<String>,
    field: &'static str,
}

/// A field that needs a value, and the values to choose from.
pub(super) struct Needs {
    pub(super) field: &'static str,
    pub(super) about: &'static str,
    /// The possible values, each with its meaning.
    pub(super) values: Vec<(String, Option<String>)>,
    pub(super) is_required: bool,
    /// Whether only the listed values are valid.
    pub(super) is_closed: bool,
}

/// A reply that needs input, with its forms for people and for models.
pub(super) struct InputRequest {
    reply: NeedsInput,
    heading: &'static str,
    hint: Option<&'static str>,
    ask: Option<Ask>,
}

impl InputRequest {
    pub(super) fn new(
        heading: &'static str,
        message: String,
        reason: String,
        needs: Vec<Needs>,
    ) -> InputRequest {
        let choices = |needs: &Needs| needs.values.iter().map(|(value, _)| value.clone()).collect::<Vec<_>>();
        let told = |(value, meaning): &(String, Option<String>)| match meaning {
            Some(meaning) => format!("{value}: {meaning}"),
            None => value.clone(),
        };
        let field = |needs: &Needs| {
            let values: Vec<String> = needs.values.iter().map(told).collect();
            let such_as = if needs.is_closed { "" } else { "for example " };
            Field {
                name: needs.field,
                about: if values.is_empty() {
                    needs.about.to_owned()
                } else {
                    format!("{} {such_as}{}", needs.about, values.join("; "))
                },
                choices: if needs.is_closed { choices(needs) } else { Vec::new() },
                is_required: needs.is_required,
            }
        };
        let ask = Ask { message: message.clone(), fields: needs.iter().map(field).collect() };
        let suggestions = needs.iter().map(|needs| (needs.field.to_owned(), json!(choices(needs)))).collect();
        // A value without a meaning is only an example, so it is not an option.
        let meant = |needs: &&Needs| needs.values.iter().any(|(_, meaning)| meaning.is_some());
        let options = needs.iter().filter(meant).flat_map(|needs| {
            needs.values.iter().map(|(value, description)| Choice {
                label: value.clone(),
                value: value.clone(),
                description: description.clone(),
                field: needs.field,
            })
        });
        let reply = NeedsInput {
            kind: "needsInput:v1",
            r#type: "elicitation",
            options: options.collect(),
            needs_input: Needed {
                fields: needs.iter().map(|needs| needs.field).collect(),
                reason,
                suggestions,
            },
            best_matches: Vec::new(),
            set: None,
            message,
        };
        InputRequest { reply, heading, hint: None, ask: Some(ask) }
    }

    /// Adds the best matches, for callers that do not want to choose.
    pub(super) fn with_best(mut self, best_matches: Vec<Named>, set: Option<Attached>) -> InputRequest {
        self.reply = NeedsInput { best_matches, set, ..self.reply };
        self
    }

    /// Does not ask people: a model that mistyped an argument can correct it by itself.
    pub(super) fn for_the_model(self) -> InputRequest {
        InputRequest { ask: None, ..self }
    }

    /// Does not ask anyone, because there is nothing to choose from; the reply gives a hint instead.
    pub(super) fn in_vain(self, hint: &'static str) -> InputRequest {
        InputRequest { ask: None, hint: Some(hint), ..self }
    }

    pub(super) fn into_answer<T>(self, format: Format) -> Answer<AnswerOrRequest<T>> {
        let hint = self.hint.map_or_else(|| self.reply.next_step(), str::to_owned);
        let markdown = vec![self.reply.markdown(self.heading)];
        let set = self.reply.set.as_ref().map(Attached::reference);
        let body = Body::Formatted { format, markdown, hint: Some(hint) };
        Answer { ask: self.ask, set, ..Answer::new(AnswerOrRequest::NeedsInput(Box::new(self.reply)), body) }
    }
}

impl NeedsInput {
    fn markdown(&self, heading: &str) -> String {
        let mut text = format!("## {heading}\n\n{}", unmarked(&self.message));
        for (field, values) in &self.needs_input.suggestions {
            let values: Vec<String> =
                values.as_array().into_iter().flatten().filter_map(Value::as_str).map(value).collect();
            if !values.is_empty() {
                text.push_str(&format!("\n\n- {field}: {}", values.join(", ")));
            }
        }
        if !self.best_matches.is_empty() {
            let lines: Vec<String> = self.best_matches.iter().map(Named::line).collect();
            text.push_str(&format!("\n\nThe best so far:\n{}", lines.join("\n")));
        }
        text
    }

    fn next_step(&self) -> String {
        let fields = self.needs_input.fields.join("` or `");
        if self.best_matches.is_empty() {
            format!("Call again with `{fields}`.")
        } else {
            format!("Call again with `{fields}`, or `get_pattern` with the id of one of the best.")
        }
    }
}
