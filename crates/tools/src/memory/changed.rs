//! The changes of transactions as `history` shows them by default: an update has the fields that differ, a
//! new record its topic and the beginning of its text, a deleted record its name or topic.

use kenning_presentation::budget::{ROWS_BYTES_MAX, json_bytes};
use kenning_presentation::text::cut;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::item::{
    ChangeItem, EntryItem, Kind, RecordItem, Size, State, TransactionItem, TripleItem, fact_line, kind_word,
    one_line, transaction_head, undo_words,
};
use crate::code::counted;

/// A longer text is shown as an excerpt of this many bytes.
const EXCERPT_BYTES: usize = 300;
/// On each side of a difference between two versions, this many bytes of equal text are shown.
const SHARED_BYTES: usize = 60;
const LEFT_OUT: &str = "[…]";

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LeanTransaction {
    tx_id: u64,
    /// To the second.
    at: String,
    /// If it was not the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    actor: Option<String>,
    tool: String,
    changes: Vec<LeanChange>,
    /// How many more changes the transaction has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    changes_left_out: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    undoes: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    undone_by: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct LeanChange {
    /// If it is neither an entry nor a triple, which has a `fact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Kind")]
    entity_type: Option<Kind>,
    id: String,
    /// create, update or delete; absent for a triple: `after` alone is new, `before` alone is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    op: Option<String>,
    /// The fields that an update changed; of what was deleted, what it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Fields")]
    before: Option<Fields>,
    /// The fields that an update changed; of something new, what it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Fields")]
    after: Option<Fields>,
}

/// Declares each field once, for the structure, its schema and the comparison of two versions.
macro_rules! fields {
    ($($(#[$about:meta])* $name:ident: $type:ty, $schema:tt;)*) => {
        /// Of a record of any type; what is unset or not shown is absent.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
        struct Fields {
            $($(#[$about])*
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = $schema)]
            $name: Option<$type>,)*
        }

        impl Fields {
            fn clear_equal(&mut self, other: &mut Fields) {
                $(if self.$name == other.$name {
                    self.$name = None;
                    other.$name = None;
                })*
            }
        }
    };
}

fields! {
    /// Of something new or deleted, if it is not the one that was asked.
    scope: String, "String";
    name: String, "String";
    topic: String, "String";
    /// All of it, or there is an `excerpt` instead.
    content: String, "String";
    /// Around what differs, else the beginning, with `[…]` where something is missing; `detail: "full"` has all.
    excerpt: String, "String";
    /// How long the whole content is.
    bytes: usize, "usize";
    context: String, "String";
    tags: Vec<String>, "Vec<String>";
    task_sizes: Vec<Size>, "Vec<Size>";
    source: String, "String";
    confidence: f64, "f64";
    valid_from: String, "String";
    valid_to: String, "String";
    status: State, "State";
    pinned: bool, "bool";
    follows: String, "String";
    /// Of a triple: `subject -- predicate -> object`.
    fact: String, "String";
    description: String, "String";
    parents: Vec<String>, "Vec<String>";
    path: String, "String";
    title: String, "String";
    doc_tag: String, "String";
}

impl LeanTransaction {
    /// The transaction as it is shown to the caller `actor`, who asks in the scope `asked`.
    pub(crate) fn new(item: TransactionItem, actor: &str, asked: &str) -> LeanTransaction {
        LeanTransaction {
            tx_id: item.tx_id,
            at: to_the_second(item.at),
            actor: Some(item.actor).filter(|who| who != actor),
            tool: item.tool,
            changes: item.changes.into_iter().map(|change| LeanChange::new(change, asked)).collect(),
            changes_left_out: item.changes_left_out,
            undoes: item.undoes,
            undone_by: item.undone_by,
        }
    }

    /// Drops changes if the transaction is too large for a reply because of long names or many tags.
    pub(crate) fn cut_to_fit(mut self) -> LeanTransaction {
        while self.changes.len() > 1 && json_bytes(&self) > ROWS_BYTES_MAX {
            self.changes.pop();
            self.changes_left_out = Some(self.changes_left_out.unwrap_or(0) + 1);
        }
        self
    }

    pub(crate) fn lines(&self) -> String {
        let mut lines = transaction_head(self.tx_id, &self.tool, &self.at, self.actor.as_deref());
        lines.push_str(&undo_words(&self.undoes, self.undone_by));
        for change in &self.changes {
            lines.push_str(&format!("\n{}", change.lines()));
        }
        if let Some(left_out) = self.changes_left_out {
            lines.push_str(&format!("\n  and {}", counted(left_out, "more change")));
        }
        lines
    }
}

impl LeanChange {
    fn new(change: ChangeItem, asked: &str) -> LeanChange {
        let ChangeItem { entity_type, id, op, before, after } = change;
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) => {
                let (mut before, mut after) = (Fields::all(before), Fields::all(after));
                before.clear_equal(&mut after);
                Fields::excerpt_both(&mut before, &mut after);
                (Some(before), Some(after))
            }
            (before, after) => {
                let gone = before.map(|record| Fields::called(record, asked));
                (gone, after.map(|record| Fields::begun(record, asked)))
            }
        };
        let shown = |fields: &Fields| *fields != Fields::default();
        LeanChange {
            entity_type: Some(entity_type).filter(|kind| !matches!(kind, Kind::Entry | Kind::Triple)),
            id,
            op: Some(op).filter(|op| entity_type != Kind::Triple || op == "update"),
            before: before.filter(shown),
            after: after.filter(shown),
        }
    }

    /// The text of a change: `update entry K7H9M2PQX8`, with each difference on its own line.
    fn lines(&self) -> String {
        let (kind, op) = match (&self.op, &self.before) {
            (Some(op), _) => (self.entity_type.unwrap_or(Kind::Entry), op.as_str()),
            (None, None) => (Kind::Triple, "create"),
            (None, Some(_)) => (Kind::Triple, "delete"),
        };
        let is_update = op == "update";
        let mut scope = None;
        let mut lines = String::new();
        for (side, fields) in [("before", &self.before), ("after", &self.after)] {
            let Some(fields) = fields else { continue };
            if is_update {
                for (name, value) in fields.named() {
                    lines.push_str(&format!("\n    {side} {name}: {value}"));
                }
            } else {
                scope = fields.scope.as_deref();
                lines.push_str(&format!("\n    {}", fields.summary()));
            }
        }
        let place = scope.map(|scope| format!(" ({scope})")).unwrap_or_default();
        format!("  {op} {} {}{place}{lines}", kind_word(kind), self.id)
    }
}

