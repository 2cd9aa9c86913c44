//! The single entry point for tool calls: the calls of every transport pass through `dispatch`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use data_encoding::HEXLOWER;
use kenning_engine::Engine;
use kenning_presentation::{Format, Reply};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::arguments::NAME_BYTES_MAX;
use crate::{Caller, Code, Context, Definition, Stop, definitions, lenient};

/// The argument that every writing tool takes in addition to its own.
pub const KEY: &str = "idempotency_key";

/// The argument that names the scope in which a call reads or writes.
const SCOPE: &str = "scope";

/// The argument with which a call asks for the next page of a list.
const CURSOR: &str = "cursor";

/// The argument that chooses the format of a reply.
const FORMAT: &str = "format";

/// Whether the server was started to allow writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

/// Finds a tool by its name; `kb.search` and `kb_search` are the same tool.
pub fn find(name: &str) -> Option<&'static Definition> {
    definitions().iter().find(|tool| tool.name == name || tool.name.replace('.', "_") == name)
}

/// Runs a tool. It always returns a reply, also after an error or a panic.
pub fn dispatch(
    engine: &Engine,
    caller: &Caller,
    access: Access,
    tool: &'static Definition,
    arguments: Map<String, Value>,
) -> Reply {
    call(Call { engine, caller, access, tool, has_answered: false }, arguments)
}

/// Runs a tool again after people have answered the question in its first reply. Their answer contains
/// arguments of the tool.
pub fn dispatch_answered(
    engine: &Engine,
    caller: &Caller,
    access: Access,
    tool: &'static Definition,
    mut arguments: Map<String, Value>,
    answer: Map<String, Value>,
) -> Reply {
    // An empty field of a form counts as an absent argument.
    arguments.extend(answer.into_iter().filter(|(_, value)| value.as_str() != Some("")));
    call(Call { engine, caller, access, tool, has_answered: true }, arguments)
}

/// The format that a call requests; it is read even if the other arguments are invalid.
pub fn asked_format(arguments: &Map<String, Value>) -> Format {
    arguments.get(FORMAT).and_then(Value::as_str).and_then(Format::parse).unwrap_or_default()
}

#[derive(Clone, Copy)]
struct Call<'a> {
    engine: &'a Engine,
    caller: &'a Caller,
    access: Access,
    tool: &'static Definition,
    has_answered: bool,
}

fn call(call: Call<'_>, arguments: Map<String, Value>) -> Reply {
    let Call { caller, tool, .. } = call;
    let has_cursor = arguments.get(CURSOR).is_some_and(|cursor| !cursor.is_null() && cursor != "");
    let format = asked_format(&arguments);
    let guarded = |arguments: Map<String, Value>| {
        catch_unwind(AssertUnwindSafe(|| run(call, arguments))).unwrap_or_else(|_| {
            let message = format!("`{}` has failed; Kenning's log says where", tool.name);
            Err(Stop::new(Code::InternalError, message).with("outcome", json!("unknown")))
        })
    };
    // It is not known how much of a failed write was done, so only reads are repeated automatically.
    let again = (!tool.effect.writes()).then(|| arguments.clone());
    let mut done = guarded(arguments);
    if done.as_ref().is_err_and(Stop::is_damage)
        && call.engine.mend()
        && let Some(arguments) = again
    {
        done = guarded(arguments);
    }
    let mut reply = done.unwrap_or_else(|mut stop| {
        if tool.effect.writes() && stop.details.get("outcome").is_none() {
            stop = stop.with("outcome", json!("not_applied"));
        }
        stop.reply_of(tool.family, format)
    });
    caller.usage.measure(tool.name, has_cursor, caller.has_structured, &mut reply);
    reply
}

fn run(call: Call<'_>, mut arguments: Map<String, Value>) -> Result<Reply, Stop> {
    let Call { engine, caller, access, tool, has_answered } = call;
    if tool.effect.writes() && access == Access::ReadOnly {
        return Err(Stop::new(
            Code::ReadOnly,
            format!("`{}` writes, and this server was started read-only; use a reading tool", tool.name),
        ));
    }
    let known = tool.argument_names();
    lenient::repair(&mut arguments, &tool.input_schema, tool.empty())?;
    let key = if tool.effect.writes() { arguments.remove(KEY) } else { None };
    let key = match key {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) if !key.trim().is_empty() && key.len() <= NAME_BYTES_MAX => {
            // A call that names no scope writes to the caller's scope, so the same arguments from another
            // scope are another call.
            let names_scope = arguments.get(SCOPE).is_some_and(|scope| !scope.is_null());
            let scope = (known.contains(&SCOPE) && !names_scope).then_some(caller.scope.as_str());
            Some((key, digest(tool.name, scope, &arguments)))
        }
        Some(_) => {
            let message = format!("`{KEY}` must be a text of 1 to {NAME_BYTES_MAX} bytes");
            return Err(Stop::invalid(message));
        }
    };
    let has_sets = tool.rows.is_some() && caller.sets.is_some();
    let ctx = Context {
        engine,
        caller,
        tool: tool.name,
        key,
        has_answered,
        arguments: has_sets.then(|| arguments.clone()),
        page: None,
        notes: Default::default(),
        given: Default::default(),
    };
    let named = arguments.get(SCOPE).and_then(Value::as_str).map(str::to_owned);
    let reply = (tool.run)(&ctx, arguments, &known)?;
    let scope = named.unwrap_or_else(|| caller.scope.clone());
    caller.note_given(engine, tool.name, scope, ctx.given.take());
    Ok(reply)
}

/// A digest that is equal for two calls with the same tool and arguments, whatever the order of the arguments
/// and whether or not nulls are written out.
fn digest(tool: &str, scope: Option<&str>, arguments: &Map<String, Value>) -> String {
    let set: std::collections::BTreeMap<_, _> =
        arguments.iter().filter(|(_, value)| !value.is_null()).collect();
    let canonical = serde_json::to_string(&set).unwrap_or_default();
    HEXLOWER.encode(&Sha256::digest(format!("{tool} {}\n{canonical}", scope.unwrap_or_default())))
}
