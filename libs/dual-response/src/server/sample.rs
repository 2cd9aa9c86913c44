//! Cuts rows to a size: for the sample that a model reads, and for one page.

use serde_json::Value;

use crate::wire::Row;

/// As many rows as fit into `bytes_max`, at least one; and whether a row was left out or clipped.
pub(super) fn fit_sample(mut rows: Vec<Row>, bytes_max: usize) -> (Vec<Row>, bool) {
    let fitting = fitting_rows(&rows, bytes_max);
    let mut truncated = fitting < rows.len();
    rows.truncate(fitting);
    if let [only] = rows.as_mut_slice() {
        truncated |= clip_row(only, bytes_max);
    }
    (rows, truncated)
}

/// The number of rows that fit into `bytes_max` as JSON. It is at least one, so that a reader always makes
/// progress.
pub(super) fn fitting_rows(rows: &[Row], bytes_max: usize) -> usize {
    let mut bytes = 0;
    for (position, row) in rows.iter().enumerate() {
        bytes += json_bytes(row) + 1;
        if bytes > bytes_max && position > 0 {
            return position;
        }
    }
    rows.len()
}

/// The length of a row as JSON.
pub(super) fn json_bytes(row: &Row) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, row).expect("JSON values serialise, and counting cannot fail");
    counter.0
}

/// Shortens strings and then drops fields until the row fits.
fn clip_row(row: &mut Row, bytes_max: usize) -> bool {
    if json_bytes(row) <= bytes_max {
        return false;
    }
    for chars_max in [512, 128, 32] {
        row.values_mut().for_each(|value| clip_strings(value, chars_max));
        if json_bytes(row) <= bytes_max {
            return true;
        }
    }
    let names: Vec<String> = row.keys().cloned().collect();
    for name in names.iter().rev() {
        if json_bytes(row) <= bytes_max {
            break;
        }
        row.remove(name);
    }
    true
}

fn clip_strings(value: &mut Value, chars_max: usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(chars_max) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clip_strings(item, chars_max)),
        Value::Object(fields) => fields.values_mut().for_each(|field| clip_strings(field, chars_max)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(text: &str) -> Row {
        Row::from_iter([("text".to_owned(), json!(text))])
    }

    #[test]
    fn rows_are_dropped_before_strings_are_clipped() {
        let (rows, truncated) = fit_sample(vec![row("short"), row("short")], 1000);
        assert_eq!((rows.len(), truncated), (2, false));
        let (rows, truncated) = fit_sample(vec![row(&"x".repeat(600)), row(&"x".repeat(600))], 1000);
        assert_eq!((rows.len(), truncated), (1, true));
        assert_eq!(rows[0]["text"].as_str().unwrap().len(), 600, "one whole row fits");
        let (rows, truncated) = fit_sample(vec![row(&"é".repeat(5000))], 1000);
        assert!(truncated);
        assert!(json_bytes(&rows[0]) <= 1000);
        assert!(rows[0]["text"].as_str().unwrap().ends_with('…'));
    }

    #[test]
    fn a_row_of_many_fields_still_fits() {
        let wide: Row = (0..1000).map(|n| (format!("field{n}"), json!(n))).collect();
        let (rows, truncated) = fit_sample(vec![wide], 1000);
        assert!(truncated && json_bytes(&rows[0]) <= 1000 && !rows[0].is_empty());
    }
}
