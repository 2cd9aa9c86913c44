//! Computes the changes that make a folder and a scope equal: a pure function of the state that both agreed
//! on, the files and the entries.
//!
//! | agreed on | file | entry | what is done |
//! |---|---|---|---|
//! | A | A | B | the file becomes B |
//! | A | B | A | the entry becomes B |
//! | A | B | C | the file becomes C, and B becomes a new entry |
//! | A | gone | A | the entry is deleted |
//! | A | A | gone | the file is removed |
//! | A | gone | B | the file is written again |
//! | A | B | gone | B becomes a new entry |
//! | nothing | none | A | the file is written |
//! | nothing | A | none | A becomes a new entry |

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kenning_model::Id;
use kenning_storage::{EntryDeletion, EntryPatch, EntryUpdate};

use super::folder::Folder;
use super::{SyncedFile, hash};
use crate::commands::entry_file::{EntryFile, file_name};

/// A live entry of the scope.
pub(super) struct Stored {
    pub(super) version: u32,
    pub(super) file: EntryFile,
}

/// An entry that is to be created from a file.
pub(super) struct Created {
    /// The file that gets the id of the new entry. `None` if the entry gets a new file.
    pub(super) path: Option<String>,
    pub(super) file: EntryFile,
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) created: Vec<Created>,
    pub(super) updated: Vec<EntryUpdate>,
    pub(super) deleted: Vec<EntryDeletion>,
    pub(super) written: Vec<(Id, String, EntryFile)>,
    pub(super) removed: Vec<(Id, String)>,
    pub(super) conflicts: usize,
    pub(super) refused: Vec<(String, String)>,
    /// The state on which both sides agree once the entries are written, except for the files that the plan
    /// itself writes or removes.
    pub(super) synced: BTreeMap<Id, SyncedFile>,
}

