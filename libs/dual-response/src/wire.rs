//! The data on the wire, shared by server and client. Plain data: no I/O, no runtime.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One row of a result: field names and their values.
pub type Row = Map<String, Value>;

/// The MIME type of a resource behind a response.
pub const MIME_JSON: &str = "application/json";
/// The MIME type of an export, one row a line.
pub const MIME_NDJSON: &str = "application/x-ndjson";
/// The MIME type of an export as comma-separated values.
pub const MIME_CSV: &str = "text/csv";
/// The key of `_meta` under which a tool result repeats the address of its rows, for hosts that drop
/// structured content.
pub const META_KEY: &str = "io.kenning/dual";
/// The value of `kind` in the structured content of a response.
pub const KIND: &str = "dualResponse:v1";

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Column {
    /// The name of the field in a row.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type", default)]
    pub kind: ColumnType,
    /// Whether rows may be sorted by it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub sortable: bool,
    /// Whether it identifies a row; then it orders rows that are equal in a sort, so that pages do not
    /// overlap.
    #[serde(default, skip_serializing_if = "is_no")]
    pub key: bool,
}

impl Column {
    /// A sortable column with this name and type.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Self { name: name.into(), kind, sortable: true, key: false }
    }

    /// A column of strings.
    pub fn string(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::String)
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnType::Number)
    }

    /// The same column, not sortable.
    pub fn unsortable(self) -> Self {
        Self { sortable: false, ..self }
    }

    /// The same column as one that identifies a row.
    pub fn as_key(self) -> Self {
        Self { key: true, ..self }
    }
}

/// The type of the values of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum ColumnType {
    /// Text.
    #[default]
    String,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A day, such as `2025-01-15`.
    Date,
    /// A time, such as `2025-01-15T10:30:00Z`.
    DateTime,
    /// Arrays or objects.
    Json,
    /// A type that the server defines.
    Other(String),
}

impl From<String> for ColumnType {
    fn from(name: String) -> Self {
        match name.as_str() {
            "string" => Self::String,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "json" => Self::Json,
            _ => Self::Other(name),
        }
    }
}

impl From<ColumnType> for String {
    fn from(kind: ColumnType) -> Self {
        match kind {
            ColumnType::String => "string".into(),
            ColumnType::Number => "number".into(),
            ColumnType::Integer => "integer".into(),
            ColumnType::Boolean => "boolean".into(),
            ColumnType::Date => "date".into(),
            ColumnType::DateTime => "datetime".into(),
            ColumnType::Json => "json".into(),
            ColumnType::Other(name) => name,
        }
    }
}

/// A field to sort by, and the direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Sort {
    /// The name of a column.
    pub field: String,
    /// The direction.
    #[serde(default)]
    pub order: Order,
}

impl Sort {
    /// Sorts the smallest values first.
    pub fn ascending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Asc }
    }

    /// Sorts the largest values first.
    pub fn descending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Desc }
    }
}

/// The direction of a sort. Missing values come last in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Order {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first.
    Desc,
}

/// The body of a POST: the requested rows. For fields that are absent or null, the server uses its defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PageQuery {
    /// The first row, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The largest number of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The order of the rows; the first field is the most important one.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "one_or_many")]
    pub sort: Vec<Sort>,
}

impl PageQuery {
    /// The rows from `offset` on, at most `limit` of them.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { offset: Some(offset), limit: Some(limit), sort: Vec::new() }
    }

    /// The same rows in another order.
    pub fn sorted(mut self, sort: Sort) -> Self {
        self.sort.push(sort);
        self
    }
}

/// The reply to a POST: a page of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page<T = Row> {
    /// The rows.
    pub data: Vec<T>,
    /// The number of all rows.
    pub total_count: u64,
    /// The number of rows on this page.
    pub returned_count: u64,
    /// The first row of this page, counted from 0.
    pub offset: u64,
    /// Whether there are rows after this page.
    pub has_next: bool,
    /// The beginning of the next page; null at the end.
    pub next_offset: Option<u64>,
}

