//! `kenning completions SHELL` and `kenning man`: both are generated from the definitions that also produce
//! the help.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;

use super::{Outcome, print};
use crate::config::Arguments;

#[derive(Args)]
#[command(after_help = "Examples:
  kenning completions bash > kenning.bash
  kenning completions zsh > _kenning
  kenning completions fish > kenning.fish")]
pub struct Completions {
    shell: Shell,
}

#[derive(Args)]
#[command(after_help = "Examples:
  kenning man > kenning.1
  kenning man --dir man1")]
pub struct Man {
    /// Write a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(completions: Completions) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::definition(), "kenning", &mut script);
    ignore_broken_pipe(io::stdout().write_all(&script))?;
    Ok(Outcome::Done)
}

pub fn run_man(man: Man) -> anyhow::Result<Outcome> {
    let Some(dir) = man.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Arguments::definition()).render(&mut page)?;
        ignore_broken_pipe(io::stdout().write_all(&page))?;
        return Ok(Outcome::Done);
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("{} can't be made", dir.display()))?;
    clap_mangen::generate_to(Arguments::definition(), &dir)
        .with_context(|| format!("the pages can't be written to {}", dir.display()))?;
    print(&format!("The pages are in {}", dir.display()))?;
    Ok(Outcome::Done)
}

/// Ignores the error of a closed pipe: it is not a failure when the program that reads the output stops
/// early.
fn ignore_broken_pipe(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
