//! The trait of tools, and the table of all tools.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use kenning_engine::{CallKind, Engine, Error, Sight, Snapshot, Ticket};
use kenning_model::{Change, EntityType, Id, Principal, ScopeId, ScopeName, TxId, is_name};
use kenning_presentation::text::{clean, cut, quote};
use kenning_presentation::{Answer, Content, Note, Profile, Reply, render};
use kenning_storage::{Committed, Keyed, Request, Write};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::arguments::Moment;
use crate::disclosure::{NamedScopes, refusal};
use crate::lenient::Empty;
use crate::project::{DefaultScope, Project, ScopeFinder};
use crate::recall::{RecallNote, Recorder};
use crate::scratch::{Scratch, ScratchOwner};
use crate::sets::{Attached, Columns, Pinned, PinnedCall, ResultSets};
use crate::usage::Usage;
use crate::{Code, Listing, Stop, arguments, compat, graph, kb, knowledge, memory, patterns, schema};

/// Hosts limit a tool's name to 64 characters, including a prefix; with the longest prefix, this many are
/// left.
pub const TOOL_NAME_BYTES_MAX: usize = 40;

pub trait Tool {
    const NAME: &'static str;
    /// The description that the model reads: when to use the tool and when not, what it returns, what to call
    /// next, defaults and caps.
    const ABOUT: &'static str;
    const EFFECT: Effect;
    /// Whether its reply has a field `note`, for remarks about the scope that was used.
    const HAS_NOTE: bool = false;
    /// Whether a call may change the set of scopes, on which the preparation of other writes depends.
    const CHANGES_SCOPES: bool = false;
    type Input: DeserializeOwned + JsonSchema;
    type Output: Serialize + JsonSchema;

    fn call(ctx: &Context<'_>, input: Self::Input) -> Result<Answer<Self::Output>, Stop>;
}

/// A tool whose reply may show a part of a list; a result set has all of it.
pub(crate) trait ListTool: Tool {
    type Row: TableRow;

    /// The rows of a result set. The call behind the set is made again to get a page of them.
    fn rows(ctx: &Context<'_>, input: Self::Input) -> Result<Vec<Self::Row>, Stop>;
}

/// A row of a result set, with all its fields.
pub(crate) trait TableRow: Serialize {
    /// The fields in the order in which tables show them; the first one identifies the row.
    const COLUMNS: Columns;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Writes,
    /// Writes; a second call with the same arguments changes nothing more.
    WritesOnce,
    /// Removes something; an undo brings it back.
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
    Knowledge,
    Patterns,
    Kb,
    Graph,
    Legacy,
}

impl Family {
    pub const ALL: [Family; 6] =
        [Family::Memory, Family::Knowledge, Family::Patterns, Family::Kb, Family::Graph, Family::Legacy];

    pub fn as_str(self) -> &'static str {
        match self {
            Family::Memory => "memory",
            Family::Knowledge => "knowledge",
            Family::Patterns => "patterns",
            Family::Kb => "kb",
            Family::Graph => "graph",
            Family::Legacy => "legacy",
        }
    }
}

/// The names of the families, for `--toolsets`.
pub fn families() -> impl Iterator<Item = &'static str> {
    Family::ALL.into_iter().map(Family::as_str)
}

