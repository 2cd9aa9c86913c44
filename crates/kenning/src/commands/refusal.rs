//! Why a command ends without a result: a message for people, and the matching exit code.

use kenning_presentation::Reply;
use kenning_tools::{Code, Stop};

use super::{Outcome, Usage};

/// The request can't be fulfilled.
#[derive(Debug)]
pub struct Refused {
    pub outcome: Outcome,
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

impl From<Stop> for Refused {
    fn from(stop: Stop) -> Refused {
        Refused { outcome: outcome_of(Some(stop.code)), message: for_people(&stop.message) }
    }
}

impl Refused {
    /// The error in the reply of a tool.
    pub fn of_reply(reply: &Reply) -> Refused {
        let error = &reply.structured["error"];
        let code =
            error["code"].as_str().or(reply.structured["details"]["code"].as_str()).unwrap_or_default();
        let code = Code::ALL.into_iter().find(|known| known.as_str() == code);
        let message = match error["message"].as_str() {
            Some(message) => for_people(message),
            None => reply.text(),
        };
        Refused { outcome: outcome_of(code), message }
    }

    pub fn not_found(message: impl Into<String>) -> anyhow::Error {
        Refused { outcome: Outcome::NotFound, message: message.into() }.into()
    }
}

/// The outcome and the message of a command that has failed.
pub fn explain(error: anyhow::Error) -> (Outcome, String) {
    let error = match error.downcast::<kenning_engine::Error>() {
        Ok(error) => Refused::from(Stop::from(error)).into(),
        Err(error) => error,
    };
    let outcome = match (error.downcast_ref::<Refused>(), error.is::<Usage>()) {
        (Some(refused), _) => refused.outcome,
        (None, true) => Outcome::Usage,
        (None, false) => Outcome::Failed,
    };
    (outcome, format!("{error:#}"))
}

fn outcome_of(code: Option<Code>) -> Outcome {
    match code {
        Some(Code::InvalidArgument) => Outcome::Usage,
        Some(Code::NotFound) => Outcome::NotFound,
        Some(Code::BackendUnavailable | Code::Timeout) => Outcome::Busy,
        _ => Outcome::Failed,
    }
}

/// Rewrites a message of a tool for people. Such messages name tools, which models call. People use a command
/// where there is one, and `kenning call` otherwise.
///
/// ``make one with `create_scope` `` becomes ``make one with `kenning call create_scope` ``.
fn for_people(message: &str) -> String {
    let parts: Vec<&str> = message.split('`').collect();
    let word = |(at, part): (usize, &&str)| {
        let is_quoted = at % 2 == 1 && at + 1 < parts.len();
        command_of(part).filter(|_| is_quoted).unwrap_or_else(|| (*part).to_owned())
    };
    parts.iter().enumerate().map(word).collect::<Vec<_>>().join("`")
}

fn command_of(tool: &str) -> Option<String> {
    let command = match tool {
        "get_namespaces" => "kenning scopes",
        "history" => "kenning history",
        "undo" => "kenning undo",
        "query" => "kenning search",
        "store" => "kenning add",
        "update" => "kenning edit",
        "delete" => "kenning rm",
        "query_graph" => "kenning graph",
        _ => return kenning_tools::find(tool).map(|tool| format!("kenning call {}", tool.name)),
    };
    Some(command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_of_commands_and_not_of_tools() {
        let said = |message: &str| for_people(message);
        assert_eq!(
            said("there is no scope `history:store`; `get_namespaces` lists them, `create_scope` makes one"),
            "there is no scope `history:store`; `kenning scopes` lists them, `kenning call create_scope` makes one"
        );
        assert_eq!(
            said("`undo` 7 brings it back, in `history"),
            "`kenning undo` 7 brings it back, in `history"
        );
    }
}
