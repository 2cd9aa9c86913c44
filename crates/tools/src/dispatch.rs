//! The one way in: every call of every edge passes here.

use std::panic::{AssertUnwindSafe, catch_unwind};

use data_encoding::HEXLOWER;
use kenning_engine::Engine;
use kenning_presentation::{Format, Reply};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::arguments::NAME_BYTES_MAX;
use crate::{Caller, Code, Context, Definition, Stop, definitions, lenient};

/// The argument that every writing tool takes besides its own.
pub const KEY: &str = "idempotency_key";

/// The argument that says where a call looks or writes.
const SCOPE: &str = "scope";

/// The argument that goes on with a list.
const CURSOR: &str = "cursor";

/// The argument that says how a reply is dressed.
const FORMAT: &str = "format";

/// What the server was started to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

/// The tool of this name; `kb.search` and `kb_search` are one.
pub fn find(name: &str) -> Option<&'static Definition> {
    definitions().iter().find(|tool| tool.name == name || tool.name.replace('.', "_") == name)
}

/// Runs a tool. Whatever happens inside, there is a reply.
pub fn dispatch(
    engine: &Engine,
    caller: &Caller,
    access: Access,
    tool: &'static Definition,
    arguments: Map<String, Value>,
) -> Reply {
    call(Call { engine, caller, access, tool, has_answered: false }, arguments)
}

/// Runs a tool again after people were asked for what its first reply needed. Their answer has arguments of the tool.
pub fn dispatch_answered(
    engine: &Engine,
    caller: &Caller,
    access: Access,
    tool: &'static Definition,
    mut arguments: Map<String, Value>,
    answer: Map<String, Value>,
) -> Reply {
    // An empty field of a form is none.
    arguments.extend(answer.into_iter().filter(|(_, value)| value.as_str() != Some("")));
    call(Call { engine, caller, access, tool, has_answered: true }, arguments)
}

/// The format that a call asks for, also where its other arguments are wrong.
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
    // Nobody knows how far a write came, so it is not made again by itself.
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
    lenient::settle(&mut arguments, &tool.input_schema, tool.empty())?;
    let key = if tool.effect.writes() { arguments.remove(KEY) } else { None };
    let key = match key {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) if !key.trim().is_empty() && key.len() <= NAME_BYTES_MAX => {
            // What names no scope goes to the caller's, so it is another call from elsewhere.
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

/// Two calls are the same when tool and arguments are, whatever their order and whether nulls are written out.
fn digest(tool: &str, scope: Option<&str>, arguments: &Map<String, Value>) -> String {
    let set: std::collections::BTreeMap<_, _> =
        arguments.iter().filter(|(_, value)| !value.is_null()).collect();
    let canonical = serde_json::to_string(&set).unwrap_or_default();
    HEXLOWER.encode(&Sha256::digest(format!("{tool} {}\n{canonical}", scope.unwrap_or_default())))
}
