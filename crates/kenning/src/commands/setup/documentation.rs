//! Checks the files that are generated from the table of hosts: `docs/hosts.md`, and the bundles below
//! `plugins/`. `UPDATE_EXPECT=1` rewrites them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::edit::Refusal;
use super::hosts::{Form, HOSTS, Host, Launch, Level};
use super::machine::{Machine, Platform};
use super::targets;

const ROOT: &str = "../..";

fn machine(platform: Platform) -> Machine {
    let variables: BTreeMap<&str, OsString> = BTreeMap::new();
    let (home, project) = (PathBuf::from("/~"), PathBuf::from("/project"));
    Machine { platform, home, project, program: PathBuf::from("/usr/local/bin/kenning"), variables }
}

fn launch() -> Launch {
    Launch { program: "kenning".to_owned(), arguments: Vec::new(), scope: None }
}

fn host(id: &str) -> &'static Host {
    Host::find(id).expect("a host of the table")
}

/// A path as people write it on a platform.
fn shown(path: &Path, platform: Platform) -> String {
    let path = path.display().to_string();
    let path = path.trim_start_matches("/project/");
    match platform {
        Platform::Windows => {
            let path = path.replace("/~/AppData/Roaming", "%APPDATA%").replace("/~", "%USERPROFILE%");
            path.replace('/', "\\")
        }
        _ => path.replace("/~", "~"),
    }
}

fn written_once(update: &Path, text: &str, stale: &mut Vec<String>) {
    let path = Path::new(ROOT).join(update);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory can be made");
        std::fs::write(&path, text).expect("the file can be rewritten");
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != text {
        stale.push(update.display().to_string());
    }
}

fn check(files: &[(PathBuf, String)]) {
    let mut stale = Vec::new();
    for (path, text) in files {
        written_once(path, text, &mut stale);
    }
    assert!(stale.is_empty(), "{stale:?}: stale; run with UPDATE_EXPECT=1");
}

#[test]
fn the_page_of_hosts_is_written_from_the_table() {
    let mut page = "# Hosts\n\nWritten from the code by a test. One command connects a host, one takes Kenning out again:\n\n\
        ```sh\n\
        kenning setup                             # which hosts are installed, and which have Kenning\n\
        kenning setup claude-code --hooks         # shows what changes, asks, writes\n\
        kenning setup claude-code --remove        # the file is as it was before\n\
        kenning doctor                            # whether it all works, and what to do where not\n\
        ```\n\n\
        `--hooks` has the host ask for memory by itself at every session start and prompt. `--project` writes into the project's \
        files instead of yours, `--scope acme:web` also makes a scope for the project and names it in the file that the host's \
        agents read. `--dry-run` only shows what would change, `--print` what to add by hand, `--yes` does not ask.\n\n\
        Everything else of a file stays as it is: comments, order, indentation, line ends, keys that Kenning does not know. A file that \
        can't be read for sure is left alone. What it was before is kept beside it (`.before-kenning`) until `--remove`. The entry says `kenning` \
        if your shell means the same program by that name, otherwise its path.\n\n\
        | host | name for `setup` | hooks | in a project |\n|---|---|---|---|\n"
        .to_owned();
    for host in &HOSTS {
        let hooks = if host.hooks.is_some() { "yes" } else { "–" };
        let project = if host.servers.project.is_some() { "yes" } else { "–" };
        page.push_str(&format!(
            "| [{}](#{}) | `{}` | {hooks} | {project} |\n",
            host.name,
            anchor(host),
            host.id
        ));
    }
    for host in &HOSTS {
        page.push_str(&about(host));
    }
    page.push_str(
        "\n## Any other host\n\nCommand `kenning`, argument `serve`, on standard streams. In JSON most hosts write\n\n```json\n\
         {\"mcpServers\": {\"kenning\": {\"command\": \"kenning\", \"args\": [\"serve\"]}}}\n```\n",
    );
    check(&[(PathBuf::from("docs/hosts.md"), page)]);
}

fn anchor(host: &Host) -> String {
    host.name.to_lowercase().replace(' ', "-")
}

