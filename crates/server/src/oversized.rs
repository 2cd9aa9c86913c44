//! The id of a message that is too long to be kept in memory. It is found while the bytes are read and
//! dropped, so that the sender learns which of its requests was refused.

use serde_json::Value;

/// The most bytes of a key or id that are kept; anything longer can be neither.
const TOKEN_BYTES_MAX: usize = 256;

/// Looks for the `id` of a JSON object whose bytes are given piece by piece.
///
/// `{"method": "tools/call", "params": {"id": 1, …4 MiB…}, "id": 7}` has the id 7.
#[derive(Default)]
pub(crate) struct IdSearch {
    depth: usize,
    /// Whether the position is inside a string.
    in_text: bool,
    is_escaped: bool,
    /// At depth one: the position is between a colon and the next comma, where a value stands.
    in_value: bool,
    /// The bytes of the key or value that is being read.
    token: Vec<u8>,
    is_long: bool,
    is_id: bool,
    id: Option<Value>,
}

impl IdSearch {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.read_byte(*byte));
    }

    /// The id, or null if none was found or it is neither a string nor a number.
    pub(crate) fn found(self) -> Value {
        self.id.filter(|id| id.is_string() || id.is_number()).unwrap_or(Value::Null)
    }

    fn read_byte(&mut self, byte: u8) {
        if self.in_text {
            self.keep(byte);
            match (self.is_escaped, byte) {
                (true, _) => self.is_escaped = false,
                (false, b'\\') => self.is_escaped = true,
                (false, b'"') => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                // A list or an object can't be an id.
                self.is_long |= self.depth > 1;
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && !self.in_value => {
                self.is_id = !self.is_long && self.token == b"\"id\"";
                self.in_value = true;
                self.forget();
            }
            b',' if self.depth == 1 => self.end_value(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 {
            return;
        }
        match self.token.len() < TOKEN_BYTES_MAX {
            true => self.token.push(byte),
            false => self.is_long = true,
        }
    }

    fn end_value(&mut self) {
        if self.is_id && !self.is_long {
            self.id = serde_json::from_slice(&self.token).ok();
        }
        self.in_value = false;
        self.is_id = false;
        self.forget();
    }

    fn forget(&mut self) {
        self.token.clear();
        self.is_long = false;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        let long = "x".repeat(1000);
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"LONG"}"#, json!(7)),
            (r#"{"method":"a","params":{"id":1,"text":"LONG"},"id":"seven"}"#, json!("seven")),
            (r#"{ "params" : ["LONG", {"id": 1}], "id" : "a\"b" , "x": 1 }"#, json!("a\"b")),
            (r#"{"text":"\\\",\"id\":5,LONG","id":-3}"#, json!(-3)),
            (r#"{"id":{"id":4},"x":"LONG"}"#, Value::Null),
            (r#"{"id":[4],"x":"LONG"}"#, Value::Null),
            (r#"{"id":null,"x":"LONG"}"#, Value::Null),
            (r#"{"id":"LONG"}"#, Value::Null),
            (r#"{"x":"id","LONG":5}"#, Value::Null),
            (r#"[{"id":4,"x":"LONG"}]"#, Value::Null),
            (r#"{"id":9,"x":"LONG"#, json!(9)),
        ] {
            let line = line.replace("LONG", &long);
            for size in [1, 7, line.len()] {
                let mut search = IdSearch::default();
                line.as_bytes().chunks(size).for_each(|bytes| search.read(bytes));
                assert_eq!(search.found(), id, "{line}");
            }
        }
    }
}
