//! Files as documents: front matter, sections cut at headings, the links between them and the things they mention.
//! Pure: it reads no file and knows no store.

mod fence;
mod front_matter;
mod html;
mod link;
mod markdown;
mod mdx;
mod mentions;
pub mod pattern;
mod restructured;
mod section;

use std::path::Path;

pub use front_matter::FrontMatter;
pub use link::Link;
pub use mentions::{Label, Mention};
pub use section::Section;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Mdx,
    Html,
    Restructured,
    Text,
}

impl Format {
    /// By the ending of its name; none for files that are no documents.
    pub fn of(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match ending.as_str() {
            "md" | "markdown" => Format::Markdown,
            "mdx" => Format::Mdx,
            "html" | "htm" | "xhtml" => Format::Html,
            "rst" | "rest" => Format::Restructured,
            "txt" | "text" => Format::Text,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Of the front matter, else the first heading, else the file's name.
    pub title: String,
    pub about: FrontMatter,
    /// In order; the first has what stands before the first heading, if anything does.
    pub sections: Vec<Section>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the front matter can't be read: {0}")]
    FrontMatter(String),
    #[error("the HTML can't be read: {0}")]
    Html(String),
}

/// `path` is that of the file below what is ingested, with `/` between its parts: links are resolved against it.
pub fn parse(format: Format, path: &str, text: &str) -> Result<Document, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (about, sections) = match format {
        Format::Markdown => {
            let (about, body) = front_matter::split(text)?;
            (about, markdown::sections(path, body))
        }
        Format::Mdx => {
            let (about, body) = front_matter::split(text)?;
            (about, markdown::sections(path, &mdx::without_modules(body)))
        }
        Format::Html => {
            let about = FrontMatter { title: html::title(text), ..FrontMatter::default() };
            (about, markdown::sections(path, &html::markdown(text)?))
        }
        Format::Restructured => restructured::sections(path, text),
        Format::Text => (FrontMatter::default(), section::whole(text)),
    };
    let mentions = |text: &str| match format {
        Format::Restructured => mentions::mentions(&restructured::markdown(text)),
        _ => mentions::mentions(text),
    };
    let heading = sections.iter().find_map(|section| section.heading_path.first()).cloned();
    let title = about.title.clone().or(heading).unwrap_or_else(|| name_of(path));
    Ok(Document { title, about, sections: section::finished(sections, mentions) })
}

/// The file's name without its ending, as words.
fn name_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    name.replace(['-', '_'], " ")
}
