//! Removing something for good, with all that was made of it: the rows of the log, the index, what the disk still has. What was
//! removed is noted beside the store, so that a backup from before does not bring it back unnoticed.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::Path;

use kenning_model::{EntityType, Id, Principal, Timestamp, TxId};
use kenning_storage::{Applied, At, Error, PurgePlan, PurgeSelection, Purged, RecordKey, Storage, Stored};
use serde::{Deserialize, Serialize};

use crate::{Engine, OpenStore};

/// In the data directory: a line for each purge.
pub const PURGED_FILE: &str = "purged.jsonl";

/// A line of that file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeNote {
    pub at: Timestamp,
    pub actor: String,
    pub tx_id: TxId,
    /// The store that it was removed from, by the id that it had until then, and the id that it has since.
    pub store: String,
    pub renewed: String,
    pub purged: Vec<PurgedId>,
}

/// An id that was purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgedId {
    #[serde(rename = "type")]
    pub entity_type: EntityType,
    pub id: Id,
    /// Versions up to this one were removed. Later ones were written afterwards.
    pub last_version: u32,
}

impl PurgeNote {
    fn new(purged: &Purged) -> PurgeNote {
        let Purged { tx_id, at, actor, plan, store } = purged;
        let ids = plan.items.iter().map(|item| PurgedId {
            entity_type: item.entity_type,
            id: item.id,
            last_version: item.last_version,
        });
        PurgeNote {
            at: *at,
            actor: actor.clone(),
            tx_id: *tx_id,
            store: plan.store.to_string(),
            renewed: store.to_string(),
            purged: ids.collect(),
        }
    }
}

/// Everything that was ever purged from the store of a data directory, also from a store that was replaced by a restore.
pub fn purge_notes(dir: &Path) -> io::Result<Vec<PurgeNote>> {
    let file = match fs::File::open(dir.join(PURGED_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut notes = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line?;
        match serde_json::from_str(&line) {
            Ok(note) => notes.push(note),
            // The power may have gone while it was written, before anything was removed.
            Err(error) => tracing::warn!(%error, "a line of {PURGED_FILE} can't be read"),
        }
    }
    Ok(notes)
}

/// Whether the one store became the other by purges alone.
pub fn is_same_log(notes: &[PurgeNote], from: &str, to: &str) -> bool {
    let rest = |at: usize| notes.get(at + 1..).unwrap_or_default();
    let of_store = notes.iter().enumerate().filter(|(_, note)| note.store == from);
    of_store.into_iter().any(|(at, note)| note.renewed == to || is_same_log(rest(at), &note.renewed, to))
}

/// The purged ids whose text a store contains, as a backup from before the purge does.
pub fn brought_back(storage: &Storage, notes: &[PurgeNote]) -> Result<Vec<PurgedId>, Error> {
    let mut ids: BTreeMap<(EntityType, Id), PurgedId> = BTreeMap::new();
    for purged in notes.iter().flat_map(|note| &note.purged) {
        let last = &mut ids.entry((purged.entity_type, purged.id)).or_insert(*purged).last_version;
        *last = purged.last_version.max(*last);
    }
    let reader = storage.reader()?;
    let mut found = Vec::new();
    for purged in ids.into_values() {
        let PurgedId { entity_type, id, last_version } = purged;
        let touches = reader.touches(entity_type, id, None)?;
        let key = |tx: &TxId| RecordKey { entity_type, id, at: At::Live(*tx) };
        let records = reader.records(&touches.iter().map(key).collect::<Vec<_>>())?;
        let says_it =
            |stored: &Stored| stored.record.tombstone().is_none() && stored.record.version() <= last_version;
        found.extend(records.iter().flatten().any(says_it).then_some(purged));
    }
    Ok(found)
}

/// The note is on the disk before anything is removed: a note of something that is still there does less harm than the opposite.
fn note(dir: &Path, purged: &Purged) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let path = dir.join(PURGED_FILE);
    let mut file = options.open(&path)?;
    // The line before may be unfinished, if the power went while it was written.
    let before = if fs::read(&path)?.last().is_some_and(|byte| *byte != b'\n') { "\n" } else { "" };
    let line = serde_json::to_string(&PurgeNote::new(purged)).map_err(io::Error::other)?;
    writeln!(file, "{before}{line}")?;
    file.sync_all()
}

impl Engine {
    /// The versions that a purge would remove now, and the token that confirms it.
    pub fn plan_purge(&self, selection: &PurgeSelection) -> Result<(PurgePlan, String), Error> {
        self.storage()?.plan_purge(selection)
    }

    /// Removes what a plan with this token says from the store. What the disk still has of it, `finish_purge` removes.
    pub fn purge(
        &self,
        selection: &PurgeSelection,
        token: &str,
        principal: &Principal,
    ) -> Result<Purged, Error> {
        let dir = &self.cache_dir;
        let noted = |purged: &Purged| {
            note(dir, purged).map_err(|error| Error::Unavailable {
                applied: Applied::No,
                reason: format!("{PURGED_FILE} can't be written: {}", error.kind()),
            })
        };
        self.storage()?.purge(selection, token, principal, noted)
    }

    /// Removes what the disk still has of what was purged.
    pub fn finish_purge(&self) -> Result<(), Error> {
        finish(self.opened()?)
    }
}

fn finish(opened: &OpenStore) -> Result<(), Error> {
    for index in [&opened.indexed, &opened.sections, &opened.patterns] {
        index.remove()?;
    }
    // Last, since it also ends the note that there is something left to do.
    opened.storage.backend().scrub()
}

/// A process that purged something may have ended before it was finished.
pub(crate) fn finish_if_needed(opened: &OpenStore) {
    match opened.storage.backend().has_remains() {
        Ok(false) => {}
        Ok(true) => match finish(opened) {
            Ok(()) => tracing::warn!("what an interrupted purge has left on the disk was removed"),
            Err(error) => tracing::warn!(%error, "what a purge has left on the disk is still there"),
        },
        Err(error) => tracing::warn!(%error, "whether a purge was finished is not known"),
    }
}
