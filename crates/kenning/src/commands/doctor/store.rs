//! Checks the data directory, the store in it, and the search index beside the store.

use std::path::Path;
use std::time::Instant;

use kenning_engine::INDEX_DIR;
use kenning_storage::{Damage, Location};
use serde_json::{Map, json};

use super::Finding;
use crate::commands::run_tool;
use crate::commands::status::{shown_bytes, size_below};
use crate::config::Config;

/// Below this much free disk space, a day of work may fill the disk.
const ROOM_WANTED: u64 = 1 << 30;
/// Below this much free disk space, SQLite's logs may not fit.
const ROOM_NEEDED: u64 = 100 << 20;

pub(super) fn check(config: &Config, fix: bool, deep: bool) -> anyhow::Result<Vec<Finding>> {
    let dir = config.data_dir()?;
    let mut findings = Vec::new();
    if !dir.exists() {
        let says = format!("{} is not there yet; the first write makes it", dir.display());
        findings.push(Finding::ok("data", says));
        return Ok(findings);
    }
    findings.push(permissions(&dir, fix));
    findings.extend(room(&dir));
    if !Location::Directory(dir.clone()).has_store() {
        findings.push(Finding::ok("store", "there is none yet; the first write makes it"));
        return Ok(findings);
    }
    let store = store(config, deep)?;
    let is_sound = store.state == super::State::Ok;
    findings.push(store);
    if is_sound {
        findings.push(index(config, &dir, fix)?);
    }
    Ok(findings)
}

fn store(config: &Config, deep: bool) -> anyhow::Result<Finding> {
    let engine = match config.engine() {
        Ok(engine) => engine,
        Err(error) => {
            let advice = "see `--embedder` and `--model-dir` in docs/config.md";
            return Ok(Finding::problem("model", format!("{error:#}"), advice));
        }
    };
    let since = Instant::now();
    let opened = engine.snapshot(&config.principal()).and_then(|snapshot| {
        snapshot.tree()?;
        Ok(snapshot.at())
    });
    let advice = "`kenning verify` says where; `kenning restore` brings a backup back";
    let head = match opened {
        Ok(head) => head,
        Err(error) => return Ok(Finding::problem("store", error.to_string(), advice)),
    };
    let took = since.elapsed().as_millis();
    if !deep {
        return Ok(Finding::ok("store", format!("{} transactions, opened in {took} ms", head.0)));
    }
    let mut damages: Vec<Damage> = Vec::new();
    Ok(match engine.verify(&mut |damage| damages.push(damage)) {
        Ok(verified) if damages.is_empty() => {
            let says = format!("{} transactions, every row checked against the log", verified.transactions);
            Finding::ok("store", says)
        }
        Ok(_) => Finding::problem("store", format!("{} places are damaged", damages.len()), advice),
        Err(error) => Finding::problem("store", error.to_string(), advice),
    })
}

/// Runs a query, to see whether the search index answers.
fn index(config: &Config, dir: &Path, fix: bool) -> anyhow::Result<Finding> {
    let question = Map::from_iter([("content".to_owned(), json!("kenning")), ("limit".to_owned(), json!(1))]);
    let since = Instant::now();
    let reply = run_tool(config, "query", question)?;
    let took = since.elapsed().as_millis();
    let size = shown_bytes(size_below(&dir.join(INDEX_DIR)));
    if !reply.is_error {
        return Ok(Finding::ok("index", format!("{size}, answered in {took} ms")));
    }
    if fix && config.engine()?.rebuild().is_ok() {
        return Ok(Finding::ok("index", "was damaged and is made again from the log"));
    }
    Ok(Finding::problem("index", format!("a search fails: {}", reply.text()), "kenning rebuild"))
}

/// Checks that nobody but the owner can read the store.
#[cfg(unix)]
fn permissions(dir: &Path, fix: bool) -> Finding {
    use std::os::unix::fs::PermissionsExt;
    let mut open = Vec::new();
    let inside = std::fs::read_dir(dir).map(|inside| inside.filter_map(Result::ok)).into_iter().flatten();
    let paths = std::iter::once(dir.to_owned()).chain(inside.map(|entry| entry.path()));
    for path in paths {
        let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
        let mode = about.permissions().mode();
        if about.is_symlink() || mode & 0o077 == 0 {
            continue;
        }
        let closed = std::fs::Permissions::from_mode(mode & 0o700);
        if !fix || std::fs::set_permissions(&path, closed).is_err() {
            open.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    let shown = dir.display();
    match open.is_empty() {
        true => Finding::ok("data", format!("{shown}, for you alone")),
        false => Finding::warning(
            "data",
            format!("others on this machine may look into {shown}: {}", open.join(", ")),
            "kenning doctor --fix",
        ),
    }
}

#[cfg(not(unix))]
fn permissions(dir: &Path, _: bool) -> Finding {
    Finding::ok("data", dir.display().to_string())
}

#[cfg(unix)]
fn room(dir: &Path) -> Option<Finding> {
    let about = rustix::fs::statvfs(dir).ok()?;
    let room = about.f_bavail.saturating_mul(about.f_frsize);
    let says = format!("{} free", shown_bytes(room));
    Some(match room {
        room if room < ROOM_NEEDED => Finding::problem("disk", says, "make room: writes will fail"),
        room if room < ROOM_WANTED => Finding::warning("disk", says, "make room before the disk is full"),
        _ => Finding::ok("disk", says),
    })
}

#[cfg(not(unix))]
fn room(_: &Path) -> Option<Finding> {
    None
}
