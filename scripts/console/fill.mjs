// Fills a store with what agents of a real team would have written: the labelled rules and conversations of `crates/eval/recall`,
// facts about services, versions, mistakes, corrections, links and documents.
// Usage: node fill.mjs KENNING DATA_DIR REPOSITORY [ENTRIES]

import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const RULES = ["halden", "ferrant", "nordlys"];
const SERVICES = ["matchmaking", "inventory", "accounts", "telemetry", "purchases", "lobby", "leaderboard", "chat", "mail-relay", "asset-cdn", "signing", "crash-intake", "search-indexer", "billing-export", "session-gateway", "feature-flags"];
const TEAMS = ["Live Ops", "Engine Core", "Build Farm", "Tools", "Web", "Data"];
const FACTS = [
  (name, n) => [`${name} port`, `The ${name} service listens on port ${7000 + n * 3} in production.`, ["ops"]],
  (name, n) => [`${name} owner`, `${TEAMS[n % TEAMS.length]} owns ${name}; page them through the on-call rota, not by mail.`, ["team"]],
  (name, n) => [`${name} timeout`, `Calls to ${name} time out after ${2 + (n % 9)} seconds and are retried at most ${1 + (n % 3)} times, with jitter.`, ["ops", "latency"]],
  (name, n) => [`${name} storage`, `${name} keeps its rows in PostgreSQL ${14 + (n % 4)}, schema \`${name.replaceAll("-", "_")}\`; backups are kept ${7 + (n % 30)} days.`, ["database"]],
  (name, n) => [`${name} dashboards`, `Dashboards of ${name} are in Grafana under "${TEAMS[n % TEAMS.length]} / ${name}". The panel *p99 by region* is the one that matters.`, ["observability"]],
  (name, n) => [`Debugging ${name}`, `When ${name} is slow, look at the connection pool first: it was the cause ${2 + (n % 5)} times of the last ${6 + (n % 4)}.\n\n1. \`kubectl -n live top pods -l app=${name}\`\n2. compare with the pool size in \`config/${name}.toml\`\n3. raise the pool only after the slow query log is empty`, ["runbook"]],
  (name, n) => [`${name} release`, `Releases of ${name} go out on ${["Mondays", "Tuesdays", "Wednesdays"][n % 3]} after the smoke test; build ${1200 + n} is the last that was rolled back.`, ["deploy"]],
];

class Agent {
  constructor(kenning, dir, name) {
    this.child = spawn(kenning, ["serve", "--data-dir", dir, "--actor", name], { stdio: ["pipe", "pipe", "inherit"], cwd: dir });
    this.answers = new Map();
    this.next = 1;
    createInterface({ input: this.child.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      this.answers.get(message.id)?.(message);
      this.answers.delete(message.id);
    });
  }
  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }
  request(method, params) {
    const id = this.next++;
    const answer = new Promise((resolve) => this.answers.set(id, resolve));
    this.send({ id, method, params });
    return answer;
  }
  async begin() {
    await this.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "fill", version: "1" } });
    this.send({ method: "notifications/initialized" });
    return this;
  }
  async call(name, args) {
    const { result, error } = await this.request("tools/call", { name, arguments: args });
    if (error || result.isError) throw new Error(`${name} ${JSON.stringify(args).slice(0, 200)}: ${JSON.stringify(error ?? result.structuredContent)}`);
    return result.structuredContent;
  }
  async end() {
    this.child.stdin.end();
    await new Promise((resolve) => this.child.on("exit", resolve));
  }
}

