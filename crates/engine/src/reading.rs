//! Readings: values in memory that follow the log, all through one function. A reading can be discarded and
//! read again from the log at any time.

use std::sync::{RwLock, RwLockReadGuard};

use kenning_model::{EntityType, TxId};
use kenning_storage::{Error, LogChange, Position, Reader, StoreId};

/// The number of changes that are read from the log at a time.
pub(crate) const PAGE: usize = 1024;

/// A value that follows the log change by change. It keeps the lifetime of each version, so once it has read
/// up to a transaction it also answers as of all earlier ones.
pub(crate) trait Follower: Default {
    /// The types whose changes it receives.
    const KINDS: &'static [EntityType];

    fn apply(&mut self, change: &LogChange);
}

/// A follower, with the store and the transaction up to which it has read.
pub(crate) struct Reading<T>(RwLock<State<T>>);

#[derive(Default)]
struct State<T> {
    /// The store whose log was read. A restore puts another store in its place.
    store: StoreId,
    at: TxId,
    value: T,
}

impl<T: Follower> Default for Reading<T> {
    fn default() -> Reading<T> {
        Reading(RwLock::new(State::default()))
    }
}

impl<T: Follower> Reading<T> {
    /// Passes the value to `look`, after it has read the log of this store up to `at` at least.
    pub(crate) fn with<R>(
        &self,
        reader: &dyn Reader,
        store: StoreId,
        at: TxId,
        look: impl FnOnce(&T) -> R,
    ) -> Result<R, Error> {
        let is_level = |state: &State<T>| state.at >= at && state.store == store;
        {
            let state = self.read();
            if is_level(&state) {
                return Ok(look(&state.value));
            }
        }
        let Reading(lock) = self;
        let mut guard = lock.write().unwrap_or_else(|poisoned| {
            // A panic may have left a change half applied, so the log is read again from its beginning.
            lock.clear_poison();
            let mut state = poisoned.into_inner();
            *state = State::default();
            state
        });
        if !is_level(&guard) {
            // The value is put back only after it has caught up, so an error leaves no half-read value behind.
            let mut state = std::mem::take(&mut *guard);
            if state.store != store {
                state = State { store, ..State::default() };
            }
            follow(reader, store, T::KINDS, state.at, at, |changes| {
                changes.iter().for_each(|change| state.value.apply(change));
                Ok::<(), Error>(())
            })?;
            state.at = at;
            *guard = state;
        }
        Ok(look(&guard.value))
    }

    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Passes the changes of these types after one transaction and up to another to `take`, page by page, in the
/// order of the log. `take` runs between two reads and may read more from the store.
pub(crate) fn follow<E: From<Error>>(
    reader: &dyn Reader,
    store: StoreId,
    entity_types: &[EntityType],
    after: TxId,
    to: TxId,
    mut take: impl FnMut(Vec<LogChange>) -> Result<(), E>,
) -> Result<(), E> {
    let mut from = Position::before(after.next());
    loop {
        let page = reader.changes(entity_types, from, to.next(), PAGE)?;
        take(page.changes)?;
        let Some(next) = page.next else { return Ok(()) };
        from = next;
        // A page comes from one log, but the store may be restored between two pages.
        if reader.store_id()? != store {
            let reason = "the store was restored while its log was read".to_owned();
            return Err(Error::Unavailable { applied: kenning_storage::Applied::No, reason }.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kenning_model::Principal;
    use kenning_model::ScopeId;
    use kenning_storage::{NewEntry, Request, Storage, Write};

    #[derive(Default)]
    struct Ids(Vec<TxId>);

    impl Follower for Ids {
        const KINDS: &'static [EntityType] = &[EntityType::Entry];

        fn apply(&mut self, change: &LogChange) {
            self.0.push(change.tx);
        }
    }

    fn store_entries(storage: &Storage, many: usize) {
        let new = |number| NewEntry::new(ScopeId(1), format!("topic {number}"), "content".to_owned());
        let request = Request {
            principal: Principal::owner("tester", "here").into(),
            tool: "test".to_owned(),
            write: Write::StoreAll((0..many).map(new).collect()),
            keyed: None,
        };
        storage.commit(request).expect("a write");
    }

    #[test]
    fn a_reading_catches_up_page_by_page_and_begins_again_in_another_store() {
        let [one, other] = [(); 2].map(|()| kenning_testkit::TempStore::new());
        let [first, second] = [&one, &other].map(|store| store.storage());
        store_entries(&first, 2 * PAGE + 1);
        store_entries(&first, 1);
        store_entries(&second, 3);
        let reading = Reading::<Ids>::default();
        let many = |storage: &Storage, at: u64| {
            let reader = storage.reader().expect("a reader");
            let store = reader.store_id().expect("an id");
            reading.with(&*reader, store, TxId(at), |ids| ids.0.len()).expect("a reading")
        };
        assert_eq!(many(&first, 1), 2 * PAGE + 1, "a transaction is longer than a page");
        assert_eq!(many(&first, 2), 2 * PAGE + 2);
        assert_eq!(many(&first, 1), 2 * PAGE + 2, "it has read further already");
        assert_eq!(many(&second, 1), 3);
    }
}
