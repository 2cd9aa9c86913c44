//! Files that were taken in, and their sections.

use serde::{Deserialize, Serialize};

use crate::{Id, ScopeId, Timestamp, Tombstone, clean, fold};

/// So much of a heading is shown.
const HEADING_BYTES_MAX: usize = 512;

/// One version of a document, as the log holds it. Its text is in its sections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub scope: ScopeId,
    /// What it was taken in with: a run closes only documents of its own source.
    pub source: String,
    /// Below what was taken in, with `/` between its parts.
    pub path: String,
    pub title: String,
    pub doc_tag: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// When its text was changed last, as the file says or its system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<Timestamp>,
    /// Of the directory that paths are below, as a hash: sources of one name from two places are told apart by it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// The `doc_tag` that its run gave to documents that name none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_tag: String,
    /// Whether its run took it in as part of a catalogue of patterns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub catalogue: bool,
    /// What makes it a pattern, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Box<Pattern>>,
    /// Of the file's bytes and of how they were taken in; the same means that nothing is to be done.
    pub hash: String,
    pub actor: String,
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone>,
}

/// Title and tags are the document's, the text is in its sections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// As its author calls it. The nearest scope that has the id has the pattern.
    pub id: String,
    /// A sentence or two.
    pub summary: String,
    pub description: String,
    pub category: String,
    /// beginner, intermediate or advanced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<String>,
    /// Ids of other patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid_when: Option<String>,
}

/// One version of a section. What it shares with its document stands in both, so that it can be found by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    pub scope: ScopeId,
    pub document: Id,
    /// From 0, in the order of the document.
    pub position: u32,
    /// Of its heading; 0 for what stands before the first.
    pub level: u8,
    /// The document's title, then from the outermost heading to its own.
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
    /// Documents of the same source that it links to, and where in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The things that it speaks of.
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
    /// `Snapshots > Deleting a snapshot`, bounded: what an older Kenning took in may have names of any length.
    pub fn title(&self) -> String {
        let heading = |heading: &String| clean(&heading[..heading.floor_char_boundary(HEADING_BYTES_MAX)]);
        self.heading_path.iter().map(heading).collect::<Vec<_>>().join(" > ")
    }
}

/// Where a link leads within its source. No path of a file begins with a colon, so these three say something else:
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

    /// The path of links to the page of this name.
    pub fn page_named(name: &str) -> String {
        format!(":page/{}", fold(name))
    }

    /// Whether it leads anywhere, and does not only say what its own section is called.
    pub fn leads(&self) -> bool {
        self.path != Link::LABELLED
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mention {
    /// code, command, term or name.
    pub label: String,
    pub name: String,
}
