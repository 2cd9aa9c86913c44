//! The file of a closed store, and the offsets of each value of each row in it, so that a test can damage the
//! value.

use std::fs;
use std::path::Path;

use kenning_model::{EntityType, Id, Pattern, ScopeId, ScopeName};
use kenning_storage::{
    EntryPatch, Keyed, NamespacePatch, NewDocument, NewEntry, NewNamespace, NewScope, NewSection, NewTriple,
    OnConflict, Request, STORE_FILE, Storage, UndoTarget, UndoWish, Write,
};
use rusqlite::Connection;

use crate::TempStore;

pub struct Table {
    pub name: String,
    pub columns: Vec<String>,
    /// The values of every row, in the order of the key.
    pub rows: Vec<Vec<Value>>,
}

/// One value of one row, as offsets into the file.
pub struct Value {
    /// The offset of the byte with the value's type and length. NULL, 0 and 1 have no other bytes.
    pub type_at: usize,
    pub bytes_at: Vec<usize>,
}

/// The file of a store in which every table has rows, and some rows are longer than a page.
pub fn closed_store() -> Vec<u8> {
    let store = TempStore::new();
    fill(&store.storage());
    // When the last connection closes, SQLite moves everything into the main file and removes the write-ahead
    // log.
    assert!(!store.path().join(format!("{STORE_FILE}-wal")).exists(), "the log is in the main file");
    fs::read(store.path().join(STORE_FILE)).expect("the store is read")
}

fn fill(storage: &Storage) {
    let commit = |number: usize, tool: &str, write| -> (kenning_model::TxId, Id) {
        let keyed = Keyed {
            key: format!("key {number}"),
            digest: format!("digest {number}"),
            reply: Box::new(|committed| format!("transaction {}", committed.tx.id)),
        };
        let principal = kenning_model::Principal::owner("tester", "here").into();
        let request = Request { principal, tool: tool.to_owned(), write, keyed: Some(keyed) };
        let tx = storage.commit(request).expect("the write is accepted").tx;
        (tx.id, tx.changes[0].id)
    };
    let description = "Where half of it is".to_owned();
    let namespace = NewNamespace { name: "acme".to_owned(), description: description.clone() };
    commit(9_001, "create_namespace", Write::CreateNamespace(namespace));
    let scope = |name: &str, parents: &[&str]| {
        let parents = parents.iter().map(|name| ScopeName::new("acme", name)).collect();
        Write::CreateScope(NewScope {
            name: ScopeName::new("acme", name),
            description: description.clone(),
            parents,
        })
    };
    commit(9_002, "create_scope", scope("mobile", &[]));
    commit(9_003, "create_scope", scope("shop", &["mobile"]));
    commit(9_004, "delete_scope", Write::DeleteScope { name: ScopeName::new("acme", "mobile") });
    let patch = NamespacePatch { name: Some("acme-corp".to_owned()), description: None };
    commit(9_005, "update_namespace", Write::UpdateNamespace { name: "acme".to_owned(), patch });
    let document = |hash: &str, texts: &[&str]| {
        let section = |text: &&str| NewSection {
            level: 1,
            heading_path: vec!["Guide".to_owned(), (*text).to_owned()],
            anchor: (*text).to_owned(),
            text: text.repeat(20),
            parent: None,
            links: Vec::new(),
            mentions: Vec::new(),
        };
        Write::PutDocument(Box::new(NewDocument {
            scope: ScopeId(1),
            source: "docs".to_owned(),
            path: "guide.md".to_owned(),
            title: "Guide".to_owned(),
            doc_tag: "docs".to_owned(),
            tags: Vec::new(),
            repository: None,
            environment: None,
            updated: None,
            root: "0123".to_owned(),
            default_tag: "docs".to_owned(),
            catalogue: true,
            pattern: Some(Box::new(Pattern {
                id: format!("pattern-{hash}"),
                summary: "A guide.".to_owned(),
                description: "A longer guide.".to_owned(),
                category: "guides".to_owned(),
                difficulty: Some("beginner".to_owned()),
                related: Vec::new(),
                use_when: None,
                avoid_when: None,
            })),
            hash: hash.to_owned(),
            sections: texts.iter().map(section).collect(),
        }))
    };
    commit(9_006, "ingest", document("one", &["setup", "use", "end"]));
    commit(9_007, "ingest", document("two", &["setup", "use more"]));
    for number in 0..12 {
        let valid = |second: i64| Some(crate::fixed_start() + jiff::SignedDuration::from_secs(second));
        let entry = NewEntry {
            scope: ScopeId(1 + number as u32 % 2),
            topic: format!("Topic {number}"),
            content: "words ".repeat(1 + 400 * (number % 4)),
            context: None,
            tags: vec!["damage".to_owned()],
            task_sizes: Vec::new(),
            source: None,
            confidence: Some(0.5),
            valid_from: valid(-9).filter(|_| number % 3 == 0),
            valid_to: valid(9_999_999).filter(|_| number % 3 == 0),
            pinned: number % 4 == 0,
            follows: None,
        };
        let (_, id) = commit(10 * number, "store", Write::Store(entry));
        let triple = NewTriple {
            scope: ScopeId(1),
            subject: format!("service {}", number / 2),
            predicate: "runs on".to_owned(),
            object: format!("host {number}"),
            source: None,
            confidence: None,
        };
        let replace = Write::Relate { triple, on_conflict: OnConflict::Replace };
        commit(10 * number + 1, "relate", replace);
        let patch = EntryPatch { topic: Some(format!("Renamed {number}")), ..EntryPatch::default() };
        let (renamed, _) =
            commit(10 * number + 2, "update", Write::Update { id, patch, expected_version: None });
        if number % 2 == 0 {
            let target = UndoTarget::Tx(renamed);
            let wish = UndoWish { target, any_actor: false, within: None };
            commit(10 * number + 3, "undo", Write::Undo(wish));
        } else {
            let entity_type = EntityType::Entry;
            commit(10 * number + 3, "delete", Write::Delete { entity_type, id });
        }
    }
}

