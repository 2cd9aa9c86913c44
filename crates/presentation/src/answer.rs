//! The answer of a tool, and how it becomes a reply. This file alone decides which blocks a client gets.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Ask, Block, Content, Format, Link, Reply};

/// The result of a tool: its typed output, and everything that accompanies it.
#[derive(Debug)]
pub struct Answer<T> {
    /// The structured reply, complete without the other channels.
    pub output: T,
    /// The same facts as text, for clients that read only text.
    pub body: Body,
    /// The address under which a client may keep the structured reply. If it is given, the reply is embedded
    /// as a resource.
    pub resource: Option<String>,
    /// Links to resources with more to read.
    pub links: Vec<Link>,
    /// The result set behind a reply that shows only some of its rows.
    pub set: Option<SetReference>,
    /// The question to ask people, if the server can ask them.
    pub ask: Option<Ask>,
    /// Information about the answer that is not part of it.
    pub meta: Map<String, Value>,
    /// The number of rows or passages that were left out because they repeated earlier ones.
    pub duplicates: usize,
}

/// The content for people, and for clients without structured content.
#[derive(Debug)]
pub enum Body {
    Text(String),
    /// Blocks in the format that the caller chose by the argument `format`.
    Formatted {
        format: Format,
        markdown: Vec<String>,
        /// A suggestion of the next step for the model.
        hint: Option<String>,
    },
}

/// The link to a result set.
#[derive(Debug)]
pub struct SetReference {
    /// A line about it for the text of the reply.
    pub line: String,
    pub link: Link,
}

/// The kinds of content that the client of a call accepts.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub content: Content,
    /// Whether the client's protocol revision has structured content and links to resources.
    pub has_structured: bool,
}

/// A remark about the call that the caller should know, besides its answer.
#[derive(Debug)]
pub struct Note {
    pub text: String,
    /// Whether the structured reply has a field for the note; otherwise the note goes to `_meta`.
    pub is_field: bool,
}

/// The `_meta` key of a note that has no field in the structured reply.
const NOTE: &str = "io.kenning/note";
/// The `_meta` key of the description of the rows of a set, for clients whose structured reply lacks it.
const ROWS: &str = "io.kenning/rows";

impl<T> Answer<T> {
    pub fn new(output: T, body: Body) -> Answer<T> {
        Answer {
            output,
            body,
            resource: None,
            links: Vec::new(),
            set: None,
            ask: None,
            meta: Map::new(),
            duplicates: 0,
        }
    }

    /// An answer whose text is made from its output.
    pub fn text(output: T, text: impl FnOnce(&T) -> String) -> Answer<T> {
        let text = text(&output);
        Answer::new(output, Body::Text(text))
    }
}

/// Makes the reply for a client with this profile.
pub fn render<T: Serialize>(
    answer: Answer<T>,
    note: Option<Note>,
    profile: Profile,
) -> Result<Reply, serde_json::Error> {
    let Answer { output, mut body, resource, links, set, ask, mut meta, duplicates } = answer;
    let mut structured = serde_json::to_value(&output)?;
    if let Some(set) = &set {
        body.append(&set.line);
    }
    if let Some(Note { text, is_field }) = note {
        if let Body::Text(body) = &mut body {
            body.push_str(&format!("\n{text}"));
        }
        match structured.as_object_mut().filter(|_| is_field) {
            Some(fields) => fields.insert("note".to_owned(), text.into()),
            None => meta.insert(NOTE.to_owned(), text.into()),
        };
    }
    let is_full = profile.content == Content::Full;
    if !is_full && let Some(described) = take_description(&mut structured) {
        meta.insert(ROWS.to_owned(), described);
    }
    let mut blocks = body.blocks(&structured);
    if let Some(uri) = resource.filter(|_| is_full) {
        blocks.push(Block::Resource { uri, json: structured.to_string() });
    }
    if is_full && profile.has_structured {
        blocks.extend(links.into_iter().map(Block::Link));
        blocks.extend(set.map(|set| Block::SetLink(set.link)));
    }
    Ok(Reply { blocks, structured, meta, is_error: false, ask, duplicates })
}

/// Removes the description of the rows of a set from a structured reply: programs need it, but a model that
/// reads the whole reply does not.
fn take_description(structured: &mut Value) -> Option<Value> {
    let metadata = structured.get_mut("metadata")?.as_object_mut()?;
    let taken = ["columns", "executed_at"].map(|name| Some((name.to_owned(), metadata.shift_remove(name)?)));
    let taken: Map<String, Value> = taken.into_iter().flatten().collect();
    (!taken.is_empty()).then_some(Value::Object(taken))
}

impl Body {
    /// Adds a line to the text that a model reads. A reply in JSON alone has no such text.
    fn append(&mut self, line: &str) {
        let text = match self {
            Body::Text(text) => Some(text),
            Body::Formatted { format, hint, .. } => hint.as_mut().filter(|_| format.has_markdown()),
        };
        if let Some(text) = text {
            text.push_str(&format!("\n{line}"));
        }
    }

    fn blocks(self, structured: &Value) -> Vec<Block> {
        match self {
            Body::Text(text) => vec![Block::Text(text)],
            Body::Formatted { format, markdown, hint } => format.blocks(markdown, hint, structured),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link(uri: &str) -> Link {
        Link { uri: uri.to_owned(), name: "Rows".to_owned(), bytes: None, last_modified: String::new() }
    }

    fn answer() -> Answer<Value> {
        let output = json!({"n": 1, "metadata": {"columns": ["a"], "total_count": 9}});
        Answer {
            resource: Some("x://all".to_owned()),
            links: vec![link("x://more")],
            set: Some(SetReference { line: "All 9 rows.".to_owned(), link: link("x://rows") }),
            ..Answer::text(output, |output| format!("n is {}.", output["n"]))
        }
    }

    fn rendered(content: Content, has_structured: bool) -> Reply {
        let note = Note { text: "Mind the gap.".to_owned(), is_field: true };
        render(answer(), Some(note), Profile { content, has_structured }).expect("plain data")
    }

    #[test]
    fn each_profile_gets_its_blocks() {
        let text = Block::Text("n is 1.\nAll 9 rows.\nMind the gap.".to_owned());
        let whole =
            json!({"n": 1, "metadata": {"columns": ["a"], "total_count": 9}, "note": "Mind the gap."});
        let resource = Block::Resource { uri: "x://all".to_owned(), json: whole.to_string() };
        let links = [Block::Link(link("x://more")), Block::SetLink(link("x://rows"))];
        let full = rendered(Content::Full, true);
        assert_eq!(full.structured, whole);
        assert_eq!(full.blocks, [&[text.clone(), resource.clone()][..], &links].concat());
        assert_eq!(rendered(Content::Full, false).blocks, [text.clone(), resource]);
        let lean = rendered(Content::Text, true);
        assert_eq!(lean.blocks, [text]);
        assert_eq!(lean.structured["metadata"], json!({"total_count": 9}));
        assert_eq!(lean.meta[ROWS], json!({"columns": ["a"]}));
    }

    #[test]
    fn a_note_without_a_field_is_in_meta() {
        let note = Note { text: "Mind the gap.".to_owned(), is_field: false };
        let profile = Profile { content: Content::Full, has_structured: true };
        let reply = render(answer(), Some(note), profile).expect("plain data");
        assert_eq!(reply.meta[NOTE], "Mind the gap.");
        assert_eq!(reply.structured.get("note"), None);
    }
}