/// The caller of a tool. It decides the actor in the log, which writes count as "own", and the scope of calls
/// that name none.
#[derive(Clone, Debug)]
pub struct Caller {
    pub principal: Arc<Principal>,
    pub scope: String,
    /// Whether a scope is configured; if not, `scope` is `global:default`.
    pub has_scope: bool,
    /// Whether a reply of this session has already said that no scope is configured; once is enough.
    pub told_no_scope: Arc<AtomicBool>,
    /// The error for a write that names no scope, if the project names a scope that is not followed.
    pub refusal: Option<Stop>,
    /// The project that the caller works in; it may name the scopes that are made from it.
    pub project: Arc<Project>,
    /// The scopes whose records refusals may mention, besides those that the caller's scope sees.
    pub named_scopes: Arc<NamedScopes>,
    /// Whether the history shows every scope that the principal may read, and not only what the caller's
    /// scope sees.
    pub has_whole_history: bool,
    /// Whether the graph may be used.
    pub has_graph: bool,
    /// The passages that searches found for callers, to be read piece by piece.
    pub scratch: Arc<Scratch>,
    /// The result sets behind replies; `None` if nobody could read them.
    pub sets: Option<Arc<ResultSets>>,
    pub usage: Arc<Usage>,
    /// The recall log; `None` if it is switched off.
    pub recall: Option<Arc<Recorder>>,
    /// The kinds of content blocks that the client gets.
    pub content: Content,
    /// Whether the client's protocol revision has structured content and links to resources.
    pub has_structured: bool,
    /// The place of this call in the order in which the client sent its calls, if several may run at once.
    pub turn: Option<Arc<Ticket>>,
}

const ACTOR_BYTES_MAX: usize = 64;

impl Caller {
    /// A name for the session, under which its passages and notes are kept. The origin can't be derived from
    /// it, and it gives access to nothing.
    pub fn session(&self) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(format!("session {}", self.principal.origin))[..16])
    }

    /// The key under which the passages that this caller has found in this store are kept.
    pub fn scratch_owner(&self, snapshot: &Snapshot<'_>) -> ScratchOwner {
        ScratchOwner::new(&self.principal, snapshot.store())
    }

    /// Records the ids that a tool or a resource has given, without waiting.
    pub fn note_given(&self, engine: &Engine, by: &str, scope: String, ids: Vec<Id>) {
        if let Some(recall) = self.recall.as_ref().filter(|_| !ids.is_empty()) {
            recall.note(RecallNote {
                at: engine.now(),
                session: self.session(),
                client: self.principal.actor.clone(),
                by: by.to_owned(),
                scope,
                ids,
            });
        }
    }

    /// The kinds of content that the client accepts.
    pub(crate) fn profile(&self) -> Profile {
        Profile { content: self.content, has_structured: self.has_structured }
    }

    /// The owner of the store as a caller.
    pub fn new(actor: Option<&str>, origin: String, scope: String) -> Caller {
        Caller::of(&Principal::owner("", origin), actor, scope)
    }

    /// A principal as a caller, under the name that it gives itself; without one its name is `local`.
    pub fn of(principal: &Principal, actor: Option<&str>, scope: String) -> Caller {
        let actor = clean(actor.unwrap_or_default()).replace(['\n', '\t'], " ");
        let actor = match actor.trim() {
            "" => "local".to_owned(),
            actor => cut(actor, ACTOR_BYTES_MAX),
        };
        Caller {
            principal: Arc::new(Principal { actor, ..principal.clone() }),
            scope,
            has_scope: true,
            told_no_scope: Arc::default(),
            refusal: None,
            project: Arc::default(),
            named_scopes: Arc::default(),
            has_whole_history: false,
            has_graph: true,
            scratch: Arc::default(),
            sets: None,
            usage: Arc::default(),
            recall: None,
            content: Content::default(),
            has_structured: true,
            turn: None,
        }
    }

    /// The same caller in the scope that its project has at this moment.
    pub fn placed(self, finder: &ScopeFinder, engine: &Engine) -> Caller {
        let (scope, project) = finder.find(engine, &self.principal);
        Caller {
            scope: scope.scope(),
            has_scope: !matches!(scope, DefaultScope::Nothing { .. }),
            refusal: scope.refusal(),
            project,
            ..self
        }
    }
}

pub struct Context<'a> {
    pub engine: &'a Engine,
    pub caller: &'a Caller,
    pub(crate) tool: &'static str,
    /// The idempotency key of this call and the digest of its other arguments.
    pub(crate) key: Option<(String, String)>,
    /// Whether people were asked already, and some of the arguments are their answer.
    pub(crate) has_answered: bool,
    /// The arguments as they came, for tools with result sets.
    pub(crate) arguments: Option<Map<String, Value>>,
    /// The range of rows to return, if the call is made again for a result set.
    pub(crate) page: Option<Pinned>,
    /// Remarks that the reply has to contain, without duplicates.
    pub(crate) notes: RefCell<Vec<String>>,
    /// The entries and sections that the reply shows.
    pub(crate) given: RefCell<Vec<Id>>,
}

