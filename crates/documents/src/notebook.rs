//! Converts Jupyter notebooks to Markdown, from which sections are cut: text cells unchanged, code cells as
//! fenced code, without the outputs.

use serde::Deserialize;

use crate::Error;
use crate::fence::fenced;

#[derive(Deserialize)]
struct Notebook {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    cells: Vec<Cell>,
    /// Used up to version 3 of the format.
    #[serde(default)]
    worksheets: Vec<Worksheet>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    kernelspec: Option<Language>,
    language_info: Option<Language>,
}

#[derive(Deserialize)]
struct Language {
    language: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Worksheet {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    #[serde(default, alias = "input")]
    source: Source,
    /// The level of a heading, which was a kind of cell up to version 3.
    #[serde(default)]
    level: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Source {
    Text(String),
    Lines(Vec<String>),
}

impl Default for Source {
    fn default() -> Source {
        Source::Text(String::new())
    }
}

pub(crate) fn markdown(json: &str) -> Result<String, Error> {
    let notebook: Notebook =
        serde_json::from_str(json).map_err(|error| Error::Notebook(error.to_string()))?;
    let language = notebook.metadata.language();
    let cells =
        notebook.cells.into_iter().chain(notebook.worksheets.into_iter().flat_map(|sheet| sheet.cells));
    let mut text = String::new();
    for cell in cells {
        let source = match cell.source {
            Source::Text(text) => text,
            Source::Lines(lines) => lines.concat(),
        };
        if source.trim().is_empty() {
            continue;
        }
        match cell.cell_type.as_str() {
            "markdown" => text.push_str(&source),
            "heading" => text.push_str(&format!("{} {source}", "#".repeat(cell.level.clamp(1, 6)))),
            "code" => text.push_str(&fenced(&language, source.trim_end())),
            // Other kinds of cells are meant for other programs.
            _ => continue,
        }
        text.push_str("\n\n");
    }
    Ok(text)
}

impl Metadata {
    fn language(self) -> String {
        let kernel = self.kernelspec.and_then(|kernel| kernel.language);
        let named = self.language_info.and_then(|info| info.name);
        named.or(kernel).unwrap_or_else(|| "python".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text_and_code_without_output() {
        let json = r##"{"cells": [
            {"cell_type": "markdown", "source": ["# Fit\n", "A line."]},
            {"cell_type": "code", "execution_count": 1, "source": "fit(x)\n", "outputs": [{"text": ["secret"]}]},
            {"cell_type": "raw", "source": "raw"}, {"cell_type": "code", "source": [], "outputs": []}],
            "metadata": {"kernelspec": {"language": "R", "name": "ir"}}, "nbformat": 4}"##;
        assert_eq!(markdown(json).expect("a notebook"), "# Fit\nA line.\n\n```R\nfit(x)\n```\n\n");
        let old = r#"{"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Fit"},
            {"cell_type": "code", "input": ["a = 1"]}]}]}"#;
        assert_eq!(markdown(old).expect("a notebook"), "## Fit\n\n```python\na = 1\n```\n\n");
        let broken = markdown("{\"cells\": [").expect_err("it is broken").to_string();
        assert!(broken.starts_with("the notebook can't be read: EOF"), "{broken}");
    }
}
