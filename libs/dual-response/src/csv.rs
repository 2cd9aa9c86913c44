//! Rows as comma-separated values according to RFC 4180, safe to open in a spreadsheet.

use serde_json::Value;

use crate::wire::{Column, Row};

/// Appends the line of column names.
pub fn write_header(out: &mut Vec<u8>, columns: &[Column]) {
    for (position, column) in columns.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_text(out, &column.name);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a row, in the order of the columns. A field that is missing or null is empty; arrays and objects are JSON.
pub fn write_row(out: &mut Vec<u8>, columns: &[Column], row: &Row) {
    for (position, column) in columns.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        match row.get(&column.name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => write_text(out, text),
            // Numbers are not guarded: a spreadsheet does not take them for formulas, and `-5` must stay a
            // number.
            Some(Value::Bool(flag)) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Some(Value::Number(number)) => out.extend_from_slice(number.to_string().as_bytes()),
            Some(nested) => write_text(out, &nested.to_string()),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// A spreadsheet takes a cell that begins with one of these characters for a formula.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

fn write_text(out: &mut Vec<u8>, text: &str) {
    let guarded = text.starts_with(FORMULA_STARTS);
    let quoted = text.contains(['"', ',', '\r', '\n']);
    if quoted {
        out.push(b'"');
    }
    if guarded {
        out.push(b'\'');
    }
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    if quoted {
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(value: Value) -> String {
        let mut out = Vec::new();
        let row = Row::from_iter([("a".to_owned(), value), ("b".to_owned(), json!("x"))]);
        write_row(&mut out, &[Column::string("a"), Column::string("b")], &row);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(line(json!("plain")), "plain,x\r\n");
        assert_eq!(line(json!("a,b")), "\"a,b\",x\r\n");
        assert_eq!(line(json!("say \"hi\"\nthere")), "\"say \"\"hi\"\"\nthere\",x\r\n");
        assert_eq!(line(json!(null)), ",x\r\n");
        assert_eq!(line(json!(true)), "true,x\r\n");
        assert_eq!(line(json!([1, "q"])), "\"[1,\"\"q\"\"]\",x\r\n");
    }

    #[test]
    fn csv_cells_are_never_formulas() {
        assert_eq!(line(json!("=1+1")), "'=1+1,x\r\n");
        assert_eq!(line(json!("@SUM(A1)")), "'@SUM(A1),x\r\n");
        assert_eq!(line(json!("+cmd|'/C calc'!A0")), "'+cmd|'/C calc'!A0,x\r\n");
        assert_eq!(line(json!("-2,5")), "\"'-2,5\",x\r\n");
        assert_eq!(line(json!("\t=1")), "'\t=1,x\r\n");
        assert_eq!(line(json!(-5)), "-5,x\r\n", "a number stays a number");
    }
}