impl<'a> Context<'a> {
    /// The store as the caller may see it now.
    pub(crate) fn snapshot(&self) -> Result<Snapshot<'a>, Error> {
        self.engine.snapshot(&self.caller.principal)
    }

    /// A page of a list: the one at the cursor, or the requested rows of a result set.
    pub(crate) fn listing(
        &self,
        name: String,
        limit: u64,
        cursor: Option<&str>,
        at: Option<TxId>,
    ) -> Result<Listing<'a>, Stop> {
        match self.page {
            Some(page) => Listing::pinned(self.engine, &self.caller.principal, name, page),
            None => Listing::begin(self.engine, &self.caller.principal, name, limit, cursor, at),
        }
    }

    /// The result set behind a page that does not show all rows. Arguments that only select the page are not
    /// part of the set.
    pub(crate) fn set<T: ListTool>(
        &self,
        listing: &Listing<'_>,
        name: &str,
        total_count: u64,
    ) -> Option<Attached> {
        let sets = self.caller.sets.as_ref().filter(|_| self.page.is_none())?;
        let mut arguments = self.arguments.clone()?;
        arguments.retain(|name, value| !value.is_null() && !PAGE_ARGUMENTS.contains(&name.as_str()));
        let call = PinnedCall {
            tool: T::NAME.to_owned(),
            arguments,
            scope: self.caller.scope.clone(),
            has_whole_history: self.caller.has_whole_history,
            principal: (*self.caller.principal).clone(),
            at: listing.snapshot.at(),
            source: PinnedCall::source(&listing.snapshot).ok()?,
            asked_at: listing.asked_at,
        };
        sets.attach(&call, name, T::Row::COLUMNS, total_count)
    }
}

/// The note of a write that went to the scope that everyone sees, because no scope is configured.
const NO_SCOPE_NOTE: &str = "No scope is configured, so this went to `global:default`, which every project sees. \
    Pass `scope`, or put the line `scope: NAMESPACE:SCOPE` into the project's CLAUDE.md or AGENTS.md.";

/// The note for a scope that is configured under an earlier name.
pub fn renamed_note(old: &str, new: &str) -> String {
    format!(
        "Scope `{old}` is called `{new}` now. The old name is followed, but change the line `scope: {old}` to `scope: {new}` \
         where it stands (CLAUDE.md, AGENTS.md, GEMINI.md, `--scope`)."
    )
}

/// Arguments that only change which part of a list is shown, and how.
const PAGE_ARGUMENTS: [&str; 8] =
    ["limit", "cursor", "format", "limitCards", "includeProvenancePanel", "explain", "page_size", "detail"];

