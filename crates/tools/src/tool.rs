//! What a tool is, and the table of all of them.

use std::sync::OnceLock;

use kenning_engine::Engine;
use kenning_model::{Scope, ScopeId};
use kenning_presentation::text::{clean, cut};
use kenning_presentation::{Block, Reply};
use kenning_storage::{Committed, Keyed, Request, Write};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Code, Stop, arguments, memory, schema};

/// What the longest prefix of a host leaves of its 64 characters.
pub const TOOL_NAME_BYTES_MAX: usize = 40;

pub trait Tool {
    const NAME: &'static str;
    /// What the model reads: when to use it and when not, what comes back, what to call next, defaults and caps.
    const ABOUT: &'static str;
    const EFFECT: Effect;
    type Input: DeserializeOwned + JsonSchema;
    type Output: Serialize + JsonSchema;

    fn call(ctx: &Context<'_>, input: Self::Input) -> Result<Self::Output, Stop>;

    /// The same facts for who reads only text.
    fn text(output: &Self::Output) -> String;

    /// What concerns the answer and is no part of it.
    fn meta(_output: &Self::Output) -> Map<String, Value> {
        Map::new()
    }

    /// The address under which a client may keep the reply, for tools that embed it as a resource.
    fn resource(_output: &Self::Output) -> Option<String> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Writes,
    /// Writes, and a second call with the same arguments changes nothing more.
    WritesOnce,
    /// Takes something away, undoably.
    Removes,
}

impl Effect {
    pub fn writes(self) -> bool {
        self != Effect::Reads
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Memory,
}

impl Family {
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Memory => "memory",
        }
    }
}

/// The names of the families, for `--toolsets`.
pub fn families() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = definitions().iter().map(|tool| tool.family.as_str()).collect();
    names.dedup();
    names.into_iter()
}

/// Who calls: decides the actor in the log, what is "own", and the scope when a call names none.
#[derive(Clone, Debug)]
pub struct Caller {
    pub actor: String,
    pub origin: String,
    pub scope: String,
}

const ACTOR_BYTES_MAX: usize = 64;

impl Caller {
    /// Without a name of their own, callers are `local`.
    pub fn new(actor: Option<&str>, origin: String, scope: String) -> Caller {
        let actor = clean(actor.unwrap_or_default()).replace(['\n', '\t'], " ");
        let actor = match actor.trim() {
            "" => "local".to_owned(),
            actor => cut(actor, ACTOR_BYTES_MAX),
        };
        Caller { actor, origin, scope }
    }
}

pub struct Context<'a> {
    pub engine: &'a Engine,
    pub caller: &'a Caller,
    pub(crate) tool: &'static str,
    /// The idempotency key of this call and the digest of its other arguments.
    pub(crate) key: Option<(String, String)>,
}

impl Context<'_> {
    /// The scope that a call names, or the caller's.
    pub fn scope(&self, named: Option<&str>) -> Result<ScopeId, Stop> {
        resolve_scope(named.unwrap_or(&self.caller.scope))
    }

    /// What a scope can see, nearest first.
    pub fn closure(&self, scope: ScopeId) -> Vec<ScopeId> {
        vec![scope]
    }

    /// Commits, and makes the reply from what was committed. With an idempotency key that was seen before, the
    /// first reply comes back and nothing is written.
    pub(crate) fn commit<O: Serialize + DeserializeOwned>(
        &self,
        write: Write,
        output: impl Fn(&Committed) -> O + Clone + Send + 'static,
    ) -> Result<O, Stop> {
        let keyed = self.key.clone().map(|(key, digest)| {
            let output = output.clone();
            let reply = move |committed: &Committed| {
                serde_json::to_string(&output(committed)).expect("replies are plain data")
            };
            Keyed { key, digest, reply: Box::new(reply) }
        });
        let committed = self.engine.commit(Request {
            actor: self.caller.actor.clone(),
            origin: self.caller.origin.clone(),
            tool: self.tool.to_owned(),
            write,
            keyed,
        })?;
        match &committed.again {
            Some(reply) => serde_json::from_str(reply)
                .map_err(|_| Stop::new(Code::InternalError, "the remembered reply can't be read")),
            None => Ok(output(&committed)),
        }
    }
}

/// The scopes there are.
pub const SCOPES: [&str; 1] = ["global:default"];

pub fn resolve_scope(name: &str) -> Result<ScopeId, Stop> {
    let shown = kenning_presentation::text::quote(name, 130);
    let scope = Scope::parse(name).ok_or_else(|| {
        Stop::invalid(format!("`scope`: {shown} is not of the form `namespace:scope` in [a-z0-9-]"))
    })?;
    match scope == Scope::global_default() {
        true => Ok(ScopeId::GLOBAL_DEFAULT),
        false => Err(Stop::new(
            Code::NotFound,
            format!("there is no scope {shown}; there is only `global:default`"),
        )),
    }
}

/// The name people read for a scope's id.
pub(crate) fn scope_name(scope: ScopeId) -> String {
    debug_assert_eq!(scope, ScopeId::GLOBAL_DEFAULT);
    Scope::global_default().to_string()
}

type Run = fn(&Context<'_>, Map<String, Value>, &[&str]) -> Result<Reply, Stop>;

/// A row of the table of tools.
pub(crate) struct Row {
    name: &'static str,
    about: &'static str,
    effect: Effect,
    input: fn(bool) -> Map<String, Value>,
    output: fn() -> Map<String, Value>,
    run: Run,
}

pub(crate) fn row<T: Tool>() -> Row {
    Row {
        name: T::NAME,
        about: T::ABOUT,
        effect: T::EFFECT,
        input: schema::input::<T::Input>,
        output: schema::output::<T::Output>,
        run: run::<T>,
    }
}

fn run<T: Tool>(ctx: &Context<'_>, arguments: Map<String, Value>, known: &[&str]) -> Result<Reply, Stop> {
    let output = T::call(ctx, arguments::parse(arguments, known)?)?;
    let structured = serde_json::to_value(&output)
        .map_err(|_| Stop::new(Code::InternalError, "the reply can't be written as JSON"))?;
    let mut blocks = vec![Block::Text(T::text(&output))];
    if let Some(uri) = T::resource(&output) {
        blocks.push(Block::Resource { uri, json: structured.to_string() });
    }
    Ok(Reply { blocks, structured, meta: T::meta(&output), is_error: false })
}

/// A tool as the edges list it.
pub struct Definition {
    pub name: &'static str,
    pub about: &'static str,
    pub effect: Effect,
    pub family: Family,
    pub input_schema: Map<String, Value>,
    pub output_schema: Map<String, Value>,
    pub(crate) run: Run,
}

impl Definition {
    pub(crate) fn argument_names(&self) -> Vec<&str> {
        let properties = self.input_schema.get("properties").and_then(Value::as_object);
        properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
    }
}

/// Every tool, in the order in which they are listed.
pub fn definitions() -> &'static [Definition] {
    static DEFINITIONS: OnceLock<Vec<Definition>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let families = [(Family::Memory, memory::tools())];
        families
            .into_iter()
            .flat_map(|(family, rows)| rows.into_iter().map(move |row| (family, row)))
            .map(|(family, row)| Definition {
                name: row.name,
                about: row.about,
                effect: row.effect,
                family,
                input_schema: (row.input)(row.effect.writes()),
                output_schema: (row.output)(),
                run: row.run,
            })
            .collect()
    })
}
