//! Which source a run is of. Paths are below its root, so a run of a part of it must know where that is: otherwise it
//! would take the part for the whole and close the rest.

use std::path::{Path, PathBuf};

use kenning_engine::{DocumentSource, root_of};

use crate::commands::{counted_documents, usage};

#[derive(Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) name: String,
    /// What its paths are below.
    pub(super) base: PathBuf,
    /// What documents that name no tag had so far.
    pub(super) default_tag: Option<String>,
    /// It was somewhere else before.
    pub(super) has_moved: bool,
}

/// The source that was taken in from the directory or from the nearest one above it, else a new one. `named` is the
/// only one that it may be; `has_moved` lets it be one that was taken in from elsewhere.
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
        None => {
            let base = directory.to_owned();
            Ok(Chosen { name: name.to_owned(), base, default_tag: None, has_moved: false })
        }
        // It is of before roots were kept.
        Some(source) if source.root.is_empty() => Ok(chosen(source, directory, false)),
        Some(source) if has_moved => Ok(chosen(source, directory, true)),
        Some(source) => Err(usage(format!(
            "`{name}` is the source of {} from another directory, which would be closed; take {} in as \
             another with `--source NAME`, or, if it is that directory in another place or seen from another machine, \
             with `--moved`",
            counted_documents(source.documents),
            directory.display(),
        ))),
    }
}

fn name_of(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or("documents")
}
