//! A request for a page: the visitor, the transaction as of which the page is shown, and the fields.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use jiff::Timestamp;
use kenning_engine::{Engine, Error, Sight, Snapshot};
use kenning_model::{ScopeId, ScopeNames, Transaction, TxId};
use kenning_storage::{Tree, View};
use kenning_tools::recall::{self, RecallLog};
use kenning_tools::{dispatch, find};
use maud::Markup;
use serde_json::{Map, Value};

use crate::fields::{Fields, address};
use crate::{BASE, Console, Visitor, layout};

/// The deadline for making a page.
const PAGE_MAX: Duration = Duration::from_secs(20);

/// The input of a page.
pub(crate) struct PageContext<'a> {
    pub(crate) console: &'a Console,
    pub(crate) visitor: &'a Visitor,
    /// A view of the engine in which the chosen transaction is the newest one.
    pub(crate) engine: &'a Engine,
    pub(crate) snapshot: Snapshot<'a>,
    pub(crate) tree: Tree,
    pub(crate) names: ScopeNames,
    /// The transaction as of which the page is shown, if the visitor has chosen one.
    pub(crate) as_of: Option<TxId>,
    /// The moment at which validity is judged: now, or the time of that transaction.
    pub(crate) judged_at: Timestamp,
    pub(crate) now: Timestamp,
    /// The part of the address after the name of the page.
    pub(crate) id: &'a str,
    pub(crate) fields: Fields,
    pub(crate) path: &'a str,
    /// The address of this page without the note about the last action.
    pub(crate) here: String,
}

/// A page without the parts that all pages share.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) body: Markup,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Result<Page, Trouble> {
        Ok(Page { title: title.into(), body })
    }
}

/// The reason why a page can't be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    NotFound(String),
    /// A tool has refused the call and given a reason.
    #[error("{message}")]
    Refused { code: String, message: String },
    #[error("the store can't be read")]
    Store(#[from] Error),
}

