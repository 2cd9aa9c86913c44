//! An entry as a Markdown file: its fields in front matter, its content below. Reading a file that was
//! written here gives the same entry.

use kenning_model::{Entry, Id, ScopeId, Status, TaskSize, Timestamp, clean};
use kenning_storage::{Follows, NewEntry};
use serde::Deserialize;

use super::split::CONTENT_BYTES_MAX;

/// The size limits of the tools that write. A file may not contain what an agent could not store.
pub const TOPIC_BYTES_MAX: usize = 512;
pub const CONTEXT_BYTES_MAX: usize = 4 * 1024;
pub const TAG_BYTES_MAX: usize = 64;
pub const TAGS_MAX: usize = 32;

/// The fields that an entry's file has, and its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryFile {
    pub id: Option<Id>,
    pub topic: String,
    pub tags: Vec<String>,
    pub context: Option<String>,
    pub task_sizes: Vec<TaskSize>,
    pub source: Option<String>,
    pub confidence: Option<f64>,
    pub pinned: bool,
    pub follows: Option<Id>,
    pub valid_from: Option<Timestamp>,
    pub valid_to: Option<Timestamp>,
    pub content: String,
}

/// Further fields that an export writes. A mirror leaves them out, because they cannot be changed through a
/// file.
pub struct Provenance<'a> {
    pub scope: &'a str,
    pub entry: &'a Entry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: Option<String>,
    #[serde(default)]
    topic: Option<String>,
    #[serde(default)]
    tags: Option<Vec<String>>,
    context: Option<String>,
    #[serde(default)]
    task_sizes: Option<Vec<TaskSize>>,
    source: Option<String>,
    confidence: Option<f64>,
    #[serde(default)]
    pinned: Option<bool>,
    follows: Option<String>,
    valid_from: Option<Timestamp>,
    valid_to: Option<Timestamp>,
    // Fields of an export. They are accepted and ignored, since a file cannot change them.
    #[serde(rename = "scope")]
    _scope: Option<String>,
    #[serde(rename = "status")]
    _status: Option<String>,
    #[serde(rename = "actor")]
    _actor: Option<String>,
    #[serde(rename = "version")]
    _version: Option<u32>,
    #[serde(rename = "recorded_at")]
    _recorded_at: Option<String>,
    #[serde(rename = "updated_at")]
    _updated_at: Option<String>,
}

impl EntryFile {
    pub fn of(id: Option<Id>, entry: &Entry) -> EntryFile {
        EntryFile {
            id,
            topic: entry.topic.clone(),
            tags: entry.tags.clone(),
            context: entry.context.clone(),
            task_sizes: entry.task_sizes.clone(),
            source: entry.source.clone(),
            confidence: entry.confidence,
            pinned: entry.pinned,
            follows: entry.follows,
            valid_from: entry.valid_from,
            valid_to: entry.valid_to,
            content: entry.content.clone(),
        }
    }

