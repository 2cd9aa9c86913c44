//! The store that commands read from and write to, with the rights of the owner of its directory.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use kenning_engine::{Engine, Sight, Snapshot};
use kenning_model::{EntityType, Id, ScopeId, ScopeName, TxId};
use kenning_presentation::Reply;
use kenning_storage::Location;
use kenning_tools::{Access, Caller, dispatch, find, scope_name};
use serde_json::{Map, Value};

use super::refusal::Refused;
use super::{complain, usage};
use crate::config::Config;

pub struct Store {
    pub engine: Arc<Engine>,
    pub caller: Caller,
    pub dir: PathBuf,
    access: Access,
    is_past: bool,
}

/// The state of the store that is read: as of a transaction, or as of a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AsOf {
    Tx(TxId),
    Moment(Timestamp),
}

impl FromStr for AsOf {
    type Err = String;

    fn from_str(text: &str) -> Result<AsOf, String> {
        if let Ok(tx) = text.parse() {
            return Ok(AsOf::Tx(TxId(tx)));
        }
        let day = || {
            let day: jiff::civil::Date = text.parse().ok()?;
            // A day includes all transactions up to midnight.
            let end = day.tomorrow().ok()?.at(0, 0, 0, 0).to_zoned(jiff::tz::TimeZone::system()).ok()?;
            end.timestamp().checked_sub(jiff::SignedDuration::from_millis(1)).ok()
        };
        let moment = text.parse::<Timestamp>().ok().or_else(day);
        moment.map(AsOf::Moment).ok_or_else(|| {
            format!("`{text}` is neither the number of a transaction nor a time such as 2026-11-18 or 2026-11-18T09:30:00Z")
        })
    }
}

impl fmt::Display for AsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsOf::Tx(tx) => write!(f, "{tx}"),
            AsOf::Moment(moment) => write!(f, "{moment}"),
        }
    }
}

impl Store {
    /// Opens the store for a command that reads. The store must exist.
    pub fn existing(config: &Config, as_of: Option<AsOf>) -> anyhow::Result<Store> {
        let mut store = Store::open(config)?;
        if !store.engine.is_there() {
            let missing = match config.location()? {
                Location::Directory(dir) => format!("store in {}", dir.display()),
                Location::Database(url) => url.to_string(),
            };
            return Err(Refused::not_found(format!(
                "there is no {missing} yet; what an agent or `kenning add` keeps first makes it"
            )));
        }
        let Some(as_of) = as_of else { return Ok(store) };
        let tx = match as_of {
            AsOf::Tx(tx) => tx,
            AsOf::Moment(moment) => store.engine.newest_at(moment)?,
        };
        // A number that no transaction has is an error; it does not mean the newest transaction.
        store.engine.snapshot_at(&store.caller.principal, Some(tx))?;
        store.engine = Arc::new(store.engine.as_of(tx));
        store.is_past = true;
        Ok(store)
    }

    /// Opens the store for a command that writes, and that may be the first to do so.
    pub fn open(config: &Config) -> anyhow::Result<Store> {
        let (engine, dir) = (config.engine()?, config.local_dir()?);
        let caller = config.caller(&engine);
        Ok(Store { engine, caller, dir, access: config.access(), is_past: false })
    }

    pub fn snapshot(&self) -> anyhow::Result<Snapshot<'_>> {
        Ok(self.engine.snapshot(&self.caller.principal)?)
    }

    /// The moment at which the validity of entries is judged. For a past state it is the time of that state,
    /// so an entry that was valid then is still found.
    pub fn judged_at(&self, snapshot: &Snapshot<'_>) -> anyhow::Result<Timestamp> {
        let then = if self.is_past { snapshot.time_of(snapshot.at())? } else { None };
        Ok(then.unwrap_or_else(|| snapshot.now()))
    }

    /// The scope that a command works in, by its present name.
    pub fn scope(&self, snapshot: &Snapshot<'_>) -> anyhow::Result<ScopeName> {
        if let Some(refusal) = &self.caller.refusal {
            complain(&format!("this reads `{}`: {}", self.caller.scope, refusal.message));
        }
        let name = scope_name(&self.caller.scope).map_err(Refused::from)?;
        if name == ScopeName::global_default() {
            return Ok(name);
        }
        Ok(snapshot.renamed(&name)?.unwrap_or(name))
    }

    /// The scopes that a scope sees: itself and those that it inherits from.
    pub fn sight(&self, snapshot: &Snapshot<'_>, scope: &ScopeName) -> anyhow::Result<Sight> {
        kenning_tools::sight(snapshot, scope).map_err(|stop| Refused::from(stop).into())
    }

    /// All scopes of the store.
    pub fn whole_sight(&self, snapshot: &Snapshot<'_>) -> anyhow::Result<Sight> {
        let tree = snapshot.tree()?;
        let scopes = tree.namespaces().flat_map(|(id, _)| tree.scopes(id)).map(|(_, scope)| scope.number);
        let mut scopes: Vec<ScopeId> = scopes.collect();
        if !scopes.contains(&ScopeId::GLOBAL_DEFAULT) {
            scopes.push(ScopeId::GLOBAL_DEFAULT);
        }
        Ok(snapshot.sight_of(scopes))
    }

    /// Runs a tool and returns its reply; a reply with an error becomes an `Err`.
    pub fn call(&self, config: &Config, tool: &str, arguments: Value) -> anyhow::Result<Reply> {
        let Some(tool) = find(tool) else { return Err(usage(format!("there is no tool `{tool}`"))) };
        let mut given = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        given.retain(|_, value| !value.is_null());
        let names_scope = given.contains_key("scope");
        let reply = dispatch(&self.engine, &self.caller, self.access, tool, given);
        if reply.is_error {
            return Err(Refused::of_reply(&reply).into());
        }
        if tool.effect.writes() && !names_scope {
            config.trust_flag(&self.engine, &self.caller);
        }
        Ok(reply)
    }

    /// Parses an id, in upper or lower case.
    pub fn id(&self, text: &str) -> anyhow::Result<Id> {
        Id::parse(&text.to_ascii_uppercase()).ok_or_else(|| self.unknown("entry", text))
    }

    /// The error that nothing has this name. It says where the command looked.
    pub fn unknown(&self, kind: impl fmt::Display, name: &str) -> anyhow::Error {
        let name = super::line(name);
        let then = match self.is_past {
            true => " as of then",
            false => "",
        };
        Refused::not_found(format!(
            "there is no {kind} `{name}`{then} in {}; `kenning list` and `kenning search` show ids",
            self.dir.display()
        ))
    }

    /// The live record with this id, of any kind.
    pub fn find(&self, snapshot: &Snapshot<'_>, id: Id) -> anyhow::Result<Option<kenning_engine::Stored>> {
        for kind in [EntityType::Entry, EntityType::Triple, EntityType::Document, EntityType::Section] {
            if let Some(stored) = snapshot.records(kind, &[id])?.pop().flatten() {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }
}