impl Fields {
    fn all(record: RecordItem) -> Fields {
        match record {
            RecordItem::Entry(entry) => {
                let EntryItem { scope, topic, content, context, tags, task_sizes, source, .. } = *entry;
                Fields {
                    scope: Some(scope),
                    topic: Some(topic).filter(|topic| !topic.is_empty()),
                    content: Some(content),
                    context,
                    tags: Some(tags).filter(|tags| !tags.is_empty()),
                    task_sizes: Some(task_sizes).filter(|sizes| !sizes.is_empty()),
                    source,
                    confidence: entry.confidence,
                    valid_from: entry.valid_from,
                    valid_to: entry.valid_to,
                    status: Some(entry.status),
                    pinned: Some(entry.pinned),
                    follows: entry.follows,
                    ..Fields::default()
                }
            }
            RecordItem::Triple(triple) => {
                let TripleItem { scope, subject, predicate, object, source, confidence, .. } = *triple;
                Fields {
                    scope: Some(scope),
                    fact: Some(fact_line(&subject, &predicate, &object)),
                    source,
                    confidence,
                    ..Fields::default()
                }
            }
            RecordItem::Scope(scope) => Fields {
                name: Some(scope.scope),
                description: Some(scope.description),
                parents: Some(scope.parents).filter(|parents| !parents.is_empty()),
                ..Fields::default()
            },
            RecordItem::Namespace(namespace) => Fields {
                name: Some(namespace.name),
                description: Some(namespace.description),
                ..Fields::default()
            },
            RecordItem::Document(document) => Fields {
                scope: Some(document.scope),
                source: Some(document.source),
                path: Some(document.path),
                title: Some(document.title),
                doc_tag: Some(document.doc_tag),
                ..Fields::default()
            },
        }
    }

    /// The fields of a new record, with its text cut to an excerpt.
    fn begun(record: RecordItem, asked: &str) -> Fields {
        let all = Fields::all(record);
        let status = all.status.filter(|status| *status != State::Active);
        let mut fields = Fields {
            scope: all.scope.filter(|scope| scope != asked),
            status,
            context: None,
            tags: None,
            task_sizes: None,
            confidence: None,
            pinned: None,
            follows: None,
            // The source identifies a document; for an entry or a triple it is a detail.
            source: all.source.filter(|_| all.path.is_some()),
            doc_tag: None,
            ..all
        };
        fields.excerpt(0, usize::MAX);
        fields
    }

    /// The fields by which a deleted record is recognised.
    fn called(record: RecordItem, asked: &str) -> Fields {
        let mut fields = Fields::begun(record, asked);
        if fields.topic.is_some() {
            (fields.content, fields.excerpt, fields.bytes) = (None, None, None);
        }
        Fields { description: None, parents: None, ..fields }
    }

    /// Cuts the long texts of two versions to the part around the difference.
    fn excerpt_both(before: &mut Fields, after: &mut Fields) {
        let [old, new] = [&before.content, &after.content].map(|text| text.as_deref().unwrap_or_default());
        let is_same = |(old, new): &(char, char)| old == new;
        let bytes = |(char, _): (char, char)| char.len_utf8();
        let start: usize = old.chars().zip(new.chars()).take_while(is_same).map(bytes).sum();
        let (old, new) = (&old[start..], &new[start..]);
        let end: usize = old.chars().rev().zip(new.chars().rev()).take_while(is_same).map(bytes).sum();
        let ends = [start + old.len() - end, start + new.len() - end];
        before.excerpt(start, ends[0]);
        after.excerpt(start, ends[1]);
        for fields in [before, after] {
            fields.context = fields.context.take().map(|context| cut(&context, EXCERPT_BYTES));
        }
    }