    /// The file itself if its entry can be stored, otherwise the reason why not.
    pub fn checked(self) -> Result<EntryFile, String> {
        let is_blank = |text: &str| clean(text).trim().is_empty();
        let caps = [
            ("content", Some(&self.content), CONTENT_BYTES_MAX),
            ("topic", Some(&self.topic), TOPIC_BYTES_MAX),
            ("context", self.context.as_ref(), CONTEXT_BYTES_MAX),
            ("source", self.source.as_ref(), TOPIC_BYTES_MAX),
        ];
        for (name, text, bytes_max) in caps {
            if let Some(text) = text.filter(|text| text.len() > bytes_max) {
                return Err(format!("its {name} has {} bytes, and the cap is {bytes_max}", text.len()));
            }
        }
        if is_blank(&self.content) {
            return Err("it has no text".to_owned());
        }
        if self.tags.len() > TAGS_MAX
            || self.tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX || is_blank(tag))
        {
            return Err(format!("an entry has at most {TAGS_MAX} tags of 1 to {TAG_BYTES_MAX} bytes"));
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err("its confidence is not between 0 and 1".to_owned());
        }
        if let (Some(from), Some(to)) = (self.valid_from, self.valid_to)
            && from >= to
        {
            return Err("its validity ends before it begins".to_owned());
        }
        Ok(self)
    }

    pub fn new_entry(&self, scope: ScopeId) -> NewEntry {
        let EntryFile { context, tags, task_sizes, source, confidence, .. } = self.clone();
        NewEntry {
            context,
            tags,
            task_sizes,
            source,
            confidence,
            valid_from: self.valid_from,
            valid_to: self.valid_to,
            pinned: self.pinned,
            follows: self.follows.map(Follows::Entry),
            ..NewEntry::new(scope, self.topic.clone(), self.content.clone())
        }
    }

    pub fn text(&self, provenance: Option<Provenance<'_>>) -> String {
        let mut text = "---\n".to_owned();
        let mut field = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{name}: {value}\n"));
            }
        };
        let list = |items: Vec<String>| (!items.is_empty()).then(|| format!("[{}]", items.join(", ")));
        field("id", self.id.map(|id| id.to_string()));
        field("topic", (!self.topic.is_empty()).then(|| scalar(&self.topic)));
        field("tags", list(self.tags.iter().map(|tag| scalar(tag)).collect()));
        field("context", self.context.as_deref().map(scalar));
        field("task_sizes", list(self.task_sizes.iter().map(|size| format!("{size:?}")).collect()));
        field("source", self.source.as_deref().map(scalar));
        field("confidence", self.confidence.map(|confidence| format!("{confidence:?}")));
        field("pinned", self.pinned.then(|| "true".to_owned()));
        field("follows", self.follows.map(|id| id.to_string()));
        field("valid_from", self.valid_from.map(|at| at.to_string()));
        field("valid_to", self.valid_to.map(|at| at.to_string()));
        if let Some(Provenance { scope, entry }) = provenance {
            field("scope", Some(scalar(scope)));
            field("status", (entry.status == Status::Suppressed).then(|| "suppressed".to_owned()));
            field("actor", Some(scalar(&entry.actor)));
            field("version", Some(entry.version.to_string()));
            field("recorded_at", Some(entry.recorded_at.to_string()));
            field("updated_at", entry.updated_at.map(|at| at.to_string()));
        }
        text.push_str("---\n\n");
        text.push_str(&self.content);
        text.push('\n');
        text
    }

    /// Reads a file. A file without front matter is all content. `stem` becomes the topic of a file that has
    /// none.
    pub fn read(text: &str, stem: &str) -> Result<EntryFile, String> {
        let text = text.trim_start_matches('\u{feff}');
        // An editor or git may have changed the line endings of the whole file.
        let unix;
        let text = match text.starts_with("---\r\n") || (!text.contains("---\n") && text.contains("\r\n")) {
            true => {
                unix = text.replace("\r\n", "\n");
                &*unix
            }
            false => text,
        };
        let (fields, content) = match front_matter(text) {
            Some((yaml, content)) => {
                let fields: Option<Fields> = match yaml.trim().is_empty() {
                    true => None,
                    false => Some(serde_saphyr::from_str(yaml).map_err(|error| {
                        format!("its front matter can't be read: {}", first_line(&error.to_string()))
                    })?),
                };
                (fields, content.strip_prefix('\n').unwrap_or(content))
            }
            None => (None, text),
        };
        let content = content.strip_suffix('\n').unwrap_or(content).to_owned();
        let id = |field: &str, id: Option<String>| {
            let Some(text) = id else { return Ok(None) };
            Id::parse(&text).map(Some).ok_or_else(|| format!("its `{field}` is not an id: `{text}`"))
        };
        let Some(fields) = fields else {
            return Ok(EntryFile { topic: title(&content, stem), content, ..EntryFile::default() });
        };
        let own = id("id", fields.id)?;
        // A file without a topic is either new, and gets a title, or belongs to an entry whose topic is
        // empty.
        let topic =
            fields.topic.unwrap_or_else(|| if own.is_some() { String::new() } else { title(&content, stem) });
        Ok(EntryFile {
            id: own,
            topic,
            tags: fields.tags.unwrap_or_default(),
            context: fields.context,
            task_sizes: fields.task_sizes.unwrap_or_default(),
            source: fields.source,
            confidence: fields.confidence,
            pinned: fields.pinned.unwrap_or(false),
            follows: id("follows", fields.follows)?,
            valid_from: fields.valid_from,
            valid_to: fields.valid_to,
            content,
        })
    }
}