impl Plan {
    pub(super) fn make(
        agreed: &BTreeMap<Id, SyncedFile>,
        folder: &Folder,
        stored: &BTreeMap<Id, Stored>,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut files: BTreeMap<Id, (&String, &EntryFile)> = BTreeMap::new();
        let mut new: Vec<(&String, &EntryFile)> = Vec::new();
        for (path, file) in &folder.files {
            let file = match &file.read {
                Ok(file) => file,
                Err(why) => {
                    plan.refused.push((path.clone(), why.clone()));
                    continue;
                }
            };
            let Some(id) = file.id else {
                new.push((path, file));
                continue;
            };
            // If a file was copied, the one at the path from the last run keeps the id, and the copies become
            // new entries.
            let is_first = agreed.get(&id).is_some_and(|agreed| agreed.path == *path);
            match files.get(&id) {
                None => drop(files.insert(id, (path, file))),
                Some(other) if is_first => {
                    new.push(*other);
                    files.insert(id, (path, file));
                }
                Some(_) => new.push((path, file)),
            }
        }
        // A file that can't be read tells nothing about its entry, so the entry is left alone.
        let unread: HashSet<&String> = plan.refused.iter().map(|(path, _)| path).collect();
        let is_unread = |id: &Id| agreed.get(id).is_some_and(|agreed| unread.contains(&agreed.path));
        let untouched: Vec<Id> =
            agreed.keys().filter(|id| !files.contains_key(id) && is_unread(id)).copied().collect();
        let mut unclaimed: HashMap<String, Vec<Id>> = HashMap::new();
        for (id, stored) in
            stored.iter().filter(|(id, _)| !files.contains_key(id) && !agreed.contains_key(id))
        {
            unclaimed.entry(hash_without_id(&stored.file)).or_default().push(*id);
        }
        let ids: BTreeSet<Id> = agreed.keys().chain(files.keys()).chain(stored.keys()).copied().collect();
        let mut alone: BTreeSet<Id> = BTreeSet::new();
        let mut copies: Vec<(Option<&String>, &EntryFile)> = Vec::new();
        for id in ids {
            let base = agreed.get(&id);
            if untouched.contains(&id) {
                plan.synced.extend(base.map(|base| (id, base.clone())));
                continue;
            }
            match (files.get(&id), stored.get(&id)) {
                (Some((path, file)), Some(entry)) => {
                    let (of_file, of_entry) = (hash(file), hash(&entry.file));
                    let is_base = |hash: &String| base.is_some_and(|base| base.hash == *hash);
                    if of_file == of_entry || is_base(&of_entry) {
                        if of_file != of_entry {
                            plan.update(id, entry, file, stored);
                        }
                        plan.synced.insert(id, SyncedFile { path: (*path).clone(), hash: of_file });
                        continue;
                    }
                    if !is_base(&of_file) {
                        plan.conflicts += 1;
                        copies.push((None, file));
                    }
                    plan.written.push((id, (*path).clone(), entry.file.clone()));
                }
                (Some((path, file)), None) => match base {
                    Some(base) if base.hash == hash(file) => plan.removed.push((id, (*path).clone())),
                    _ => copies.push((Some(path), file)),
                },
                (None, Some(entry)) => match base {
                    Some(base) if base.hash == hash(&entry.file) => {
                        plan.deleted.push(EntryDeletion { id, expected_version: entry.version });
                    }
                    Some(base) => plan.written.push((id, base.path.clone(), entry.file.clone())),
                    None => drop(alone.insert(id)),
                },
                (None, None) => {}
            }
        }
        copies.extend(new.into_iter().map(|(path, file)| (Some(path), file)));
        for (path, file) in copies {
            // If an entry without a file has exactly this content, the file belongs to it: an earlier run may
            // have ended after it created the entry and before it wrote the id into the file.
            let same = unclaimed.get_mut(&hash_without_id(file)).and_then(Vec::pop);
            match same {
                Some(id) => {
                    alone.remove(&id);
                    let file = EntryFile { id: Some(id), ..file.clone() };
                    let path = path.cloned().unwrap_or_else(|| file_name(&file.topic, id));
                    plan.written.push((id, path, file));
                }
                None => {
                    // The entry that this one follows may have been deleted, or may belong to another store.
                    let follows = file.follows.filter(|follows| stored.contains_key(follows));
                    plan.created.push(Created {
                        path: path.cloned(),
                        file: EntryFile { id: None, follows, ..file.clone() },
                    });
                }
            }
        }
        for id in alone {
            if let Some(entry) = stored.get(&id) {
                plan.written.push((id, file_name(&entry.file.topic, id), entry.file.clone()));
            }
        }
        // The writes go in the order of the file names. An entry that another one follows is deleted only
        // after the other one is written.
        plan.written.sort_by(|one, other| one.1.cmp(&other.1));
        plan
    }

    fn update(&mut self, id: Id, entry: &Stored, file: &EntryFile, stored: &BTreeMap<Id, Stored>) {
        let EntryFile {
            topic,
            tags,
            context,
            task_sizes,
            source,
            confidence,
            pinned,
            valid_from,
            valid_to,
            content,
            ..
        } = file.clone();
        // A new predecessor must be another entry of this scope; the present one is always kept.
        let follows = file.follows.filter(|follows| {
            entry.file.follows == Some(*follows) || (stored.contains_key(follows) && *follows != id)
        });
        let patch = EntryPatch {
            scope: None,
            topic: Some(topic),
            content: Some(content),
            context: Some(context),
            tags: Some(tags),
            task_sizes: Some(task_sizes),
            source: Some(source),
            confidence: Some(confidence),
            valid_from: Some(valid_from),
            valid_to: Some(valid_to),
            pinned: Some(pinned),
            follows: Some(follows),
        };
        self.updated.push(EntryUpdate { id, expected_version: entry.version, patch });
    }
}

fn hash_without_id(file: &EntryFile) -> String {
    hash(&EntryFile { id: None, ..file.clone() })
}