impl Trouble {
    fn status(&self) -> StatusCode {
        match self {
            Trouble::NotFound(_) => StatusCode::NOT_FOUND,
            Trouble::Refused { code, .. } => match code.as_str() {
                "NOT_FOUND" => StatusCode::NOT_FOUND,
                "CONFLICT" => StatusCode::CONFLICT,
                "PERMISSION_DENIED" | "READ_ONLY" | "SCOPE_VIOLATION" => StatusCode::FORBIDDEN,
                "BACKEND_UNAVAILABLE" | "TIMEOUT" => StatusCode::SERVICE_UNAVAILABLE,
                "INTERNAL_ERROR" => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::BAD_REQUEST,
            },
            Trouble::Store(
                Error::UnknownTx { .. } | Error::UnknownId { .. } | Error::UnknownScope { .. },
            ) => StatusCode::NOT_FOUND,
            Trouble::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The message for people. Of the store's own errors it only contains what a tool would tell too.
    pub(crate) fn message(&self) -> String {
        match self {
            Trouble::Store(Error::UnknownTx { tx, head }) => {
                format!("There is no transaction {tx}; the newest is {head}.")
            }
            Trouble::Store(error @ (Error::UnknownId { .. } | Error::UnknownScope { .. })) => {
                error.to_string()
            }
            Trouble::Store(_) => "The store can't be read at the moment; try again.".to_owned(),
            trouble => trouble.to_string(),
        }
    }
}

pub(crate) type Show = fn(&PageContext<'_>) -> Result<Page, Trouble>;

impl<'a> PageContext<'a> {
    /// A link that keeps the chosen transaction.
    pub(crate) fn link<'f>(
        &self,
        path: &str,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> String {
        let as_of = self.as_of.map(|tx| tx.to_string()).unwrap_or_default();
        let mut all: Vec<(&str, &str)> = fields.into_iter().collect();
        all.push(("as_of", &as_of));
        address(&format!("{BASE}{path}"), all)
    }

    pub(crate) fn to(&self, path: &str) -> String {
        self.link(path, [])
    }

    /// Whether the visitor may try to change something from this page.
    pub(crate) fn writes(&self) -> bool {
        self.as_of.is_none() && self.visitor.access == kenning_tools::Access::ReadWrite
    }

    /// The sight of all scopes that the visitor may read.
    pub(crate) fn everywhere(&self) -> Sight {
        self.snapshot.sight_of(self.names.0.keys().copied().collect())
    }

    pub(crate) fn scope_name(&self, scope: ScopeId) -> String {
        match self.names.0.get(&scope) {
            Some(name) => name.to_string(),
            None => {
                self.snapshot.scope_names(&[scope]).map_or_else(|_| String::new(), |names| names.of(scope))
            }
        }
    }

    /// The view of transactions: everything that the visitor may read, with at most `changes_max` changes
    /// each.
    pub(crate) fn view(&self, changes_max: usize) -> View<'_> {
        View { reach: self.snapshot.reach(), scopes: None, own: None, changes_max }
    }

    /// A transaction with at most `changes_max` of its changes; `None` if it changed nothing that the visitor
    /// may see.
    pub(crate) fn transaction(&self, tx: TxId, changes_max: usize) -> Result<Option<Transaction>, Error> {
        let found = self.snapshot.transaction(tx, self.view(changes_max))?;
        let sees_all = self.snapshot.reach().is_everything();
        Ok(found.filter(|found| tx > TxId::EMPTY && (sees_all || !found.changes.is_empty())))
    }

    /// Whether the visitor may read a scope with this name.
    pub(crate) fn knows_scope(&self, name: &str) -> bool {
        self.snapshot.reach().is_everything() || self.names.0.values().any(|known| known.to_string() == name)
    }

    /// Reads the recall log. It is only a cache beside the store, so the result is `None` if it is missing or
    /// can't be read.
    pub(crate) fn recalled<T>(&self, read: impl FnOnce(&RecallLog) -> Result<T, recall::Error>) -> Option<T> {
        let log = RecallLog::existing(self.engine.dir())?;
        read(&log).inspect_err(|error| tracing::debug!(%error, "the log of recalls can't be read")).ok()
    }

    /// Calls a tool that reads, and returns its structured reply.
    pub(crate) fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, Trouble> {
        call(self.engine, self.visitor, tool, arguments)
    }
}

/// Calls a tool as the visitor. A refusal by the tool becomes the trouble of the page.
pub(crate) fn call(
    engine: &Engine,
    visitor: &Visitor,
    tool: &str,
    arguments: Map<String, Value>,
) -> Result<Value, Trouble> {
    let unknown = || Trouble::NotFound(format!("There is no tool `{tool}`."));
    let tool = find(tool).ok_or_else(unknown)?;
    let reply = dispatch(engine, &visitor.caller, visitor.access, tool, arguments);
    if !reply.is_error {
        return Ok(reply.structured);
    }
    let text = |name: &str| {
        let own = reply.structured[name].as_str();
        reply.structured["error"][name].as_str().or(own).unwrap_or_default().to_owned()
    };
    Err(Trouble::Refused { code: text("code"), message: text("message") })
}

/// The route of a page.
pub(crate) fn page(show: Show) -> MethodRouter<Arc<Console>> {
    get(
        move |State(console): State<Arc<Console>>,
              Extension(visitor): Extension<Visitor>,
              uri: Uri,
              id: Option<Path<String>>| async move {
            let id = id.map(|Path(id)| id).unwrap_or_default();
            let query = uri.query().unwrap_or_default().to_owned();
            let path = uri.path().to_owned();
            let made =
                tokio::task::spawn_blocking(move || render(&console, &visitor, &path, &id, &query, show));
            made.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
        },
    )
}

/// The reply to an address that is not a page of the console.
pub(crate) async fn nowhere(
    State(console): State<Arc<Console>>,
    visitor: Option<Extension<Visitor>>,
    request: Request,
) -> Response {
    let Some(Extension(visitor)) = visitor else { return StatusCode::NOT_FOUND.into_response() };
    let path = request.uri().path().to_owned();
    let nothing: Show = |_| Err(Trouble::NotFound("There is no such page.".to_owned()));
    let made = tokio::task::spawn_blocking(move || render(&console, &visitor, &path, "", "", nothing));
    made.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn render(console: &Console, visitor: &Visitor, path: &str, id: &str, query: &str, show: Show) -> Response {
    let fields = Fields::parse(query.as_bytes());
    match asked(console, visitor, path, id, fields, show) {
        Ok((status, markup)) => (status, Html(markup.into_string())).into_response(),
        Err(trouble) => {
            if let Trouble::Store(error) = &trouble {
                tracing::warn!(%error, "a page can't be shown");
            }
            let page = layout::bare("Something is wrong", &trouble.message());
            (trouble.status(), Html(page.into_string())).into_response()
        }
    }
}

fn asked(
    console: &Console,
    visitor: &Visitor,
    path: &str,
    id: &str,
    fields: Fields,
    show: Show,
) -> Result<(StatusCode, Markup), Trouble> {
    let until = console.engine.until(Instant::now() + PAGE_MAX);
    let as_of = fields.number("as_of").map(TxId);
    // A number beyond the newest transaction means the newest one, as when the slider is at its end.
    let as_of = match as_of {
        Some(tx) => Some(tx).filter(|tx| until.head().is_ok_and(|head| *tx < head)),
        None => None,
    };
    let engine = match as_of {
        Some(tx) => until.as_of(tx),
        None => until,
    };
    let snapshot = engine.snapshot(&visitor.caller.principal)?;
    let now = engine.now();
    let judged_at = match as_of {
        Some(tx) => snapshot.time_of(tx)?.unwrap_or(now),
        None => now,
    };
    let tree = snapshot.tree()?;
    let names = tree.names();
    let kept = fields.clone();
    let ctx = PageContext {
        console,
        visitor,
        engine: &engine,
        snapshot,
        tree,
        names,
        as_of,
        judged_at,
        now,
        id,
        here: here(path, &kept),
        fields,
        path,
    };
    Ok(match show(&ctx) {
        Ok(page) => (StatusCode::OK, layout::page(&ctx, &page)),
        Err(Trouble::Store(error)) if !is_answer(&error) => return Err(Trouble::Store(error)),
        Err(trouble) => (trouble.status(), layout::page(&ctx, &layout::trouble_page(&trouble))),
    })
}

/// Whether an error is about the request and not about the store.
fn is_answer(error: &Error) -> bool {
    matches!(error, Error::UnknownTx { .. } | Error::UnknownId { .. } | Error::UnknownScope { .. })
}

/// The address without the note about the last action, to return to after an action.
fn here(path: &str, fields: &Fields) -> String {
    let kept = fields.iter().filter(|(name, _)| *name != "done");
    address(path, kept)
}
