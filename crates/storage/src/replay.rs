//! Reads a log from its beginning, checks every row, and derives all rows again. A verification compares
//! these with the stored ones.

use std::collections::{BTreeMap, HashMap};

use kenning_model::{EntityType, Id, Scope, ScopeId, TxId};

use crate::Error;
use crate::backend::Verified;
use crate::derive::{Derivation, DerivedRows, LiveScopes, Place, RowOperation};
use crate::log_row::{HEADER, Header, LogRow, entity_type_of};

/// Called with a place in the log, and what is wrong there.
pub(crate) type Report<'a> = &'a mut dyn FnMut(&str, String);

pub(crate) struct Replay {
    pub verified: Verified,
    tx: TxId,
    /// How many changes of the transaction were read, and below how many its header announces.
    seq: u32,
    promised: u32,
    derivation: Derivation,
    live: Live,
}

/// The state after the earlier transactions.
#[derive(Default)]
struct Live {
    /// The scope and counters of every live version.
    places: HashMap<(EntityType, Id), Place>,
    scopes: BTreeMap<Id, Scope>,
    closures: BTreeMap<ScopeId, Vec<ScopeId>>,
}

impl Replay {
    pub(crate) fn new() -> Replay {
        Replay {
            verified: Verified::default(),
            tx: TxId::EMPTY,
            seq: 0,
            promised: 0,
            derivation: Derivation::new(TxId::EMPTY, ""),
            live: Live::default(),
        }
    }

    /// Examines the next row of the log; `None` is a row that can't be read. A header returns the rows that
    /// were derived from the transaction before it.
    pub(crate) fn take(
        &mut self,
        place: &str,
        row: Option<LogRow>,
        damage: Report<'_>,
    ) -> Result<Option<DerivedRows>, Error> {
        self.verified.log_rows += 1;
        let Some(row) = row else {
            damage(place, "the row can't be read".to_owned());
            return Ok(None);
        };
        if !row.is_sound() {
            damage(place, "the row does not match its checksum".to_owned());
        }
        if row.kind == HEADER {
            return self.begin(place, &row, damage).map(Some);
        }
        self.seq += 1;
        if row.tx_id != self.tx.0 || row.seq != self.seq {
            damage(place, "the row is out of order".to_owned());
        }
        match (entity_type_of(row.kind), row.record(), row.id()) {
            (Some(entity_type), Ok(record), Ok(id)) => {
                if let Some(place) = self.live.places.remove(&(entity_type, id)) {
                    let closed = self.live.scopes.get(&id).filter(|_| entity_type == EntityType::Scope);
                    self.derivation.close(entity_type, id, place, closed.cloned());
                }
                if let Some(record) = &record {
                    let place = Place::of(record);
                    self.derivation.open(row.seq, id, record, &place);
                    self.live.places.insert((entity_type, id), place);
                }
            }
            // A bad checksum was reported already. An unreadable row with a good checksum is a bug, which is
            // worth reporting too.
            (_, Err(error), _) | (Some(_), _, Err(error)) if row.is_sound() => {
                damage(place, error.to_string())
            }
            (None, _, _) => damage(place, format!("there is no kind {}", row.kind)),
            _ => {}
        }
        Ok(None)
    }

    fn begin(&mut self, place: &str, row: &LogRow, damage: Report<'_>) -> Result<DerivedRows, Error> {
        let Replay { tx, seq, promised, .. } = self;
        if seq != promised {
            damage(place, format!("transaction {tx} has {seq} changes and should have {promised}"));
        }
        if row.tx_id != tx.0 + 1 || row.seq != 0 {
            damage(place, format!("it follows transaction {tx}: the numbers have a gap"));
        }
        self.tx = TxId(row.tx_id);
        (self.seq, self.promised) = (0, 0);
        let derived = self.derived(Derivation::new(self.tx, &row.id))?;
        self.verified.transactions += 1;
        if let Ok(Header { undoes, changes, .. }) = row.header() {
            self.promised = changes;
            self.derivation.undo(&undoes);
        }
        Ok(derived)
    }

    /// The rows derived from the last transaction.
    pub(crate) fn end(&mut self, damage: Report<'_>) -> Result<DerivedRows, Error> {
        let derived = self.derived(Derivation::new(TxId::EMPTY, ""))?;
        let Replay { tx, seq, promised, .. } = self;
        if seq != promised {
            damage("log", format!("transaction {tx} has {seq} changes and should have {promised}"));
        }
        Ok(derived)
    }

    fn derived(&mut self, next: Derivation) -> Result<DerivedRows, Error> {
        let derivation = std::mem::replace(&mut self.derivation, next);
        let (closed, opened) = derivation.changed_scopes();
        let derived = derivation.end(&self.live)?;
        closed.iter().for_each(|id| drop(self.live.scopes.remove(id)));
        self.live.scopes.extend(opened);
        for operation in &derived.operations {
            match operation {
                RowOperation::CloseClosure { scope } => drop(self.live.closures.remove(scope)),
                RowOperation::OpenClosure { scope, sees } => {
                    self.live.closures.insert(*scope, sees.clone());
                }
                _ => {}
            }
        }
        Ok(derived)
    }
}

impl LiveScopes for Live {
    fn scopes_in(&self, namespace: Id) -> Result<Vec<(Id, Scope)>, Error> {
        let scopes = self.scopes.iter().filter(|(_, scope)| scope.namespace == namespace);
        Ok(scopes.map(|(id, scope)| (*id, scope.clone())).collect())
    }

    fn default_of(&self, namespace: Id) -> Result<Option<(Id, Scope)>, Error> {
        let is_default = |scope: &Scope| scope.namespace == namespace && scope.name == kenning_model::DEFAULT;
        let found = self.scopes.iter().find(|(_, scope)| is_default(scope));
        Ok(found.map(|(id, scope)| (*id, scope.clone())))
    }

    fn numbered(&self, number: ScopeId) -> Result<Option<(Id, Scope)>, Error> {
        let found = self.scopes.iter().find(|(_, scope)| scope.number == number);
        Ok(found.map(|(id, scope)| (*id, scope.clone())))
    }

    fn closures_in(&self, namespace: Id) -> Result<BTreeMap<ScopeId, Vec<ScopeId>>, Error> {
        let scopes = self.scopes.values().filter(|scope| scope.namespace == namespace);
        let sees = |scope: &Scope| Some((scope.number, self.closures.get(&scope.number)?.clone()));
        Ok(scopes.filter_map(sees).collect())
    }
}
