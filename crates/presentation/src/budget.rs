//! Limits for the size of a reply.

use std::io;

use serde::Serialize;

/// The most bytes of a reply in one channel.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of text in a reply that also has an embedded resource.
pub const TEXT_BESIDE_BYTES_MAX: usize = 16 * 1024;
/// The most bytes of rows that only the structured channel contains whole; the text of a row is never longer
/// than the row.
pub const ROWS_BYTES_MAX: usize = 60 * 1024;
/// The most bytes of rows that the text channel contains too, as an embedded resource beside the text.
pub const ROWS_EMBEDDED_BYTES_MAX: usize = REPLY_BYTES_MAX - TEXT_BESIDE_BYTES_MAX - 1024;

/// Takes rows while they fit, so a page ends early instead of growing too large. A row that is too large by
/// itself is shortened by `cut` first, so at least one row is taken.
pub fn take_rows<T: Serialize>(rows: Vec<T>, bytes_max: usize, cut: impl Fn(T) -> T) -> Vec<T> {
    let mut taken = Vec::with_capacity(rows.len());
    let mut bytes = 0;
    for row in rows {
        let mut row = row;
        let mut size = json_bytes(&row);
        if size > bytes_max {
            row = cut(row);
            size = json_bytes(&row);
        }
        if bytes + size > bytes_max && !taken.is_empty() {
            break;
        }
        bytes += size + 1;
        taken.push(row);
    }
    taken
}

/// The size of a value as JSON. The JSON is counted while it is written, and not kept.
pub fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut counter = ByteCounter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many bytes of each row's stored text fit into the text of a reply with this number of rows.
pub fn excerpt_bytes(rows: usize) -> usize {
    // The bytes around an excerpt: the id, the number, line breaks.
    const AROUND: usize = 40;
    ((TEXT_BESIDE_BYTES_MAX - 1024) / rows.max(1)).saturating_sub(AROUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_early_and_a_row_too_large_is_cut() {
        let cut = |row: String| row.chars().take(10).collect::<String>();
        let rows = |bytes, many| take_rows(vec!["x".repeat(bytes); many], 100, cut);
        assert_eq!(rows(34, 4).len(), 2);
        assert_eq!(rows(101, 1), ["xxxxxxxxxx"]);
        assert!(rows(1, 0).is_empty());
    }

    #[test]
    fn counted_bytes_are_those_that_are_written() {
        let value = serde_json::json!({"text": "a \"b\"\n\u{1}é", "list": [1, 2.5, null, true], "none": {}});
        assert_eq!(json_bytes(&value), value.to_string().len());
    }
}
