//! A request for a page: who asks, as of when, and for what.

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

/// Nobody waits longer for a page.
const PAGE_MAX: Duration = Duration::from_secs(20);

/// What a page is made from.
pub(crate) struct Ask<'a> {
    pub(crate) console: &'a Console,
    pub(crate) visitor: &'a Visitor,
    /// To whom the transaction that is looked back to is the newest.
    pub(crate) engine: &'a Engine,
    pub(crate) snapshot: Snapshot<'a>,
    pub(crate) tree: Tree,
    pub(crate) names: ScopeNames,
    /// The transaction that the visitor looks back to.
    pub(crate) as_of: Option<TxId>,
    /// When what is shown is judged: now, or the time of that transaction.
    pub(crate) judged_at: Timestamp,
    pub(crate) now: Timestamp,
    /// The part of the address after the name of the page.
    pub(crate) id: &'a str,
    pub(crate) fields: Fields,
    pub(crate) path: &'a str,
    /// The address of this page without what was just done.
    pub(crate) here: String,
}

/// A page without what all pages have.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) body: Markup,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Result<Page, Trouble> {
        Ok(Page { title: title.into(), body })
    }
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    NotFound(String),
    /// A tool has refused, and says why.
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

    /// What people are told: of the store's own errors only what a tool would say too.
    pub(crate) fn said(&self) -> String {
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

pub(crate) type Show = fn(&Ask<'_>) -> Result<Page, Trouble>;

impl<'a> Ask<'a> {
    /// A link that keeps the moment that is looked back to.
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

    /// What is known in all scopes that the visitor may read.
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

    /// How transactions are shown: with all that the visitor may read, and so many changes each.
    pub(crate) fn view(&self, changes_max: usize) -> View<'_> {
        View { reach: self.snapshot.reach(), scopes: None, own: None, changes_max }
    }

    /// A transaction with so many of its changes. One that changed nothing that the visitor may see is none for them.
    pub(crate) fn transaction(&self, tx: TxId, changes_max: usize) -> Result<Option<Transaction>, Error> {
        let found = self.snapshot.transaction(tx, self.view(changes_max))?;
        let sees_all = self.snapshot.reach().is_everything();
        Ok(found.filter(|found| tx > TxId::EMPTY && (sees_all || !found.changes.is_empty())))
    }

    /// Whether the visitor may read a scope of this name.
    pub(crate) fn knows_scope(&self, name: &str) -> bool {
        self.snapshot.reach().is_everything() || self.names.0.values().any(|known| known.to_string() == name)
    }

    /// What the log of recalls says. It is a cache beside the store: where it is missing or can't be read, nothing is said.
    pub(crate) fn recalled<T>(&self, read: impl FnOnce(&RecallLog) -> Result<T, recall::Error>) -> Option<T> {
        let log = RecallLog::existing(self.engine.dir())?;
        read(&log).inspect_err(|error| tracing::debug!(%error, "the log of recalls can't be read")).ok()
    }

    /// Calls a tool that reads, and gives its structured reply.
    pub(crate) fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, Trouble> {
        call(self.engine, self.visitor, tool, arguments)
    }
}

/// Calls a tool as the visitor. Its refusal is the page's.
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

/// An address that is no page of the console.
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
            let page = layout::bare("Something is wrong", &trouble.said());
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
    // A number beyond the newest is looked at as the newest, which is what a slider at its end means.
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
    let ask = Ask {
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
    Ok(match show(&ask) {
        Ok(page) => (StatusCode::OK, layout::page(&ask, &page)),
        Err(Trouble::Store(error)) if !is_answer(&error) => return Err(Trouble::Store(error)),
        Err(trouble) => (trouble.status(), layout::page(&ask, &layout::trouble_page(&trouble))),
    })
}

/// Whether an error says something about what was asked, and not about the store.
fn is_answer(error: &Error) -> bool {
    matches!(error, Error::UnknownTx { .. } | Error::UnknownId { .. } | Error::UnknownScope { .. })
}

/// The address without the note of what was just done, for going back to.
fn here(path: &str, fields: &Fields) -> String {
    let kept = fields.iter().filter(|(name, _)| *name != "done");
    address(path, kept)
}
