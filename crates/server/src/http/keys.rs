//! Keys: credentials for HTTP that `kenning token` makes. A key is shown once, and only its hash is kept.
//!
//! `keys.jsonl` in the data directory has one line for each fact, "this key was made" or "this key was
//! revoked". Lines are only appended, so two processes that write at the same time lose nothing, and a
//! running server sees a change within a moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use jiff::Timestamp;
use kenning_model::{Grants, Id, Principal, Right};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::limits::{Stamp, stamp};

pub const KEYS_FILE: &str = "keys.jsonl";
/// The beginning of every key, by which scanners can find a key that leaked.
const PREFIX: &str = "kenning";
const ID_BYTES: usize = 5;
const SECRET_BYTES: usize = 32;
/// The longest credential that can be a key; a longer one is not looked up.
const KEY_BYTES_MAX: usize = 128;

/// The record of a key in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// The id of the key in lists and in the log. It gives no access.
    pub id: String,
    /// The name that writes with the key have in the log.
    pub name: String,
    /// SHA-256 of the key as hexadecimal digits. A key has 256 random bits, so a slow hash would add nothing.
    hash: String,
    pub grants: Grants,
    /// The scope of calls that name none.
    pub scope: String,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fact {
    Created(Key),
    Revoked { id: String, at: Timestamp },
}

/// The name, the rights and the scope of a key that is to be made.
pub struct NewKey {
    pub name: String,
    pub grants: Grants,
    pub scope: String,
    pub expires_at: Option<Timestamp>,
}

impl Key {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// The principal of calls with this key. Its subject is the key, so each key owns only what was made with
    /// it.
    pub fn principal(&self) -> Principal {
        let subject = format!("key {}", self.id);
        Principal { origin: subject.clone(), subject, actor: self.name.clone(), grants: self.grants.clone() }
    }

    /// The rights of a key by namespace; `None` for a key of the owner.
    pub fn rights(&self) -> Option<&BTreeMap<Id, Right>> {
        match &self.grants {
            Grants::Owner => None,
            Grants::Namespaces(rights) => Some(rights),
        }
    }
}

/// The keys of a data directory. The file is read again when it has changed.
pub struct Keys {
    file: PathBuf,
    read: Mutex<(Option<Stamp>, Vec<Key>)>,
}

impl Keys {
    pub fn in_dir(dir: &Path) -> Keys {
        Keys { file: dir.join(KEYS_FILE), read: Mutex::default() }
    }

    /// A second reader of the same file, for the page that lists the keys.
    pub(super) fn again(&self) -> Keys {
        Keys { file: self.file.clone(), read: Mutex::default() }
    }

    /// Makes a key and returns it with its record. The key itself is known at this moment only.
    pub fn create(&self, new: NewKey, now: Timestamp) -> io::Result<(String, Key)> {
        let id = data_encoding::HEXLOWER.encode(&rand::random::<[u8; ID_BYTES]>());
        let secret = data_encoding::BASE32_NOPAD.encode(&rand::random::<[u8; SECRET_BYTES]>());
        let text = format!("{PREFIX}_{id}_{}", secret.to_lowercase());
        let NewKey { name, grants, scope, expires_at } = new;
        let key = Key { id, name, hash: hash(&text), grants, scope, created_at: now, expires_at };
        self.append(&Fact::Created(key.clone()))?;
        Ok((text, key))
    }

    /// Revokes a key; returns whether the key existed.
    pub fn revoke(&self, id: &str, now: Timestamp) -> io::Result<bool> {
        if !self.list()?.iter().any(|key| key.id == id) {
            return Ok(false);
        }
        self.append(&Fact::Revoked { id: id.to_owned(), at: now })?;
        Ok(true)
    }

    /// All keys that were not revoked, including expired ones.
    pub fn list(&self) -> io::Result<Vec<Key>> {
        let stamp = match stamp(&self.file) {
            Ok(stamp) => Some(stamp),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp.is_none() || read.0 != stamp {
            let text = if stamp.is_some() { std::fs::read_to_string(&self.file)? } else { String::new() };
            *read = (stamp, keys_of(&text));
        }
        Ok(read.1.clone())
    }

    /// The key that a caller has shown, if it exists and is valid.
    pub(super) fn find(&self, shown: &str, now: Timestamp) -> io::Result<Option<Key>> {
        if shown.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        // Hashes are compared, so the duration of the comparison reveals nothing about any key.
        let hash = hash(shown);
        Ok(self.list()?.into_iter().find(|key| key.hash == hash && key.is_live(now)))
    }

    fn append(&self, fact: &Fact) -> io::Result<()> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.file)?;
        // A crash may have cut the last line short, so the new fact begins on a line of its own.
        file.write_all(format!("\n{}\n", serde_json::to_string(fact)?).as_bytes())?;
        file.sync_data()
    }
}

/// Whether a credential looks like a key, whatever key it is.
pub(super) fn is_key(shown: &str) -> bool {
    shown.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('_'))
}

fn hash(key: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(key.as_bytes()))
}

/// The keys that were made and not revoked. A line that was cut short is skipped.
fn keys_of(text: &str) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for fact in text.lines().filter_map(|line| serde_json::from_str::<Fact>(line).ok()) {
        match fact {
            Fact::Created(key) => keys.push(key),
            Fact::Revoked { id, .. } => keys.retain(|key| key.id != id),
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str) -> NewKey {
        let (grants, scope) = (Grants::Owner, "global:default".to_owned());
        NewKey { name: name.to_owned(), grants, scope, expires_at: None }
    }

    #[test]
    fn a_key_holds_until_it_is_revoked_or_expires() {
        let dir = tempfile::tempdir().expect("a directory");
        let (keys, running) = (Keys::in_dir(dir.path()), Keys::in_dir(dir.path()));
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let later = Timestamp::from_second(1_800_000_060).expect("a time");
        assert!(running.find("kenning_0_0", now).expect("readable").is_none());
        let (text, key) = keys.create(new("ci"), now).expect("writable");
        let (short, _) =
            keys.create(NewKey { expires_at: Some(later), ..new("short") }, now).expect("writable");
        assert_eq!(running.find(&text, now).expect("readable").as_ref(), Some(&key));
        assert!(running.find(&short, now).expect("readable").is_some());
        assert!(running.find(&short, later).expect("readable").is_none());
        for wrong in
            [&text[..text.len() - 1], &text.to_uppercase(), &format!("{text} "), "", &"k".repeat(4096)]
        {
            assert!(running.find(wrong, now).expect("readable").is_none(), "{wrong}");
        }
        assert!(!keys.revoke("unknown", now).expect("writable"));
        assert!(keys.revoke(&key.id, now).expect("writable"));
        assert!(running.find(&text, now).expect("readable").is_none());
        let file = std::fs::read_to_string(dir.path().join(KEYS_FILE)).expect("readable");
        assert!(!file.contains(&text[text.len() - 20..]), "only the hash of a key is kept");
    }
}
