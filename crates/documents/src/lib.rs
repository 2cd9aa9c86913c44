//! Files as documents: front matter, sections cut at headings, the links between them and the entities that
//! they mention. All functions are pure: they read no file and know no store.

mod asciidoc;
mod fence;
mod front_matter;
mod html;
mod include;
mod link;
mod markdown;
mod mdx;
mod mentions;
mod notebook;
mod org;
pub mod pattern;
mod restructured;
mod section;

use std::borrow::Cow;
use std::path::Path;

pub use front_matter::FrontMatter;
pub use include::{Files, included};
pub use link::Link;
pub use mentions::{Label, Mention};
pub use section::Section;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Mdx,
    Html,
    Restructured,
    Asciidoc,
    Org,
    Notebook,
    /// Plain text, unless its content shows that it is reStructuredText.
    Text,
    /// Plain text, even if it looks like reStructuredText.
    Plain,
}

impl Format {
    /// The names of the formats, for messages to people.
    pub const NAMES: &'static str =
        "Markdown, MDX, HTML, reStructuredText, AsciiDoc, Org, notebook (.ipynb) or plain text";

    /// The format by the ending of the file's name; `None` for files that are not documents.
    pub fn of(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match ending.as_str() {
            "md" | "markdown" => Format::Markdown,
            "mdx" => Format::Mdx,
            "html" | "htm" | "xhtml" => Format::Html,
            "rst" | "rest" => Format::Restructured,
            "adoc" | "asciidoc" => Format::Asciidoc,
            "org" => Format::Org,
            "ipynb" => Format::Notebook,
            "txt" | "text" => Format::Text,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The title from the front matter (`<title>`, a field `Title:`), else the first heading if it is the
    /// only one of the first level, else the file's name.
    pub title: String,
    pub about: FrontMatter,
    /// The sections in order. Text before the first heading is a section of its own.
    pub sections: Vec<Section>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the front matter can't be read: {0}")]
    FrontMatter(String),
    #[error("the HTML can't be read: {0}")]
    Html(String),
    #[error("the notebook can't be read: {0}")]
    Notebook(String),
}

/// Reads a file. `path` is relative to the ingested directory, with `/` between its parts; links are resolved
/// against it.
pub fn parse(format: Format, path: &str, text: &str) -> Result<Document, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = match format {
        Format::Text if restructured::is_meant(text) => Format::Restructured,
        format => format,
    };
    let (about, sections) = match format {
        Format::Markdown | Format::Mdx => {
            let (mut about, body) = front_matter::split(text)?;
            about.tags.extend(markdown::tags(body));
            let body = match format {
                Format::Mdx => Cow::Owned(mdx::without_modules(body)),
                _ => Cow::Borrowed(body),
            };
            (about, markdown::sections(path, &body))
        }
        Format::Html => {
            let about = FrontMatter { title: html::title(text), ..FrontMatter::default() };
            (about, markdown::sections(path, &html::markdown(text)?))
        }
        Format::Restructured => restructured::sections(path, text),
        Format::Asciidoc => {
            let (about, text) = asciidoc::markdown(text);
            (about, markdown::sections(path, &text))
        }
        Format::Org => {
            let (about, text) = org::markdown(text);
            (about, markdown::sections(path, &text))
        }
        Format::Notebook => (FrontMatter::default(), markdown::sections(path, &notebook::markdown(text)?)),
        Format::Text | Format::Plain => (FrontMatter::default(), section::whole(text)),
    };
    let mentions = |text: &str| match format {
        Format::Restructured => mentions::mentions(&restructured::flat(text)),
        _ => mentions::mentions(text),
    };
    let heading = lone_heading(&sections).map(str::to_owned);
    let title = about.title.clone().or(heading).unwrap_or_else(|| name_of(path));
    Ok(Document { title, about, sections: section::finished(sections, mentions) })
}

/// The first heading, if all others are below it. In a file with the headings `## Foo` and `## Bar` neither
/// is the title of the other, so neither is the title of the file.
fn lone_heading(sections: &[Section]) -> Option<&str> {
    let mut headings = sections.iter().filter(|section| section.level > 0);
    let first = headings.next()?;
    let is_lone = first.level == 1 && headings.all(|other| other.level > 1);
    is_lone.then(|| first.heading_path.first().map(String::as_str)).flatten()
}

/// The name of a file without its ending, as words. A page that is only called `index` gets the name of its
/// folder.
fn name_of(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    let name = match ["readme", "index", "_index"].contains(&name.to_lowercase().as_str()) {
        true if !folder.is_empty() => folder.rsplit('/').next().unwrap_or(folder),
        _ => name,
    };
    name.replace(['-', '_'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_true_of_the_whole_document() {
        for (path, text, wanted) in [
            ("a/some-page.md", "---\ntitle: Own\n---\n# Heading", "Own"),
            ("a/some-page.md", "# Heading\n\n## Foo\n\nText.", "Heading"),
            ("a/some-page.md", "## Foo\n\nText.\n\n## Bar\n\nText.", "some page"),
            ("a/some-page.md", "# Foo\n\n# Bar", "some page"),
            ("a/some-page.md", "### Foo\n\n# Bar", "some page"),
            ("the-guide/README.md", "Text.", "the guide"),
            ("README.md", "Text.", "README"),
            ("a.txt", "Heading\n=======\n\n.. note:: Text.", "Heading"),
            ("a.txt", "Heading\n=======\n\nText.", "a"),
            ("a.html", "<title>Page</title><h1>Heading</h1>", "Page"),
            ("a.rst", "Heading\n=======\n\nFoo\n---\nText.", "Heading"),
            ("a.rst", ":title: Own\n\nHeading\n=======\n", "Own"),
            ("a.adoc", "= Heading\n\nText.\n\n== Foo\n\nText.", "Heading"),
            ("a.org", "#+TITLE: Own\n* Heading", "Own"),
            ("a.ipynb", "{\"cells\": [{\"cell_type\": \"markdown\", \"source\": \"# Heading\"}]}", "Heading"),
            (
                "pep-0008.rst",
                "PEP: 8\nTitle: Style\n  Guide\nAuthor: Somebody\n\nIntroduction\n====\n\nText.\n\nMore\n====\n",
                "Style Guide",
            ),
        ] {
            let format = Format::of(Path::new(path)).expect("a document");
            assert_eq!(parse(format, path, text).expect("a good document").title, wanted, "{text}");
        }
    }
}
