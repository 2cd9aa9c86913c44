//! `kenning trust SCOPE`: decides which scopes a project's files may name.

use clap::Args;
use kenning_tools::project::{Project, Trusted, trusted};
use kenning_tools::scope_name;
use serde_json::json;

use super::{Outcome, complain, line, print, usage};
use crate::config::Config;

/// A line `scope: NAMESPACE:SCOPE` in a project's files is followed if the scope was made from that project or if you
/// say so here, once.
#[derive(Args)]
pub struct Trust {
    /// The scope that the files of this project may name
    #[arg(required_unless_present = "list", value_name = "SCOPE")]
    name: Option<String>,
    /// List what every project may name
    #[arg(long, conflicts_with_all = ["name", "remove"])]
    list: bool,
    /// Take it back for this project
    #[arg(long)]
    remove: bool,
    /// Take it back for every project
    #[arg(long, requires = "remove")]
    all: bool,
    /// Print for programs: a line for each
    #[arg(long, requires = "list")]
    json: bool,
}

pub fn run(config: &Config, trust: Trust) -> anyhow::Result<Outcome> {
    let Some(name) = &trust.name else {
        tell(&trusted(&config.data_dir()?), trust.json)?;
        return Ok(Outcome::Done);
    };
    if config.read_only {
        return Err(usage("`trust` writes, and `--read-only` was given"));
    }
    let scope = scope_name(name).map_err(|stop| usage(stop.message))?;
    let engine = config.engine()?;
    let principal = config.principal();
    let (_, project) = config.scope_finder().find(&engine, &principal);
    if trust.remove {
        let many = project.distrust(engine.dir(), &scope, trust.all)?;
        if many == 0 {
            complain(&format!("`{scope}` was not trusted here; `kenning trust --list` shows where it is"));
            return Ok(Outcome::NotFound);
        }
        print(&format!("`{scope}` is not trusted {} any more", if trust.all { "anywhere" } else { "here" }))?;
        return Ok(Outcome::Done);
    }
    if *project == Project::default() {
        return Err(usage("there is no project here: the working directory can't be read"));
    }
    // A project may be trusted before the first write, so the directory may be missing.
    std::fs::create_dir_all(engine.dir())?;
    project.trust(&engine, &principal, &scope)?;
    print(&format!("The files of this project may name `{scope}` from now on"))?;
    Ok(Outcome::Done)
}

fn tell(all: &[Trusted], as_json: bool) -> anyhow::Result<()> {
    if all.is_empty() && !as_json {
        print("No project may name a scope yet that it did not make")?;
    }
    for Trusted { scope, path, remote } in all {
        let place = line(&path.display().to_string());
        print(&match (as_json, remote) {
            (true, _) => json!({"scope": scope, "path": path, "remote": remote}).to_string(),
            (false, Some(remote)) => format!("{}  {place} ({})", line(scope), line(remote)),
            (false, None) => format!("{}  {place}", line(scope)),
        })?;
    }
    Ok(())
}
