//! `kenning token`: keys with which clients call a server that was started with `--http` and `--auth keys`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use kenning_model::{DEFAULT, Grants, Id, Right, ScopeName};
use kenning_server::http::keys::{Key, Keys, NewKey};
use kenning_storage::Tree;
use kenning_tools::scope_name;
use serde_json::{Value, json};

use super::serve::rights_of;
use super::{Outcome, complain, line, print, usage};
use crate::config::Config;

#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a key and print it, this once
    Create {
        /// Who will use it: the name in the history of what is written with the key
        name: String,
        /// Let it reach these namespaces alone, each with a right (read, write, share, admin): acme=write,docs=read
        #[arg(long, value_name = "NAME[=RIGHT],…", value_delimiter = ',', required_unless_present = "owner")]
        namespaces: Vec<String>,
        /// Let it do everything, as you can
        #[arg(long, conflicts_with = "namespaces")]
        owner: bool,
        /// For how long it holds, such as 90d or 12h [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<SignedDuration>,
        /// Print for programs
        #[arg(long)]
        json: bool,
    },
    /// List the keys that hold, without the keys themselves
    List {
        /// Print for programs: a line for each
        #[arg(long)]
        json: bool,
    },
    /// Make a key useless, within a second and on open connections too
    Revoke {
        /// Its id, as `kenning token list` shows it
        id: String,
    },
}

/// Parses a number of days or hours; a day has 24 hours.
fn lifetime(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("`{text}` is no time; write days or hours, such as 90d or 12h");
    let (number, hours) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((number, "d")) => (number, 24),
        Some((number, "h")) => (number, 1),
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().ok().filter(|number| (1..=36_500).contains(number)).ok_or_else(wrong)?;
    Ok(SignedDuration::from_hours(number * hours))
}

pub fn run(config: &Config, token: Token) -> anyhow::Result<Outcome> {
    let keys = Keys::in_dir(&config.data_dir()?);
    let now = Timestamp::now();
    match token.action {
        Action::Create { name, namespaces, owner, expires, json } => {
            if config.read_only {
                return Err(usage("`token create` writes, and `--read-only` was given"));
            }
            let name = line(&name);
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(usage(format!("a key needs a name of at most {NAME_BYTES_MAX} bytes")));
            }
            let engine = config.engine()?;
            let principal = config.principal();
            // The store must exist, because a key refers to namespaces by their ids.
            let snapshot = engine.snapshot(&principal)?;
            let (grants, first) = if owner {
                (Grants::Owner, ScopeName::global_default())
            } else {
                let (rights, first) = rights_of(&engine, &principal, &namespaces)?;
                (Grants::Namespaces(rights), first)
            };
            let scope = match config.named_scope() {
                Some(scope) => {
                    let scope = scope_name(scope).map_err(|stop| usage(stop.message))?;
                    snapshot.scope(&scope)?;
                    scope
                }
                None => first,
            };
            let is_read_there = writes_elsewhere(&grants, &scope, &snapshot.tree()?);
            let expires_at = expires.map(|expires| now.checked_add(expires)).transpose()?;
            let new = NewKey { name, grants, scope: scope.to_string(), expires_at };
            let (text, key) = keys.create(new, now)?;
            if json {
                let mut shown = shown(&key);
                shown["key"] = json!(text);
                print(&shown.to_string())?;
            } else {
                print(&text)?;
                complain(&format!(
                    "this is key {} of {}, and it is shown only now; clients send it as `Authorization: Bearer KEY`",
                    key.id, key.name
                ));
            }
            if is_read_there {
                complain(&format!(
                    "calls with it that name no scope go to `{}`, where it reads and does not write, because other scopes inherit from it; \
                     give `--scope` with a project's scope, or the right `share`",
                    key.scope
                ));
            }
            Ok(Outcome::Done)
        }
        Action::List { json } => {
            let keys: Vec<Key> = keys.list()?.into_iter().filter(|key| key.is_live(now)).collect();
            if keys.is_empty() && !json {
                print(
                    "There is no key; `kenning token create NAME --namespaces acme=write --scope acme:web` makes one",
                )?;
            }
            for key in &keys {
                if json {
                    print(&shown(key).to_string())?;
                    continue;
                }
                let rights = match key.rights() {
                    None => "everything".to_owned(),
                    Some(rights) => rights_shown(config, rights)?,
                };
                let until = key.expires_at.map_or_else(String::new, |at| format!(", until {at}"));
                print(&format!(
                    "{}  {}  {rights}, scope {}{until}",
                    key.id,
                    line(&key.name),
                    line(&key.scope)
                ))?;
            }
            Ok(Outcome::Done)
        }
        Action::Revoke { id } => {
            if config.read_only {
                return Err(usage("`token revoke` writes, and `--read-only` was given"));
            }
            if !keys.revoke(&id, now)? {
                complain(&format!("there is no key `{id}`; `kenning token list` shows those that hold"));
                return Ok(Outcome::NotFound);
            }
            print(&format!("Key {id} does not hold any more"))?;
            Ok(Outcome::Done)
        }
    }
}

const NAME_BYTES_MAX: usize = 64;

fn shown(key: &Key) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "grants": key.grants,
        "scope": key.scope,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    })
}

/// Whether these grants allow writing in the namespace of a scope, and not in the scope itself: all others of
/// the namespace inherit from its `default`, so writing there needs the right `share`.
fn writes_elsewhere(grants: &Grants, scope: &ScopeName, tree: &Tree) -> bool {
    let Grants::Namespaces(rights) = grants else { return false };
    let right = tree.namespace(&scope.namespace).and_then(|(id, _)| rights.get(&id));
    right == Some(&Right::Write) && scope.name == DEFAULT
}

/// The rights, with the present names of the namespaces.
fn rights_shown(config: &Config, rights: &BTreeMap<Id, Right>) -> anyhow::Result<String> {
    let engine = config.engine()?;
    let tree = engine.snapshot(&config.principal())?.tree()?;
    let named = rights.iter().map(|(id, right)| {
        let named = tree.namespaces().find(|(known, _)| known == id);
        let name = named.map_or_else(|| format!("(gone: {id})"), |(_, namespace)| namespace.name.clone());
        format!("{name}={}", right.as_str())
    });
    Ok(named.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_days_or_hours() {
        assert_eq!(lifetime("90d"), Ok(SignedDuration::from_hours(90 * 24)));
        assert_eq!(lifetime("12h"), Ok(SignedDuration::from_hours(12)));
        for wrong in ["", "d", "90", "-1d", "0h", "1.5d", "99999999999999999999d", "90 d", "ü"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