fn about(host: &Host) -> String {
    let linux = machine(Platform::Linux);
    let hooks = if host.hooks.is_some() { " --hooks" } else { "" };
    let mut page =
        format!("\n## {}\n\n```sh\nkenning setup {}{hooks}\n```\n\n{}", host.name, host.id, host.next);
    if host.hooks.is_some() {
        page.push_str(&format!(" {}", host.next_for_hooks));
    }
    page.push_str(&format!("\n\n**To see that it works:** {}\n\n", host.check));
    let (servers, hooks) = targets(host, &linux, Level::User, &launch());
    let project = targets(host, &linux, Level::Project, &launch());
    for (index, target) in servers.iter().chain(&hooks).enumerate() {
        let is_hook = index >= servers.len();
        let other = project.0.iter().chain(&project.1).nth(index).map(|target| &target.path);
        page.push_str(&format!(
            "**{}** in {}",
            if is_hook { "Hooks" } else { "The entry" },
            places(host, is_hook)
        ));
        if let Some(other) = other {
            page.push_str(&format!("; with `--project` in `{}`", shown(other, Platform::Linux)));
        }
        let text = target.format.apply("", &target.pieces).map_err(|Refusal(why)| why).expect("a new file");
        let language = match target.path.extension().and_then(|ending| ending.to_str()) {
            Some("toml") => "toml",
            Some("yaml") => "yaml",
            _ => "json",
        };
        page.push_str(&format!(":\n\n```{language}\n{}\n```\n\n", text.trim_end()));
    }
    page.push_str(&format!("**To take it out:** `kenning setup {} --remove`\n", host.id));
    page
}

/// The paths of the user's file on each platform, without repetition.
fn places(host: &Host, is_hook: bool) -> String {
    let of = |platform: Platform| {
        let (servers, hooks) = targets(host, &machine(platform), Level::User, &launch());
        let paths = if is_hook { hooks } else { servers };
        let shown: Vec<String> =
            paths.iter().map(|target| format!("`{}`", shown(&target.path, platform))).collect();
        shown.join(" and ")
    };
    let (linux, macos, windows) = (of(Platform::Linux), of(Platform::MacOs), of(Platform::Windows));
    let is_below_home = |place: &str| place.replace("%USERPROFILE%", "~").replace('\\', "/");
    match (linux == macos, is_below_home(&windows) == linux) {
        (true, true) => linux,
        (true, false) => format!("{linux}, on Windows {windows}"),
        (false, _) => format!("{linux} on Linux, {macos} on macOS, {windows} on Windows"),
    }
}

#[test]
fn bundles_are_written_from_the_table() {
    let version = env!("CARGO_PKG_VERSION");
    let about = "Knowledge and memory for AI agents: each project sees its own and what it inherits";
    let about_the_program = json!({
        "name": "kenning",
        "version": version,
        "description": about,
        "license": env!("CARGO_PKG_LICENSE"),
    });
    let servers = |id: &str| fresh(host(id), false);
    let hooks = |id: &str| fresh(host(id), true);
    let with = |base: &Value, more: Value| {
        let mut all = base.clone();
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        pretty(&all)
    };
    let desktop = json!({
        "manifest_version": "0.3",
        "display_name": "Kenning",
        "author": {"name": "The Kenning authors"},
        "server": {
            "type": "binary",
            "entry_point": "server/kenning",
            "mcp_config": {
                "command": "${__dirname}/server/kenning",
                "args": ["serve"],
                "platform_overrides": {"win32": {"command": "${__dirname}/server/kenning.exe"}},
            },
        },
        "tools_generated": true,
        "prompts_generated": true,
    });
    let codex = json!({"mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json"});
    // A bundle lists its servers in JSON, as other hosts do in their files.
    let codex_servers =
        pretty(&json!({"mcpServers": {"kenning": {"command": "kenning", "args": ["serve"]}}}));
    let gemini = host("gemini-cli").hooks.as_ref().expect("it has hooks");
    let gemini_hook = Form::Gemini.hook(Platform::Linux, &launch());
    let gemini_hooks = gemini.events.map(|event| (event.to_owned(), json!([gemini_hook.clone()])));
    let gemini_hooks = pretty(&json!({"hooks": serde_json::Map::from_iter(gemini_hooks)}));
    let gemini_servers = json!({"mcpServers": {"kenning": {"command": "kenning", "args": ["serve"]}}});
    let file = |path: &str, text: String| (Path::new("plugins").join(path), text);
    check(&[
        file("claude-code/.claude-plugin/plugin.json", pretty(&about_the_program)),
        file("claude-code/.mcp.json", servers("claude-code")),
        file("claude-code/hooks/hooks.json", hooks("claude-code")),
        file("codex/.codex-plugin/plugin.json", with(&about_the_program, codex)),
        file("codex/.mcp.json", codex_servers),
        file("codex/hooks/hooks.json", hooks("codex")),
        file("gemini-cli/gemini-extension.json", with(&about_the_program, gemini_servers)),
        file("gemini-cli/hooks/hooks.json", gemini_hooks),
        file("claude-desktop/manifest.json", with(&about_the_program, desktop)),
    ]);
}

/// The file that `setup` writes if there is none yet.
fn fresh(host: &Host, is_hook: bool) -> String {
    let (servers, hooks) = targets(host, &machine(Platform::Linux), Level::User, &launch());
    let target = if is_hook { hooks } else { servers }.into_iter().next().expect("a file");
    target.format.apply("", &target.pieces).map_err(|Refusal(why)| why).expect("a new file")
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).expect("JSON"))
}
