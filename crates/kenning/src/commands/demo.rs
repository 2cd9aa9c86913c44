//! `kenning demo`: a real client talks to real server processes on a temporary store. Every step checks the
//! reply, and the command fails if a reply does not show what the step claims.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use kenning_engine::Engine;
use kenning_server::client::{Client, Era};
use serde_json::{Value, json};

use super::{Outcome, print};

/// How many writes are acknowledged before the server is killed during further writes.
const BEFORE_KILL: usize = 20;

pub fn run() -> anyhow::Result<Outcome> {
    let dir = tempfile::tempdir().context("a temporary directory for the demo")?;
    print(
        "Kenning keeps what your agents learn. This is one agent's day, on a store that is thrown away after.\n",
    )?;
    let mut first = start(dir.path())?;
    let deploy = remember(&mut first)?;
    recall(&mut first)?;
    let mut second = share(dir.path(), &deploy)?;
    correct(&mut first, &mut second, &deploy)?;
    relate(&mut second)?;
    inherit(&mut second)?;
    let survivors = kill(&mut first)?;
    let mut third = survive(dir.path(), survivors)?;
    take_back(&mut third, &deploy)?;
    drop((first, second, third));
    check(dir.path())?;
    print(
        "\nEvery reply was what it should be. Connect your agent with:  claude mcp add kenning -- kenning serve",
    )?;
    Ok(Outcome::Done)
}

fn start(dir: &Path) -> anyhow::Result<Client> {
    let mut command = Command::new(std::env::current_exe()?);
    // The scope of the directory in which the user works does not exist in the demo's store, so the scope is
    // given as a flag.
    command.arg("serve").arg("--data-dir").arg(dir).args(["--scope", "global:default"]);
    Ok(Client::start(command, Era::Modern, "demo-agent")?)
}

fn step(title: &str) -> anyhow::Result<()> {
    Ok(print(&format!("\n== {title}"))?)
}

/// Calls a tool, prints the call and the reply as an agent sees them, and returns the structured reply.
fn call(client: &mut Client, tool: &str, arguments: Value) -> anyhow::Result<Value> {
    print(&format!("> {tool} {arguments}"))?;
    let mut result = client.call_whole(tool, arguments)?;
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    for line in text.lines().take(12) {
        print(&format!("  {line}"))?;
    }
    Ok(result["structuredContent"].take())
}

fn remember(client: &mut Client) -> anyhow::Result<String> {
    step("An agent stores what it learns")?;
    let reply = call(
        client,
        "store",
        json!({
            "topic": "deployment", "content": "We deploy blue-green; never on Fridays.", "tags": ["ops"],
        }),
    )?;
    let id = reply["id"].as_str().context("`store` gives an id")?.to_owned();
    ensure!(reply["tx_id"] == 1 && reply["version"] == 1, "the first write is transaction 1: {reply}");
    let reply = call(
        client,
        "store",
        json!({
            "topic": "rollback", "content": "Roll back within 5 minutes if the error rate passes 1 %.",
        }),
    )?;
    ensure!(reply["tx_id"] == 2, "the second write is transaction 2: {reply}");
    Ok(id)
}

fn recall(client: &mut Client) -> anyhow::Result<()> {
    step("and finds it again by the words it uses")?;
    let reply = call(client, "query", json!({"content": "when do we deploy?"}))?;
    ensure!(reply["items"][0]["topic"] == "deployment", "the entry on deployment comes first: {reply}");
    Ok(())
}

fn share(dir: &Path, deploy: &str) -> anyhow::Result<Client> {
    step("A second session, its own process on the same data, sees it at once")?;
    let mut second = start(dir)?;
    let reply = call(&mut second, "query", json!({"topic": "deployment"}))?;
    ensure!(reply["items"][0]["id"] == deploy, "the other process finds the same entry: {reply}");
    Ok(second)
}

fn correct(first: &mut Client, second: &mut Client, deploy: &str) -> anyhow::Result<()> {
    step("Both correct the same fact; the slower one is told, nothing is lost")?;
    let reply = call(
        second,
        "update",
        json!({
            "id": deploy, "content": "We deploy blue-green, any day.", "expected_version": 1,
        }),
    )?;
    ensure!(reply["version"] == 2, "the first update makes version 2: {reply}");
    let reply = call(
        first,
        "update",
        json!({
            "id": deploy, "content": "We deploy canaries.", "expected_version": 1,
        }),
    )?;
    ensure!(reply["error"]["code"] == "CONFLICT", "a stale update is a conflict: {reply}");
    ensure!(reply["error"]["details"]["current_version"] == 2, "the conflict names the version: {reply}");
    Ok(())
}