impl Context<'_> {
    /// The scope that a call names, or else the caller's. If the scope was renamed, this is its present name,
    /// and a note in the reply says so.
    pub fn scope_name(&self, named: Option<&str>) -> Result<ScopeName, Stop> {
        let text = named.unwrap_or(&self.caller.scope);
        let name = scope_name(text).map_err(|stop| self.name_scopes(text).unwrap_or(stop))?;
        if named.is_some() {
            self.caller.named_scopes.add(&name);
        }
        if name == ScopeName::global_default() {
            return Ok(name);
        }
        let Some(now) = self.snapshot()?.renamed(&name)? else { return Ok(name) };
        self.note(match named {
            Some(_) => format!("Scope `{name}` is called `{now}` now."),
            None => renamed_note(&name.to_string(), &now.to_string()),
        });
        Ok(now)
    }

    /// The error for a namespace in place of a scope; `None` if the text is not the name of a namespace.
    fn name_scopes(&self, text: &str) -> Option<Stop> {
        const NAMED_MAX: usize = 8;
        let tree = self.snapshot().ok()?.tree().ok()?;
        let (id, namespace) = tree.namespace(text)?;
        let all: Vec<String> =
            tree.scopes(id).map(|(_, scope)| format!("`{}:{}`", namespace.name, scope.name)).collect();
        let more = if all.len() > NAMED_MAX { ", …" } else { "" };
        let named = all[..all.len().min(NAMED_MAX)].join(", ");
        Some(Stop::invalid(format!("`scope`: `{text}` is a namespace; its scopes are {named}{more}")))
    }

    /// The transaction that a call looks back to: the one that it names, or the newest at or before a time.
    pub(crate) fn as_of(&self, tx: Option<TxId>, moment: Option<Moment>) -> Result<Option<TxId>, Stop> {
        let Some(Moment(moment)) = moment else { return Ok(tx) };
        if tx.is_some() {
            return Err(Stop::invalid("give `as_of` or `as_of_tx_id`, not both"));
        }
        if moment > self.engine.now() {
            return Err(Stop::invalid("`as_of` is in the future; leave it out for what is there now"));
        }
        Ok(Some(self.engine.newest_at(moment)?))
    }

    /// Records that the reply shows these entries or sections.
    pub(crate) fn record_shown(&self, ids: impl IntoIterator<Item = Id>) {
        self.given.borrow_mut().extend(ids);
    }

    pub(crate) fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// The scope that a call writes to.
    pub(crate) fn scope(&self, named: Option<&str>) -> Result<ScopeId, Stop> {
        self.scope_in(&self.snapshot()?, named)
    }

    /// As `scope`, for a tool that already has a snapshot.
    pub(crate) fn scope_in(&self, snapshot: &Snapshot<'_>, named: Option<&str>) -> Result<ScopeId, Stop> {
        if let (None, Some(refusal)) = (named, &self.caller.refusal) {
            return Err(refusal.clone());
        }
        let name = self.scope_name(named)?;
        // A call with an idempotency key gets the same reply every time, so its note does not depend on
        // earlier replies.
        let is_told = self.key.is_none() && self.caller.told_no_scope.load(Ordering::Relaxed);
        if named.is_none() && !self.caller.has_scope && !is_told {
            self.note(NO_SCOPE_NOTE.to_owned());
        }
        match snapshot.scope(&name) {
            // A repeated call gets its first reply, even if the scope was deleted since. Scope 0 is a
            // placeholder to which nothing is written.
            Err(Error::UnknownScope { .. }) if self.is_repeated()? => Ok(ScopeId(0)),
            scope => Ok(scope?),
        }
    }

    /// Allows the project from which a scope was made to name it in its files.
    pub(crate) fn trust(&self, scope: &ScopeName) {
        if let Err(error) = self.caller.project.trust(self.engine, &self.caller.principal, scope) {
            tracing::warn!("that this project made `{scope}` can't be noted: {error}");
        }
    }

    /// Whether this same call was made before, under the same key.
    pub(crate) fn is_repeated(&self) -> Result<bool, Stop> {
        let Some((key, digest)) = &self.key else { return Ok(false) };
        let known = self.engine.storage()?.reader()?.recall(&self.caller.principal.key_owner(), key)?;
        Ok(known.is_some_and(|known| known.tool == self.tool && known.digest == *digest))
    }

    /// Commits, and makes the reply from the committed transaction. With an idempotency key that was used
    /// before, the first reply is returned and nothing is written.
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
        let request =
            Request { principal: self.caller.principal.clone(), tool: self.tool.to_owned(), write, keyed };
        let committed = match &self.caller.turn {
            Some(turn) => self.engine.commit_in_turn(request, turn),
            None => self.engine.commit(request),
        };
        let committed = committed.map_err(|error| refusal(self, error))?;
        match &committed.again {
            Some(reply) => serde_json::from_str(reply)
                .map_err(|_| Stop::new(Code::InternalError, "the remembered reply can't be read")),
            None => Ok(output(&committed)),
        }
    }
}

