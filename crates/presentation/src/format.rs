//! The formats of a reply: Markdown for people, JSON for programs, or both.

use serde_json::Value;

use crate::Block;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Markdown,
    Json,
    Both,
}

impl Format {
    pub fn parse(text: &str) -> Option<Format> {
        match text {
            "markdown" => Some(Format::Markdown),
            "json" => Some(Format::Json),
            "both" => Some(Format::Both),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Format::Markdown => "markdown",
            Format::Json => "json",
            Format::Both => "both",
        }
    }

    pub fn has_markdown(self) -> bool {
        self != Format::Json
    }

    pub fn has_json(self) -> bool {
        self != Format::Markdown
    }

    /// The blocks of a reply: the text for people, the suggested next step, and last the structured reply as
    /// JSON.
    pub fn blocks(self, markdown: Vec<String>, hint: Option<String>, structured: &Value) -> Vec<Block> {
        let mut blocks = Vec::new();
        if self.has_markdown() {
            blocks.extend(markdown.into_iter().map(Block::Markdown));
            blocks.extend(hint.map(Block::Hint));
        }
        if self.has_json() {
            blocks.push(Block::Json(structured.to_string()));
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_format_has_its_blocks_and_the_json_comes_last() {
        let structured = json!({"kind": "x:v1", "n": 1});
        let blocks =
            |format: Format| format.blocks(vec!["# A".into(), "B".into()], Some("Next.".into()), &structured);
        let markdown =
            [Block::Markdown("# A".into()), Block::Markdown("B".into()), Block::Hint("Next.".into())];
        let json = Block::Json(r#"{"kind":"x:v1","n":1}"#.into());
        assert_eq!(blocks(Format::Markdown), markdown);
        let both = [&markdown[..], std::slice::from_ref(&json)].concat();
        assert_eq!(blocks(Format::Json), [json]);
        assert_eq!(blocks(Format::Both), both);
        for format in [Format::Markdown, Format::Json, Format::Both] {
            assert_eq!(Format::parse(format.as_str()), Some(format));
        }
        assert_eq!(Format::parse("xml"), None);
    }
}