fn relate(client: &mut Client) -> anyhow::Result<()> {
    step("Facts are linked, and contradictions are shown")?;
    call(client, "relate", json!({"subject": "checkout", "predicate": "owned by", "object": "team red"}))?;
    let reply = call(
        client,
        "relate",
        json!({"subject": "Checkout", "predicate": "owned by", "object": "team blue"}),
    )?;
    ensure!(reply["conflicts"][0]["object"] == "team red", "the other owner is named: {reply}");
    Ok(())
}

fn inherit(client: &mut Client) -> anyhow::Result<()> {
    step("Each project has a scope: its own rules come first, then those it inherits")?;
    call(client, "create_namespace", json!({"name": "acme", "description": "ACME Corporation"}))?;
    for scope in ["acme:web", "acme:mobile"] {
        client.call("create_scope", json!({"scope": scope, "description": "A project"}))?;
    }
    let rule = |scope: &str, content: &str| json!({"scope": scope, "content": content, "context": "auth session expiry jwt lifetime login"});
    call(client, "write_knowledge", rule("acme:default", "Access tokens live 60 minutes."))?;
    call(client, "write_knowledge", rule("acme:web", "Access tokens live 15 minutes."))?;
    let asked = json!({"queries": ["session token lifetime", "login expiry"], "scope": "acme:web"});
    let reply = call(client, "get_task_context", asked)?;
    let scopes: Vec<&String> = reply.as_object().context("a reply by scope")?.keys().take(2).collect();
    ensure!(scopes == ["acme:web", "acme:default"], "the nearer scope comes first: {reply}");
    ensure!(reply["contradictions"].is_object(), "two lifetimes contradict each other: {reply}");
    let asked = json!({"queries": ["session token lifetime"], "scope": "acme:mobile"});
    let reply = call(client, "get_task_context", asked)?;
    ensure!(reply.get("acme:web").is_none(), "another project does not see it: {reply}");
    ensure!(reply.get("acme:default").is_some(), "it inherits what all projects share: {reply}");
    Ok(())
}

/// Kills the server while it is writing. Returns the ids of the writes that it had acknowledged.
fn kill(first: &mut Client) -> anyhow::Result<Vec<String>> {
    step("The server is killed with -9 in the middle of writing")?;
    let mut acknowledged = Vec::new();
    for number in 0..BEFORE_KILL {
        let reply =
            first.call("store", json!({"topic": format!("note {number}"), "content": "Acknowledged."}))?;
        acknowledged.push(reply["id"].as_str().context("an id")?.to_owned());
    }
    for number in 0..BEFORE_KILL {
        first.begin(
            "tools/call",
            json!({
                "name": "store",
                "arguments": {"topic": format!("late note {number}"), "content": "Perhaps."},
            }),
        )?;
    }
    first.kill();
    print(&format!("  {BEFORE_KILL} writes were acknowledged, {BEFORE_KILL} more were on their way"))?;
    Ok(acknowledged)
}

fn survive(dir: &Path, acknowledged: Vec<String>) -> anyhow::Result<Client> {
    step("A new server has every acknowledged write")?;
    let mut third = start(dir)?;
    let mut found = 0;
    for id in &acknowledged {
        let reply = third.call("history", json!({"id": id}))?;
        found += usize::from(reply["total_count"] == 1);
    }
    print(&format!("  {found} of {} are there", acknowledged.len()))?;
    ensure!(found == acknowledged.len(), "no acknowledged write may be lost");
    Ok(third)
}

fn take_back(client: &mut Client, deploy: &str) -> anyhow::Result<()> {
    step("The update was a mistake, and is taken back")?;
    let history = call(client, "history", json!({"id": deploy}))?;
    let mistake = history["items"][0]["tx_id"].clone();
    let reply = call(client, "undo", json!({"tx_id": mistake, "any_actor": true}))?;
    ensure!(reply["undone"] == json!([mistake]), "the undo names what it undid: {reply}");
    let reply = call(client, "query", json!({"topic": "deployment"}))?;
    let content = &reply["items"][0]["content"];
    ensure!(content == "We deploy blue-green; never on Fridays.", "the first version is back: {reply}");
    let reply = call(client, "undo", json!({"tx_id": reply["as_of_tx_id"]}))?;
    ensure!(reply["undone"].is_array(), "an undo can be undone too: {reply}");
    Ok(())
}

fn check(dir: &Path) -> anyhow::Result<()> {
    step("`kenning verify` replays the log against the whole store")?;
    let mut damages = Vec::new();
    let engine = Engine::new(dir.to_owned(), Engine::real_sources());
    let verified = engine.verify(&mut |damage| damages.push(damage))?;
    ensure!(damages.is_empty(), "the store is sound: {damages:?}");
    print(&format!("  {} transactions, all sound", verified.transactions))?;
    Ok(())
}
