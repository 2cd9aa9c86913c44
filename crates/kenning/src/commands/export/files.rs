//! Writes a Markdown file for each entry, in a folder for each scope.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use kenning_model::EntityType;

use super::Source;
use crate::commands::entry_file::{EntryFile, Provenance, file_name};
use crate::commands::usage;

/// Writes all files into a temporary directory beside the target and then renames it, so that a failed export
/// leaves no incomplete directory behind.
pub(super) fn write(source: &Source<'_>, dir: &Path) -> anyhow::Result<Option<String>> {
    let unwritable = || format!("{} can't be written", dir.display());
    let is_empty = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(unwritable),
    };
    if !is_empty {
        return Err(usage(format!(
            "{} is not empty; `kenning mirror {}` keeps a folder as the store is",
            dir.display(),
            dir.display()
        )));
    }
    let parent = dir.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = tempfile::tempdir_in(parent).with_context(unwritable)?;
    let many = source.live(&[EntityType::Entry], |stored| {
        let Some(entry) = stored.record.as_entry() else { bail!("`{}` is no entry", stored.id) };
        let scope = source.scope_of(entry.scope);
        let (namespace, name) = scope.split_once(':').unwrap_or((&scope, "default"));
        let folder = new.path().join(namespace).join(name);
        fs::create_dir_all(&folder)?;
        let text = EntryFile::of(Some(stored.id), entry).text(Some(Provenance { scope: &scope, entry }));
        Ok(fs::write(folder.join(file_name(&entry.topic, stored.id)), text)?)
    })?;
    if dir.exists() {
        fs::remove_dir(dir).with_context(unwritable)?;
    }
    fs::rename(new.keep(), dir).with_context(unwritable)?;
    Ok(Some(format!("exported {many} entries")))
}