export async function fill(kenning, dir, repository, entries = 2000) {
  const read = (name) => JSON.parse(readFileSync(join(repository, "crates/eval/recall", `${name}.json`), "utf8"));
  const agents = await Promise.all(["claude-code", "codex", "cursor", "mira"].map((name) => new Agent(kenning, dir, name).begin()));
  const [claude, codex, cursor, mira] = agents;
  let written = 0;
  for (const name of RULES) {
    const { scopes, rules } = read(name);
    await mira.call("create_namespace", { name, description: `Everything about ${name}` });
    for (const { scope, description, parents } of scopes) await mira.call("create_scope", { scope, description, parents });
    for (const rule of rules) {
      const { scope, topic, content, tags, pinned } = rule;
      await agents[written % agents.length].call("store", { scope, topic: topic ?? content.slice(0, 40), content, tags, pinned, source: written % 3 ? "https://wiki.halden.example/handbook" : "pairing session" });
      written += 1;
    }
  }
  const talks = read("conversations").conversations;
  await mira.call("create_namespace", { name: "people", description: "What was said in conversations" });
  for (const { name, sessions } of talks) {
    const scope = `people:${name}`.toLowerCase().replace(/[^a-z0-9:-]/g, "-");
    await mira.call("create_scope", { scope, description: `Conversations of ${name}` });
    for (const { date, turns } of sessions) {
      await claude.call("store_many", { scope, entries: turns.map((content, at) => ({ topic: `${date}, turn ${at + 1}`, content, source: `conversation ${date}`, ...(at ? { follows: at - 1 } : {}) })) });
      written += turns.length;
    }
  }
  const scopes = ["halden:live", "halden:engine", "halden:build-farm", "halden:web"];
  const facts = [];
  for (let n = 0; written + facts.length < entries; n += 1) {
    const service = SERVICES[n % SERVICES.length];
    const region = ["eu", "us", "apac", "staging"][Math.floor(n / (SERVICES.length * FACTS.length)) % 4];
    const round = Math.floor(n / (SERVICES.length * FACTS.length * 4));
    const [topic, content, tags] = FACTS[Math.floor(n / SERVICES.length) % FACTS.length](`${service}-${region}${round ? round + 1 : ""}`, n);
    facts.push({ topic, content, tags: [...tags, region], scope: scopes[n % scopes.length], source: "inventory import" });
  }
  for (let at = 0; at < facts.length; at += 50) await agents[(at / 50) % 3].call("store_many", { entries: facts.slice(at, at + 50), scope: "halden:live" });

  // What people come to the console for: a wrong fact, a correction, and pairs that do not agree.
  const wrong = await codex.call("store", { scope: "halden:live", topic: "Rollback of matchmaking", content: "Roll matchmaking back by deleting the newest pod; Kubernetes then starts the one before it.\n\nTell the on-call lead afterwards.", tags: ["runbook", "deploy"], source: "session of 12 March" });
  const fixed = await claude.call("update", { id: wrong.id, content: "Roll matchmaking back with `kubectl rollout undo`; never delete pods by hand.\n\nTell the on-call lead before you start." });
  await cursor.call("store", { scope: "halden:live", topic: "Token lifetime", content: "Access tokens of the accounts service expire after 15 minutes.", tags: ["security"] });
  await codex.call("store", { scope: "halden:live", topic: "Token lifetime", content: "Access tokens of the accounts service expire after 60 minutes.", tags: ["security"] });
  await claude.call("store", { scope: "halden:web", topic: "Forum uploads", content: "Images in the forum may be at most 5 MB; larger ones are refused.", tags: ["limits"] });
  await cursor.call("store", { scope: "halden:web", topic: "Forum uploads", content: "Images in the forum may be at most 8 MB; larger ones are refused.", tags: ["limits"] });
  await claude.call("store", { scope: "halden:engine", topic: "Frame budget", content: "Physics may use 4 ms of a frame.", tags: ["performance"], pinned: true });
  for (const [subject, predicate, object] of [
    ["matchmaking", "depends on", "accounts"], ["matchmaking", "depends on", "inventory"], ["accounts", "stores in", "PostgreSQL"],
    ["inventory", "stores in", "PostgreSQL"], ["purchases", "calls", "inventory"], ["purchases", "owned by", "Live Ops"],
    ["matchmaking", "owned by", "Live Ops"], ["Mira", "leads", "Live Ops"], ["telemetry", "feeds", "search-indexer"], ["crash-intake", "feeds", "telemetry"],
  ]) await codex.call("relate", { scope: "halden:live", subject, predicate, object });
  const gone = await cursor.call("store", { scope: "halden:web", topic: "Old news server", content: "The news pages are served by news-01." });
  await mira.call("delete", { id: gone.id });
  const slip = await cursor.call("store", { scope: "halden:web", topic: "Test", content: "Just a test, ignore." });
  await cursor.call("undo", { tx_id: slip.tx_id });
  await Promise.all(agents.map((agent) => agent.end()));
  for (const [from, ...flags] of [["docs"], ["crates/tools/tests/patterns/catalogue", "--kind", "patterns"]]) {
    const done = spawnSync(kenning, ["ingest", join(repository, from), "--data-dir", dir, "--scope", "global:default", ...flags], { cwd: dir, encoding: "utf8" });
    if (done.status !== 0) throw new Error(done.stderr);
  }
  return { wrong: wrong.id, gone: gone.id, fixed: fixed.tx_id };
}

if (process.argv[1] === import.meta.filename) {
  const [kenning, dir, repository, entries] = process.argv.slice(2);
  console.log(await fill(kenning, dir, repository, entries ? Number(entries) : undefined));
}
