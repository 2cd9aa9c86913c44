//! Finds the source that a run belongs to. Paths of documents are relative to the root of the source. A run
//! on a subdirectory must find that root, otherwise it would take the subdirectory for the whole source and
//! close all other documents.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kenning_engine::{DocumentKind, DocumentSource, root_of};

use crate::commands::{counted_documents, usage};

#[derive(Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) name: String,
    /// The directory that paths of documents are relative to.
    pub(super) base: PathBuf,
    /// The tag that documents without a tag have had so far.
    pub(super) default_tag: Option<String>,
    /// The kind that the files of the source have had so far.
    pub(super) kind: Option<DocumentKind>,
    /// The source was taken in from another directory before.
    pub(super) has_moved: bool,
}

/// Returns the source that was taken in from the directory or from the nearest directory above it, otherwise
/// a new source. With `named`, only the source of that name is considered. With `has_moved`, a source that
/// was taken in from another directory is accepted.
pub(super) fn choose(
    directory: &Path,
    named: Option<&str>,
    has_moved: bool,
    sources: &[DocumentSource],
) -> anyhow::Result<Chosen> {
    let chosen = |source: &DocumentSource, base: &Path, has_moved| Chosen {
        name: source.name.clone(),
        base: base.to_owned(),
        default_tag: Some(source.default_tag.clone()).filter(|tag| !tag.is_empty()),
        kind: Some(source.kind),
        has_moved,
    };
    for base in directory.ancestors() {
        let root = root_of(base);
        let may_be =
            |source: &&DocumentSource| source.root == root && named.is_none_or(|named| source.name == named);
        let from_here: Vec<&DocumentSource> = sources.iter().filter(may_be).collect();
        let default = from_here.iter().find(|source| source.name == name_of(base));
        match (from_here.as_slice(), default) {
            ([], _) => {}
            ([source], _) | (_, Some(source)) => return Ok(chosen(source, base, false)),
            (several, None) => {
                let names: Vec<String> = several.iter().map(|source| format!("`{}`", source.name)).collect();
                return Err(usage(format!(
                    "{} was taken in as {}; say which is meant with `--source`",
                    base.display(),
                    names.join(" and as ")
                )));
            }
        }
    }
    let name = named.unwrap_or(name_of(directory));
    match sources.iter().find(|source| source.name == name) {
        None if has_moved => {
            let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(usage(format!(
                "there is no source `{name}` that could have moved; say which it is with `--source`: there are {there_are}"
            )))
        }
        None => {
            let base = directory.to_owned();
            Ok(Chosen { name: name.to_owned(), base, default_tag: None, kind: None, has_moved: false })
        }
        Some(source) if has_moved => Ok(chosen(source, directory, true)),
        // The source was taken in by a version that did not record the root yet.
        Some(source) if source.root.is_empty() => Ok(chosen(source, directory, false)),
        Some(source) => Err(usage(format!(
            "`{name}` is the source of {} from another directory, which would be closed; take {} in as \
             another with `--source NAME`, or, if it is that directory in another place or seen from another machine, \
             with `--moved`",
            counted_documents(source.documents),
            directory.display(),
        ))),
    }
}

/// The names of other sources that were taken in from one of these directories.
pub(super) fn within(directories: &[PathBuf], name: &str, sources: &[DocumentSource]) -> Vec<String> {
    let others: Vec<&DocumentSource> =
        sources.iter().filter(|source| source.name != name && !source.root.is_empty()).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let roots: HashSet<String> = directories.iter().map(|directory| root_of(directory)).collect();
    others
        .into_iter()
        .filter(|source| roots.contains(&source.root))
        .map(|source| source.name.clone())
        .collect()
}

fn name_of(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or("documents")
}

#[cfg(test)]
mod tests {
    use kenning_model::Timestamp;

    use super::*;

    #[test]
    fn the_nearest_directory_that_was_taken_in_decides() {
        let sources = [
            source("docs", "/project/docs"),
            source("manual", "/project/docs/manual"),
            source("old", ""),
            source("one", "/twice"),
            source("two", "/twice"),
        ];
        let check = |directory: &str, named: Option<&str>, has_moved: bool, expected: &str| {
            let told = match choose(Path::new(directory), named, has_moved, &sources) {
                Ok(chosen) => {
                    let moved = if chosen.has_moved { ", moved" } else { "" };
                    format!("{} below {}{moved}", chosen.name, chosen.base.display())
                }
                Err(error) => error.to_string(),
            };
            assert!(told.starts_with(expected), "{directory}, {named:?}: {told}");
        };
        check("/project/docs", None, false, "docs below /project/docs");
        check("/project/docs/guide/deep", None, false, "docs below /project/docs");
        check("/project/docs/manual/part", None, false, "manual below /project/docs/manual");
        check("/project/docs/manual", Some("docs"), false, "docs below /project/docs");
        check("/project", None, false, "project below /project");
        check("/other/docs", None, false, "`docs` is the source of 3 documents from another directory");
        check("/other/docs", None, true, "docs below /other/docs, moved");
        check("/project/docs", None, true, "docs below /project/docs");
        check("/other/manual", Some("docs"), true, "docs below /other/manual, moved");
        check("/other/new", None, true, "there is no source `new` that could have moved");
        check("/other/new", None, false, "new below /other/new");
        check("/other/old", None, false, "old below /other/old");
        check("/other/old", None, true, "old below /other/old, moved");
        check("/twice", None, false, "/twice was taken in as `one` and as `two`");
        check("/twice", Some("two"), false, "two below /twice");
        check("/", None, false, "documents below /");
    }

    fn source(name: &str, directory: &str) -> DocumentSource {
        let root = match directory {
            "" => String::new(),
            directory => root_of(Path::new(directory)),
        };
        let default_tag = String::new();
        DocumentSource {
            name: name.to_owned(),
            documents: 3,
            root,
            default_tag,
            kind: DocumentKind::Plain,
            changed_at: Timestamp::UNIX_EPOCH,
        }
    }
}
