//! What has to be done so that a folder and a scope are level: a pure function of what both agreed on, and of what each has.
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
use super::{Agreed, hash};
use crate::commands::entry_file::{EntryFile, file_name};

/// A live entry of the scope.
pub(super) struct Stored {
    pub(super) version: u32,
    pub(super) file: EntryFile,
}

/// An entry that is to be made of a file.
pub(super) struct Created {
    /// The file that gets the id; none if the id gets a file of its own.
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
    /// What both sides agree on once the entries are written, as far as no file has to be.
    pub(super) level: BTreeMap<Id, Agreed>,
}

impl Plan {
    pub(super) fn make(
        agreed: &BTreeMap<Id, Agreed>,
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
            // Of a file and its copies the one stays that was there before.
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
        // What can't be read says nothing about its entry.
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
                plan.level.extend(base.map(|base| (id, base.clone())));
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
                        plan.level.insert(id, Agreed { path: (*path).clone(), hash: of_file });
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
            // An entry that says exactly this and has no file is the file's: a run may have ended between the two.
            let same = unclaimed.get_mut(&hash_without_id(file)).and_then(Vec::pop);
            match same {
                Some(id) => {
                    alone.remove(&id);
                    let file = EntryFile { id: Some(id), ..file.clone() };
                    let path = path.cloned().unwrap_or_else(|| file_name(&file.topic, id));
                    plan.written.push((id, path, file));
                }
                None => {
                    // The entry that it follows may be gone, or of another store.
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
        // An entry that another one follows is deleted after that one is written, and names of files are in order.
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
        // As it is, or another entry of the scope.
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