    /// Replaces a content that is too long by its part from `start` to `end`, with some text on each side.
    fn excerpt(&mut self, start: usize, end: usize) {
        let Some(content) = self.content.take_if(|content| content.len() > EXCERPT_BYTES) else { return };
        let start = match start.saturating_sub(SHARED_BYTES) {
            0 => 0,
            // Start at the beginning of a word, if there is one near.
            near => {
                let near = content.floor_char_boundary(near);
                content[near..start].find(' ').map_or(near, |space| near + space + 1)
            }
        };
        let end = end.saturating_add(SHARED_BYTES).min(start + EXCERPT_BYTES).min(content.len());
        let end = content.floor_char_boundary(end);
        let [head, tail] = [start > 0, end < content.len()].map(|is_cut| if is_cut { LEFT_OUT } else { "" });
        self.excerpt = Some(format!("{head}{}{tail}", &content[start..end]));
        self.bytes = Some(content.len());
    }

    /// All fields that are set, with their values as text.
    fn named(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return Vec::new() };
        fields.into_iter().map(|(name, value)| (name, words(&value))).collect()
    }

    /// A new or deleted record as text: `door: Code 1234.`, `door -- has -> code`.
    fn summary(&self) -> String {
        if let Some(fact) = &self.fact {
            return fact.clone();
        }
        let text = |field: &Option<String>| field.as_deref().map(flat);
        let status = self.status.map(|status| words(&serde_json::json!(status)));
        let from = self.valid_from.as_ref().map(|from| format!("valid from {from}"));
        let to = self.valid_to.as_ref().map(|to| format!("valid to {to}"));
        let limits: Vec<String> = [status, from, to].into_iter().flatten().collect();
        let limits = if limits.is_empty() { String::new() } else { format!("({}) ", limits.join(", ")) };
        let parents = self.parents.as_ref().map(|parents| format!(" (inherits from {})", parents.join(", ")));
        let name = match (&self.source, &self.path) {
            (Some(source), Some(path)) => Some(flat(&format!("{source}/{path}"))),
            _ => text(&self.name).or_else(|| text(&self.topic)),
        };
        let name = name.map(|name| name + &parents.unwrap_or_default());
        let content =
            [&self.content, &self.excerpt, &self.description, &self.title].into_iter().find_map(text);
        let bytes = self.bytes.map(|bytes| format!("({bytes} bytes) ")).unwrap_or_default();
        let parts: Vec<String> = name.into_iter().chain(content).collect();
        format!("{limits}{bytes}{}", parts.join(": "))
    }
}

/// Removes the fraction of the seconds: `2026-01-01T00:06:00.125Z` becomes `2026-01-01T00:06:00Z`.
fn to_the_second(at: String) -> String {
    match at.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => at,
    }
}

/// The whole text on one line.
fn flat(text: &str) -> String {
    one_line(text, usize::MAX)
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => flat(text),
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpts(before: &str, after: &str) -> [Fields; 2] {
        let with = |content: &str| Fields { content: Some(content.to_owned()), ..Fields::default() };
        let (mut before, mut after) = (with(before), with(after));
        Fields::excerpt_both(&mut before, &mut after);
        [before, after]
    }

    #[test]
    fn of_long_versions_the_part_that_differs_is_shown() {
        let long = "All is as it was before. ".repeat(40);
        let [before, after] =
            excerpts(&format!("{long}Code 1234.{long}"), &format!("{long}Code 98765.{long}"));
        let [before, after] = [before, after].map(|side| {
            assert!(side.content.is_none() && side.bytes.is_some_and(|bytes| bytes > 2000));
            side.excerpt.expect("an excerpt")
        });
        assert!(before.starts_with("[…]") && before.ends_with("[…]") && before.len() < 200, "{before}");
        assert!(before.contains("Code 1234.") && after.contains("Code 98765."), "{before}\n{after}");
    }

    #[test]
    fn short_versions_are_whole_and_so_is_the_short_one_of_two() {
        let [before, after] = excerpts("Tür zu.", "Tor zu.");
        assert_eq!(before.content.zip(after.content), Some(("Tür zu.".to_owned(), "Tor zu.".to_owned())));
        let [before, after] = excerpts("short", &"ü".repeat(400));
        assert_eq!(before.content.as_deref(), Some("short"));
        assert_eq!(after.bytes, Some(800));
        let [before, _] = excerpts(&"ü".repeat(400), &("ü".repeat(200) + &"o".repeat(200)));
        assert!(before.excerpt.expect("an excerpt").starts_with("[…]ü"));
    }
}
