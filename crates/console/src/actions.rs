//! The actions of people on a page. Every action is a call of a tool and so one transaction, and the next
//! page offers to undo it.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::request::{Trouble, call};
use crate::{BASE, Console, Visitor, layout, pages};

/// An entry has at most 32 KiB of text, and percent-encoding may triple the size.
const FORM_BYTES_MAX: usize = 256 * 1024;

/// A tool and its arguments.
type Call = (&'static str, Value);

pub(crate) async fn act(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Path(action): Path<String>,
    body: Bytes,
) -> Response {
    if body.len() > FORM_BYTES_MAX {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let made = tokio::task::spawn_blocking(move || done(&console, &visitor, &action, &Fields::parse(&body)));
    made.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn done(console: &Console, visitor: &Visitor, action: &str, fields: &Fields) -> Response {
    if !is_own_form(visitor, fields) {
        let text =
            "This form is not from a page of this console, or the page is too old. Open the page again.";
        return refused(StatusCode::FORBIDDEN, text);
    }
    match perform(console, visitor, action, fields) {
        Ok(tx) => {
            // Only addresses of the console are followed back.
            let back = fields.get("back").filter(|back| is_own(back)).unwrap_or(BASE);
            let (path, place) = back.split_once('#').unwrap_or((back, ""));
            let between = if path.contains('?') { '&' } else { '?' };
            let place = if place.is_empty() { String::new() } else { format!("#{place}") };
            (StatusCode::SEE_OTHER, [(header::LOCATION, format!("{path}{between}done={tx}{place}"))])
                .into_response()
        }
        Err(trouble @ Trouble::Refused { .. }) if action == "edit" => {
            pages::entry::edit_again(console, visitor, fields, &trouble)
        }
        Err(trouble) => {
            let status = match &trouble {
                Trouble::Refused { code, .. } if code == "CONFLICT" => StatusCode::CONFLICT,
                Trouble::Refused { code, .. } if code == "NOT_FOUND" => StatusCode::NOT_FOUND,
                Trouble::Refused { code, .. } if code == "PERMISSION_DENIED" || code == "READ_ONLY" => {
                    StatusCode::FORBIDDEN
                }
                Trouble::NotFound(_) => StatusCode::NOT_FOUND,
                Trouble::Refused { .. } => StatusCode::BAD_REQUEST,
                Trouble::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            refused(status, &trouble.message())
        }
    }
}

fn refused(status: StatusCode, text: &str) -> Response {
    (status, Html(layout::bare("Not done", text).into_string())).into_response()
}

/// Whether the form has the token of its visitor. The comparison always takes the same time, wherever the
/// texts differ.
fn is_own_form(visitor: &Visitor, fields: &Fields) -> bool {
    let (sent, own) = (fields.get("token").unwrap_or_default(), visitor.form_token.as_str());
    let differs = sent.bytes().zip(own.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
    !own.is_empty() && sent.len() == own.len() && differs == 0
}

/// Whether an address belongs to the console.
fn is_own(address: &str) -> bool {
    let rest = address.strip_prefix(BASE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Performs the action, and returns the number of its last transaction.
fn perform(console: &Console, visitor: &Visitor, action: &str, fields: &Fields) -> Result<u64, Trouble> {
    if action == "undo" {
        return undo(console, visitor, fields);
    }
    let (tool, arguments) = call_of(console, action, fields)?;
    write(console, visitor, tool, arguments)
}

fn write(console: &Console, visitor: &Visitor, tool: &str, arguments: Value) -> Result<u64, Trouble> {
    let Value::Object(arguments) = arguments else { return Err(unknown(tool)) };
    let reply = call(&console.engine, visitor, tool, arguments)?;
    reply["tx_id"].as_u64().ok_or_else(|| unknown(tool))
}

fn unknown(action: &str) -> Trouble {
    Trouble::NotFound(format!("There is no action `{action}`."))
}

/// Undoes transactions, the newest first, each by a transaction of its own.
fn undo(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<u64, Trouble> {
    let mut all: Vec<u64> = fields.all("tx").filter_map(|tx| tx.parse().ok()).collect();
    all.sort_unstable();
    all.dedup();
    let nothing = || Trouble::Refused {
        code: "INVALID_ARGUMENT".to_owned(),
        message: "No transaction was selected.".to_owned(),
    };
    let mut last = Err(nothing());
    let mut undone: Vec<u64> = Vec::new();
    for tx in all.into_iter().rev() {
        match write(console, visitor, "undo", json!({"tx_id": tx, "any_actor": true})) {
            Ok(by) => {
                undone.push(tx);
                last = Ok(by);
            }
            Err(trouble) if undone.is_empty() => return Err(trouble),
            Err(trouble) => {
                let undone: Vec<String> = undone.iter().map(|tx| format!("#{tx}")).collect();
                return Err(Trouble::Refused {
                    code: "CONFLICT".to_owned(),
                    message: format!(
                        "{} undone, then #{tx} was refused: {}",
                        undone.join(", "),
                        trouble.message()
                    ),
                });
            }
        }
    }
    last
}

fn call_of(console: &Console, action: &str, fields: &Fields) -> Result<Call, Trouble> {
    let id = || fields.get("id").unwrap_or_default();
    Ok(match action {
        "edit" => ("update", edit(fields)),
        "pin" => ("update", json!({"id": id(), "pinned": true})),
        "unpin" => ("update", json!({"id": id(), "clear": ["pinned"]})),
        "suppress" => ("update", json!({"id": id(), "valid_to": console.engine.now().to_string()})),
        "restore" if fields.get("status") == Some("suppressed") => {
            ("resolve_knowledge_collision", json!({"active_id": id(), "suppressed_ids": []}))
        }
        "restore" => ("update", json!({"id": id(), "clear": ["valid_to", "valid_from"]})),
        "move" => ("update", json!({"id": id(), "scope": fields.get("scope").unwrap_or_default()})),
        "delete" => ("delete", json!({"id": id()})),
        "forget-fact" => ("delete", json!({"id": id(), "entity_type": "triple"})),
        "keep" => {
            let others: Vec<&str> = fields.all("other").collect();
            ("resolve_knowledge_collision", json!({"active_id": id(), "suppressed_ids": others}))
        }
        "add" => ("store", added(fields)),
        action => return Err(unknown(action)),
    })
}

/// The tags of a form, which are separated by commas.
fn tags(fields: &Fields) -> Vec<&str> {
    let tags = fields.sent("tags").unwrap_or_default().split(',').map(str::trim);
    tags.filter(|tag| !tag.is_empty()).collect()
}

fn added(fields: &Fields) -> Value {
    let mut arguments = Map::new();
    for name in ["scope", "topic", "content"] {
        arguments.insert(name.to_owned(), json!(text(fields, name)));
    }
    arguments.insert("tags".to_owned(), json!(tags(fields)));
    if let Some(source) = fields.get("source") {
        arguments.insert("source".to_owned(), json!(source));
    }
    Value::Object(arguments)
}

/// The value of a field with plain line feeds, since browsers send line ends as two characters.
fn text(fields: &Fields, name: &str) -> String {
    fields.sent(name).unwrap_or_default().replace("\r\n", "\n")
}

fn edit(fields: &Fields) -> Value {
    let mut arguments = Map::new();
    arguments.insert("id".to_owned(), json!(fields.get("id").unwrap_or_default()));
    arguments.insert("content".to_owned(), json!(text(fields, "content")));
    let mut clear = Vec::new();
    // An empty topic field leaves the topic as it is: an entry may have no topic, but one that has a topic
    // keeps it.
    if let Some(topic) = fields.get("topic") {
        arguments.insert("topic".to_owned(), json!(topic));
    }
    for name in ["context", "source"] {
        match (fields.sent(name), fields.get(name)) {
            (None, _) => {}
            (Some(_), Some(_)) => drop(arguments.insert(name.to_owned(), json!(text(fields, name)))),
            (Some(_), None) => clear.push(name),
        }
    }
    match tags(fields) {
        tags if tags.is_empty() => clear.push("tags"),
        tags => drop(arguments.insert("tags".to_owned(), json!(tags))),
    }
    arguments.insert("clear".to_owned(), json!(clear));
    if let Some(version) = fields.number("version") {
        arguments.insert("expected_version".to_owned(), json!(version));
    }
    Value::Object(arguments)
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn only_pages_of_the_console_are_gone_back_to() {
        for address in ["/console", "/console/history?actor=a", "/console?as_of=3", "/console#x"] {
            assert!(is_own(address), "{address}");
        }
        for address in [
            "//evil.example",
            "https://evil.example",
            "/consoles",
            "/console\\..",
            "/console/a\r\nSet-Cookie: x",
            "",
        ] {
            assert!(!is_own(address), "{address}");
        }
    }
}