/// Parses a scope's name from a call or a URI.
pub fn scope_name(text: &str) -> Result<ScopeName, Stop> {
    scope_name_in("scope", text, |name| format!("`get_namespaces` lists the scopes of `{name}`"))
}

/// As `scope_name`, for an argument with another name. `meant` is the hint if the text is a single name.
pub(crate) fn scope_name_in(
    argument: &str,
    text: &str,
    meant: impl Fn(&str) -> String,
) -> Result<ScopeName, Stop> {
    ScopeName::parse(text).ok_or_else(|| {
        let shown = quote(text, 130);
        let hint = if is_name(text) {
            format!("; {}", meant(text))
        } else {
            ", each 2 to 64 of a-z, 0-9 and -".to_owned()
        };
        Stop::invalid(format!("`{argument}`: {shown} is not of the form `namespace:scope`{hint}"))
    })
}

/// The sight of the scope with this name.
pub fn sight(snapshot: &Snapshot<'_>, name: &ScopeName) -> Result<Sight, Stop> {
    Ok(snapshot.sight(snapshot.scope(name)?)?)
}

/// The number of records of a type that a transaction removed.
pub(crate) fn count_of(done: &Committed, entity_type: EntityType) -> usize {
    let is_gone = |change: &&Change| change.entity_type == entity_type && change.after.is_none();
    done.tx.changes.iter().filter(is_gone).count()
}

type Run = fn(&Context<'_>, Map<String, Value>, &[&str]) -> Result<Reply, Stop>;
type RunRows = fn(&Context<'_>, Map<String, Value>, &[&str]) -> Result<Vec<Map<String, Value>>, Stop>;

/// A row of the table of tools.
pub(crate) struct ToolRow {
    name: &'static str,
    about: &'static str,
    effect: Effect,
    changes_scopes: bool,
    input: fn(bool) -> Map<String, Value>,
    output: fn(Family) -> Map<String, Value>,
    run: Run,
    rows: Option<RunRows>,
}

pub(crate) fn row<T: Tool>() -> ToolRow {
    ToolRow {
        name: T::NAME,
        about: T::ABOUT,
        effect: T::EFFECT,
        changes_scopes: T::CHANGES_SCOPES,
        input: schema::input::<T::Input>,
        output: output_schema::<T>,
        run: run::<T>,
        rows: None,
    }
}

/// As `row`, for a tool with result sets.
pub(crate) fn list_row<T: ListTool>() -> ToolRow {
    ToolRow { rows: Some(run_rows::<T>), ..row::<T>() }
}

fn run<T: Tool>(ctx: &Context<'_>, arguments: Map<String, Value>, known: &[&str]) -> Result<Reply, Stop> {
    let answer = T::call(ctx, arguments::parse(arguments, known)?)?;
    let notes = ctx.notes.take();
    // This is recorded only now, because the note of a write that failed was not sent.
    if notes.iter().any(|note| note == NO_SCOPE_NOTE) {
        ctx.caller.told_no_scope.store(true, Ordering::Relaxed);
    }
    let note = (!notes.is_empty()).then(|| Note { text: notes.join(" "), is_field: T::HAS_NOTE });
    render(answer, note, ctx.caller.profile())
        .map_err(|_| Stop::new(Code::InternalError, "the reply can't be written as JSON"))
}

fn run_rows<T: ListTool>(
    ctx: &Context<'_>,
    arguments: Map<String, Value>,
    known: &[&str],
) -> Result<Vec<Map<String, Value>>, Stop> {
    let fields = |row: &T::Row| match serde_json::to_value(row) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Stop::new(Code::InternalError, "a row can't be written as JSON")),
    };
    T::rows(ctx, arguments::parse(arguments, known)?)?.iter().map(fields).collect()
}

/// The schema of a tool's output, with the note that a reply may have.
fn output_schema<T: Tool>(family: Family) -> Map<String, Value> {
    let mut schema = schema::output::<T::Output>(family);
    if T::HAS_NOTE
        && let Some(Value::Object(fields)) =
            schema.get_mut("oneOf").and_then(|kinds| kinds[0].get_mut("properties"))
    {
        fields.insert("note".to_owned(), json!({"type": "string"}));
    }
    schema
}

