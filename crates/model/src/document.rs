//! Ingested files, and their sections.

use serde::{Deserialize, Serialize};

use crate::{Id, ScopeId, Timestamp, Tombstone, clean, fold};

/// The most bytes of a heading that are shown.
const HEADING_BYTES_MAX: usize = 512;

/// One version of a document, as the log holds it. Its text is in its sections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub scope: ScopeId,
    /// The name under which it was ingested. A run deletes only documents of its own source.
    pub source: String,
    /// The path of the file relative to the ingested directory, with `/` between its parts.
    pub path: String,
    pub title: String,
    pub doc_tag: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// When the text was last changed, according to the file or else the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<Timestamp>,
    /// A hash of the directory that the path is relative to. It distinguishes sources with one name from two
    /// places.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// The `doc_tag` that its run gave to documents that name none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_tag: String,
    /// Whether the document was ingested as part of a catalogue of patterns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub catalogue: bool,
    /// The fields of a pattern, if the document is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Box<Pattern>>,
    /// A hash over the file's bytes and the settings of the run. If it is the same, the file need not be
    /// ingested again.
    pub hash: String,
    pub actor: String,
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone>,
}

/// The fields that make a document a pattern. Its title and tags are those of the document; its text is in
/// the sections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// The id that its author gave it. If several scopes have a pattern with this id, the nearest scope's is
    /// used.
    pub id: String,
    /// One or two sentences.
    pub summary: String,
    pub description: String,
    pub category: String,
    /// beginner, intermediate or advanced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<String>,
    /// The ids of related patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid_when: Option<String>,
}

/// One version of a section. Fields that it shares with its document are stored in both, so that a search for
/// sections can filter by them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    pub scope: ScopeId,
    pub document: Id,
    /// The position in the document, from 0.
    pub position: u32,
    /// The level of its heading; 0 for the text before the first heading.
    pub level: u8,
    /// The title of the document, then the headings from the outermost one to its own.
    pub heading_path: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub anchor: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Id>,
    pub doc_tag: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The documents of the same source that it links to, with the anchors in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The entities that it mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Mention>,
    pub actor: String,
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone>,
}

impl Section {
    /// The headings as one line, such as `Snapshots > Deleting a snapshot`. Each is shortened, because
    /// documents that an older version ingested may have headings of any length.
    pub fn title(&self) -> String {
        let heading = |heading: &String| clean(&heading[..heading.floor_char_boundary(HEADING_BYTES_MAX)]);
        self.heading_path.iter().map(heading).collect::<Vec<_>>().join(" > ")
    }
}

/// The target of a link within its source. No path of a file begins with a colon, so these three paths have
/// another meaning:
///
/// | path | anchor | means |
/// |---|---|---|
/// | `:label` | name | whatever section of the source has this label |
/// | `:labelled` | name | no link: the section itself has this label |
/// | `:page/name` | none | the page whose file is called `name`, in whatever directory |
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
}

impl Link {
    pub const LABEL: &'static str = ":label";
    pub const LABELLED: &'static str = ":labelled";

    /// The path of links to the page with this name.
    pub fn page_named(name: &str) -> String {
        format!(":page/{}", fold(name))
    }

    /// Whether the link has a target. A link that only declares a label of its own section has none.
    pub fn leads(&self) -> bool {
        self.path != Link::LABELLED
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mention {
    /// One of code, command, term and name.
    pub label: String,
    pub name: String,
}