/// Every table of the store with its rows, found by a walk over the pages of the file.
pub fn tables(path: &Path) -> Vec<Table> {
    let conn = Connection::open(path).expect("the store opens");
    let mut roots = conn
        .prepare("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .expect("the schema is read");
    let roots: Vec<(String, usize)> = roots
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .expect("the schema is read");
    let file = Pages(fs::read(path).expect("the store is read"));
    let table = |(name, root): (String, usize)| {
        let columns = conn
            .prepare(&format!("SELECT * FROM {name}"))
            .map(|statement| statement.column_names().map(str::to_owned).collect())
            .expect("the table is there");
        let mut rows = Vec::new();
        file.walk(root, &mut rows);
        Table { name, columns, rows }
    };
    roots.into_iter().map(table).collect()
}

/// The part of SQLite's file format that is needed for tables without a rowid: their rows are the cells of an
/// index tree.
struct Pages(Vec<u8>);

const LEAF: u8 = 0x0a;
const INTERIOR: u8 = 0x02;

impl Pages {
    fn size(&self) -> usize {
        self.number(16, 2)
    }

    fn number(&self, at: usize, bytes: usize) -> usize {
        self.0[at..at + bytes].iter().fold(0, |number, byte| number << 8 | *byte as usize)
    }

    /// The varint at an offset of a payload or of the file, and the number of bytes that it takes.
    fn varint(&self, at: impl Fn(usize) -> usize) -> (usize, usize) {
        let mut number = 0;
        for length in 1..=8 {
            let byte = self.0[at(length - 1)];
            number = number << 7 | (byte & 0x7f) as usize;
            if byte < 0x80 {
                return (number, length);
            }
        }
        panic!("no length in a store is as long as nine bytes can say");
    }

    fn walk(&self, page: usize, rows: &mut Vec<Vec<Value>>) {
        let start = (page - 1) * self.size();
        let kind = self.0[start];
        assert!(kind == LEAF || kind == INTERIOR, "page {page} belongs to a table without a rowid");
        let header = if kind == LEAF { 8 } else { 12 };
        for cell in 0..self.number(start + 3, 2) {
            let mut at = start + self.number(start + header + 2 * cell, 2);
            if kind == INTERIOR {
                self.walk(self.number(at, 4), rows);
                at += 4;
            }
            rows.push(self.row(at));
        }
        if kind == INTERIOR {
            self.walk(self.number(start + 8, 4), rows);
        }
    }

    fn row(&self, cell: usize) -> Vec<Value> {
        let payload = self.payload(cell);
        let (header, mut at) = self.varint(|byte| payload[byte]);
        let mut next = header;
        let mut values = Vec::new();
        while at < header {
            let (serial, length) = self.varint(|byte| payload[at + byte]);
            let size = match serial {
                0 | 8 | 9 => 0,
                1..=4 => serial,
                5 => 6,
                6 | 7 => 8,
                _ => (serial - 12) / 2,
            };
            let bytes_at = payload[next..next + size].to_vec();
            values.push(Value { type_at: payload[at + length - 1], bytes_at });
            next += size;
            at += length;
        }
        values
    }

    /// The offset of each byte of a cell's payload: the beginning is in the cell, the rest on overflow pages.
    fn payload(&self, cell: usize) -> Vec<usize> {
        let (total, length) = self.varint(|byte| cell + byte);
        // The last bytes of each page are its checksum.
        let usable = self.size() - self.number(20, 1);
        let local_max = (usable - 12) * 64 / 255 - 23;
        let local_min = (usable - 12) * 32 / 255 - 23;
        let local = match local_min + (total - local_min.min(total)) % (usable - 4) {
            _ if total <= local_max => total,
            rest if rest <= local_max => rest,
            _ => local_min,
        };
        let mut payload: Vec<usize> = (cell + length..cell + length + local).collect();
        let mut link = cell + length + local;
        while payload.len() < total {
            let page = (self.number(link, 4) - 1) * self.size();
            payload.extend(page + 4..page + 4 + (total - payload.len()).min(usable - 4));
            link = page;
        }
        payload
    }
}