/// The YAML between two lines `---`, and the text that follows it.
pub fn front_matter(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n")?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// The file name of an entry. It depends on the topic and the id only, so it stays the same as long as the
/// topic does.
pub fn file_name(topic: &str, id: Id) -> String {
    let mut slug = String::new();
    for c in topic.chars().flat_map(char::to_lowercase) {
        match c.is_alphanumeric() {
            true => slug.push(c),
            false if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            false => {}
        }
        if slug.len() >= SLUG_BYTES_MAX {
            break;
        }
    }
    match slug.trim_end_matches('-') {
        "" => format!("{id}.md"),
        slug => format!("{slug}-{id}.md"),
    }
}

/// Long enough to tell topics apart, short enough for every file system.
const SLUG_BYTES_MAX: usize = 60;

fn title(content: &str, stem: &str) -> String {
    let heading = content.lines().find_map(|line| line.strip_prefix("# "));
    heading.map(str::trim).filter(|title| !title.is_empty()).unwrap_or(stem).to_owned()
}

/// A text as YAML: plain if no part of it has a meaning in YAML, otherwise quoted.
fn scalar(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '.' | '/' | '(' | ')' | '-');
    let is_plain = text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && text.chars().all(is_word)
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"]
            .contains(&&*text.to_lowercase());
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let texts = [
            "plain",
            "yes",
            "1.5",
            "a: b",
            "- list",
            "\"quoted\" \\ back",
            "two\nlines\n",
            " led by a blank",
            "#tag",
            "ünïcödé 漢字 🎉",
            "\u{1b}[31m\u{0}\u{85}\u{2028}",
            "[x]",
            "{y}",
            "*star",
            "trailing ",
            "2026-01-01",
            "null",
            "~",
            "a #b",
            "é",
            "\r\n",
            "x\r\ny",
        ];
        for text in texts {
            for content in texts {
                let entry = EntryFile {
                    id: Id::parse("K7H9M2PQX8"),
                    topic: text.to_owned(),
                    tags: vec![text.to_owned(), "ops".to_owned()],
                    context: Some(text.to_owned()),
                    task_sizes: vec![TaskSize::XS, TaskSize::L],
                    source: Some(text.to_owned()),
                    confidence: Some(0.1 + 0.2),
                    pinned: true,
                    follows: None,
                    valid_from: "2026-01-01T00:00:00Z".parse().ok(),
                    valid_to: None,
                    content: content.to_owned(),
                };
                assert_eq!(EntryFile::read(&entry.text(None), "x"), Ok(entry), "{text:?} {content:?}");
            }
        }
    }

    #[test]
    fn a_file_without_front_matter_is_content_under_its_title() {
        let read = |text| EntryFile::read(text, "my-note").expect("good").topic;
        assert_eq!(read("# Deploying\n\nBlue-green.\n"), "Deploying");
        assert_eq!(read("Blue-green.\n"), "my-note");
        assert_eq!(read("---\ntags: [a]\n---\n\nBlue-green.\n"), "my-note");
        let refused = EntryFile::read("---\nid: nonsense\n---\n", "x").expect_err("no id");
        assert_eq!(refused, "its `id` is not an id: `nonsense`");
        assert!(EntryFile::read("---\nwhat: 1\n---\n", "x").is_err());
    }

    #[test]
    fn names_of_files_are_words_and_the_id() {
        let id = Id::parse("K7H9M2PQX8").expect("an id");
        assert_eq!(file_name("Git: commit messages!", id), "git-commit-messages-K7H9M2PQX8.md");
        assert_eq!(file_name("../..", id), "K7H9M2PQX8.md");
    }
}
