//! What goes over the wire, as both sides spell it. Plain data: no I/O, no runtime.

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
/// The key of `_meta` under which a tool result repeats where its rows are, for hosts that drop structured content.
pub const META_KEY: &str = "io.kenning/dual";
/// What the structured content of a response says it is.
pub const KIND: &str = "dualResponse:v1";

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Column {
    /// The field of a row that it names.
    pub name: String,
    /// What its values are.
    #[serde(rename = "type", default)]
    pub kind: ColumnType,
    /// Whether rows may be sorted by it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub sortable: bool,
    /// Whether it tells rows apart; then it breaks ties of every sort, so that pages do not overlap.
    #[serde(default, skip_serializing_if = "is_no")]
    pub key: bool,
}

impl Column {
    /// A column of this name and type, open to sorting.
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

    /// The same column, closed to sorting.
    pub fn unsortable(self) -> Self {
        Self { sortable: false, ..self }
    }

    /// The same column, as one that tells rows apart.
    pub fn as_key(self) -> Self {
        Self { key: true, ..self }
    }
}

/// What the values of a column are.
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
    /// A day, as `2025-01-15`.
    Date,
    /// A moment, as `2025-01-15T10:30:00Z`.
    DateTime,
    /// Arrays or objects.
    Json,
    /// A type of the server's own.
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

/// By which field rows are ordered, and which way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Sort {
    /// A column's name.
    pub field: String,
    /// Which way.
    #[serde(default)]
    pub order: Order,
}

impl Sort {
    /// Smallest first.
    pub fn ascending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Asc }
    }

    /// Largest first.
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

/// The body of a POST: which rows are asked for. What is absent or null is the server's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PageQuery {
    /// The first row, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many rows at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// In which order; several fields are taken one after the other.
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
    /// How many rows there are in all.
    pub total_count: u64,
    /// How many rows this page has.
    pub returned_count: u64,
    /// The first row of this page, counted from 0.
    pub offset: u64,
    /// Whether rows follow.
    pub has_next: bool,
    /// Where the next page begins; null at the end.
    pub next_offset: Option<u64>,
}

impl<T> Page<T> {
    /// The page that these rows make. An empty page has none after it, whatever the total says: a reader that follows
    /// `next_offset` comes to an end even while rows vanish.
    pub fn new(data: Vec<T>, offset: u64, total_count: u64) -> Self {
        let returned_count = data.len() as u64;
        let end = offset.saturating_add(returned_count);
        let has_next = returned_count > 0 && end < total_count;
        Self { data, total_count, returned_count, offset, has_next, next_offset: has_next.then_some(end) }
    }
}

/// The reply to a GET: what is known of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Metadata {
    /// Whether its rows can be read.
    pub status: Status,
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// How many rows there are.
    pub total_count: u64,
    /// What a row consists of.
    pub columns: Vec<Column>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends; null once it is pinned.
    pub expires_at: Option<Timestamp>,
    /// How often its rows were read.
    pub access_count: u64,
}

/// The reply to a PUT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pinned {
    /// That it is pinned.
    pub status: Status,
    /// Null, since it no longer ends.
    pub expires_at: Option<Timestamp>,
}

/// How a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// Its rows can be read.
    Ready,
    /// It has just been pinned.
    Pinned,
}

/// The body of every reply that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// In one word: `not_found`, `expired`, ...
    pub error: String,
    /// For a person.
    pub message: String,
    /// For a program; stable.
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
    /// How many rows came before it.
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

/// A sort is one object; several are an array; null is none.
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
