//! The floor for a durable write: append 600 bytes to a file and sync it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

pub struct BareWrite {
    file: File,
    record: [u8; 600],
}

impl BareWrite {
    pub fn new(dir: &Path) -> BareWrite {
        let file = OpenOptions::new().create(true).append(true).open(dir.join("floor.write"));
        BareWrite { file: file.expect("a file to write"), record: [b'x'; 600] }
    }

    pub fn write(&mut self) {
        self.file.write_all(&self.record).expect("a write");
        self.file.sync_data().expect("a sync");
    }
}