/// Makes a call again to get some of its rows.
pub(crate) fn rerun(
    engine: &Engine,
    caller: &Caller,
    tool: &'static Definition,
    arguments: Map<String, Value>,
    page: Pinned,
) -> Result<Vec<Map<String, Value>>, Stop> {
    let (key, has_answered) = (None, false);
    let ctx = Context {
        engine,
        caller,
        tool: tool.name,
        key,
        has_answered,
        arguments: None,
        page: Some(page),
        notes: RefCell::default(),
        given: RefCell::default(),
    };
    match tool.rows {
        Some(rows) => rows(&ctx, arguments, &tool.argument_names()),
        None => Err(Stop::new(Code::InternalError, format!("`{}` has no result sets", tool.name))),
    }
}

/// A tool in the form in which servers list it.
pub struct Definition {
    pub name: &'static str,
    pub about: &'static str,
    pub effect: Effect,
    changes_scopes: bool,
    pub family: Family,
    /// The whole schema of the arguments.
    pub input_schema: Map<String, Value>,
    /// The shorter schema that models and their SDKs see.
    pub listed_schema: Arc<Map<String, Value>>,
    pub output_schema: Map<String, Value>,
    pub(crate) run: Run,
    /// The function that returns rows, for tools with result sets.
    pub(crate) rows: Option<RunRows>,
}

impl Definition {
    /// The title for people: `get_task_context` is "Get task context", `kb.search` is "KB: search".
    pub fn title(&self) -> String {
        let words = |name: &str| name.replace('_', " ");
        let capitalised = |text: String| {
            let mut rest = text.chars();
            rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
        };
        match self.name.split_once('.') {
            Some(("kb", name)) => format!("KB: {}", words(name)),
            Some((family, name)) => format!("{}: {}", capitalised(family.to_owned()), words(name)),
            None => capitalised(words(self.name)),
        }
    }

    /// The schema of the arguments for clients that check calls before they send them.
    pub fn published_schema(&self) -> Map<String, Value> {
        schema::with_null(&self.input_schema)
    }

    /// The meaning of an empty text in an optional argument.
    pub(crate) fn empty(&self) -> Empty {
        if self.name.starts_with("update") { Empty::Ambiguous } else { Empty::Absent }
    }

    /// Which calls of the same client may run at the same time as a call of this tool.
    pub fn call_kind(&self) -> CallKind {
        match (self.effect.writes(), self.changes_scopes) {
            (false, _) => CallKind::Read,
            (true, false) => CallKind::Write,
            (true, true) => CallKind::ExclusiveWrite,
        }
    }

    pub(crate) fn argument_names(&self) -> Vec<&str> {
        let properties = self.input_schema.get("properties").and_then(Value::as_object);
        properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
    }
}

/// All tools, in the order in which they are listed.
pub fn definitions() -> &'static [Definition] {
    static DEFINITIONS: OnceLock<Vec<Definition>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let families = [
            (Family::Memory, memory::tools()),
            (Family::Knowledge, knowledge::tools()),
            (Family::Patterns, patterns::tools()),
            (Family::Kb, kb::tools()),
            (Family::Graph, graph::tools()),
            (Family::Legacy, compat::tools()),
        ];
        families
            .into_iter()
            .flat_map(|(family, rows)| rows.into_iter().map(move |row| (family, row)))
            .map(|(family, row)| (family, (row.input)(row.effect.writes()), row))
            .map(|(family, input_schema, row)| Definition {
                name: row.name,
                about: row.about,
                effect: row.effect,
                changes_scopes: row.changes_scopes,
                family,
                listed_schema: Arc::new(schema::listed(&input_schema)),
                input_schema,
                output_schema: (row.output)(family),
                run: row.run,
                rows: row.rows,
            })
            .collect()
    })
}