impl<T> Page<T> {
    /// A page with these rows. After an empty page there is no next one, whatever the total is, so a reader
    /// that follows `next_offset` comes to an end even while rows are deleted.
    pub fn new(data: Vec<T>, offset: u64, total_count: u64) -> Self {
        let returned_count = data.len() as u64;
        let end = offset.saturating_add(returned_count);
        let has_next = returned_count > 0 && end < total_count;
        Self { data, total_count, returned_count, offset, has_next, next_offset: has_next.then_some(end) }
    }
}

/// The reply to a GET: the metadata of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Metadata {
    /// Whether the rows can be read.
    pub status: Status,
    /// The name of the resource.
    #[serde(default)]
    pub name: String,
    /// The number of all rows.
    pub total_count: u64,
    /// The columns of a row.
    pub columns: Vec<Column>,
    /// The time at which the resource was made.
    pub created_at: Timestamp,
    /// The time at which it expires; null if it is pinned.
    pub expires_at: Option<Timestamp>,
    /// The number of times that its rows were read.
    pub access_count: u64,
}

/// The reply to a PUT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pinned {
    /// Always [`Status::Pinned`].
    pub status: Status,
    /// Always null, because the resource no longer expires.
    pub expires_at: Option<Timestamp>,
}

/// The state of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// The rows can be read.
    Ready,
    /// The resource has just been pinned.
    Pinned,
}

/// The body of every reply that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure in one word: `not_found`, `expired`, ...
    pub error: String,
    /// The message for a person.
    pub message: String,
    /// The code for a program; stable.
    #[serde(default)]
    pub code: String,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retryable: bool,
}

/// The last line of an NDJSON export. An export without it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EndMarker {
    /// Always true.
    #[serde(rename = "_end")]
    pub end: bool,
    /// The number of rows before it.
    pub count: u64,
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

fn is_no(flag: &bool) -> bool {
    !*flag
}

/// Accepts one sort as an object, several as an array, and null for none.
mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Sort;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Sorts {
        One(Sort),
        Many(Vec<Sort>),
    }

    pub(super) fn serialize<S: Serializer>(sorts: &[Sort], serializer: S) -> Result<S::Ok, S::Error> {
        match sorts {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Sort>, D::Error> {
        Ok(match Option::<Sorts>::deserialize(deserializer)? {
            None => Vec::new(),
            Some(Sorts::One(sort)) => vec![sort],
            Some(Sorts::Many(sorts)) => sorts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let page = Page::new(vec![1; 100], 0, 847);
        assert_eq!((page.has_next, page.next_offset), (true, Some(100)));
        let last = Page::new(vec![1; 47], 800, 847);
        assert_eq!((last.has_next, last.next_offset), (false, None));
        let empty = Page::<u8>::new(vec![], 100, 847);
        assert_eq!((empty.has_next, empty.next_offset), (false, None));
        let json = serde_json::to_value(last).unwrap();
        assert_eq!(json["next_offset"], Value::Null, "null, not absent");
        assert!(json.as_object().unwrap().contains_key("next_offset"));
    }

    #[test]
    fn a_page_query_takes_one_sort_or_many_or_null() {
        let read = |text: &str| serde_json::from_str::<PageQuery>(text);
        assert_eq!(read("{}").unwrap(), PageQuery::default());
        assert_eq!(read(r#"{"offset":null,"limit":null,"sort":null}"#).unwrap(), PageQuery::default());
        let one = read(r#"{"sort":{"field":"a","order":"desc"}}"#).unwrap();
        assert_eq!(one.sort, [Sort::descending("a")]);
        let many = read(r#"{"sort":[{"field":"a"},{"field":"b","order":"desc"}]}"#).unwrap();
        assert_eq!(many.sort, [Sort::ascending("a"), Sort::descending("b")]);
        assert!(read(r#"{"ofset":1}"#).is_err());
        assert!(read(r#"{"offset":-1}"#).is_err());
        assert!(read(r#"{"sort":{"field":"a","order":"down"}}"#).is_err());
    }

    #[test]
    fn columns_keep_types_they_do_not_know() {
        let text = r#"[{"name":"id","type":"number"},{"name":"shape","type":"geometry"}]"#;
        let columns: Vec<Column> = serde_json::from_str(text).unwrap();
        assert_eq!(columns[1].kind, ColumnType::Other("geometry".into()));
        assert_eq!(serde_json::to_string(&columns).unwrap(), text);
    }
}
