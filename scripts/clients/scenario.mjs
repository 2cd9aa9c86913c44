// What every client does with a fresh server. Both TypeScript clients have the same methods for it; each checks
// every structured reply against the tool's outputSchema and throws if it does not fit.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { patterns } from "./patterns.mjs";

const NOTICE_MAX_MS = 10_000;

// `server` is the program and its data directory, for another process on the same data, how a client of its kind is
// told of other tools, and how another is connected that answers questions.
export async function scenario(client, watch, server) {
  await lists(client);
  const asking = { call: call(client), refused: refused(client) };
  const ids = await tools(client, asking);
  await resources(client, ids);
  await prompts(client);
  await scopes(asking);
  await notices(client, watch);
  await documents(client, asking, server);
  await patterns(client, server);
}

async function lists(client) {
  const names = (items) => items.map((item) => item.name).sort();
  const { tools } = await client.listTools();
  const known = ["delete", "get_task_context", "history", "query", "query_graph", "relate", "store", "undo", "update"];
  assert.deepEqual(names(tools).filter((name) => known.includes(name)), known);
  const { resources } = await client.listResources();
  assert.deepEqual(names(resources), ["entries", "transactions", "triples"]);
  assert.ok(resources.every((resource) => resource._meta["io.kenning/version"] === 1));
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.ok(names(resourceTemplates).includes("entry"));
  const { prompts } = await client.listPrompts();
  assert.deepEqual(names(prompts), ["correct_stale_facts", "ingest_memory", "retrieve_context"]);
}

const call = (client) => async (name, args) => {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result)}`);
  assert.equal(result.content[0].type, "text");
  return result.structuredContent;
};

const refused = (client) => async (name, args, code) => {
  const result = await client.callTool({ name, arguments: args });
  assert.equal(result.isError, true, `${name}: ${JSON.stringify(result)}`);
  assert.equal(result.structuredContent.error.code, code);
  assert.ok(result.content[0].text.startsWith(code), result.content[0].text);
};

async function tools(client, { call, refused }) {
  const entry = await call("store", { topic: "deploys", content: "Blue-green.", tags: ["ops"], confidence: 0.9 });
  const other = await call("store", { topic: "rollback", content: "Within five minutes.", task_sizes: ["S"] });
  await refused("store", { topic: "deploys" }, "INVALID_ARGUMENT");
  const updated = await call("update", { id: entry.id, content: "Canaries.", expected_version: 1 });
  assert.equal(updated.version, 2);
  await refused("update", { id: entry.id, content: "Late.", expected_version: 1 }, "CONFLICT");

  const first = await call("query", { limit: 1 });
  assert.equal(first.total_count, 2);
  const second = await call("query", { limit: 1, cursor: first.next_cursor });
  assert.deepEqual([first.items[0].id, second.items[0].id].sort(), [entry.id, other.id].sort());
  assert.equal(second.next_cursor, null);
  const found = await call("query", { content: "canaries", explain: true });
  assert.equal(found.items[0].id, entry.id);
  await refused("query", { limit: 1000 }, "INVALID_ARGUMENT");

  const red = await call("relate", { subject: "checkout", predicate: "owned by", object: "red" });
  const blue = await call("relate", { subject: "checkout", predicate: "owned by", object: "blue" });
  assert.equal(blue.conflicts[0].id, red.id);
  const reject = { subject: "checkout", predicate: "owned by", object: "green", on_conflict: "reject" };
  await refused("relate", reject, "CONFLICT");
  assert.equal((await call("query_graph", { subject: "Checkout" })).total_count, 2);
  await refused("query_graph", { cursor: "nonsense" }, "INVALID_ARGUMENT");

  await call("delete", { id: other.id });
  await refused("delete", { id: other.id }, "NOT_FOUND");
  const planned = await call("undo", { dry_run: true });
  assert.equal(planned.tx_id, undefined);
  const undone = await call("undo", { count: 1 });
  assert.deepEqual(undone.changed_ids, [other.id]);
  await refused("undo", { tx_id: 999 }, "NOT_FOUND");

  const history = await call("history", { limit: 3 });
  assert.equal(history.items[0].tx_id, undone.tx_id);
  assert.equal((await call("history", { id: entry.id })).total_count, 2);
  await refused("history", { since: 1 }, "INVALID_ARGUMENT");
  await assert.rejects(client.callTool({ name: "none", arguments: {} }), { code: -32602 });
  return { entry: entry.id, transactions: undone.tx_id };
}

async function resources(client, ids) {
  const read = async (uri) => {
    const { contents } = await client.readResource({ uri });
    assert.equal(contents[0].mimeType, "application/json");
    return JSON.parse(contents[0].text);
  };
  const pages = { "knowledge://entries": 2, "knowledge://graph/triples": 2 };
  pages["knowledge://history/transactions"] = ids.transactions;
  for (const [uri, expected] of Object.entries(pages)) {
    let count = 0;
    let cursor = "";
    do {
      const page = await read(`${uri}?limit=1${cursor}`);
      count += page.items.length;
      cursor = page.next_cursor && `&cursor=${page.next_cursor}`;
    } while (cursor);
    assert.equal(count, expected, uri);
  }
  assert.equal((await read(`knowledge://entries/${ids.entry}`)).items[0].content, "Canaries.");
  await assert.rejects(read("knowledge://entries/none"));
}

async function prompts(client) {
  const required = { ingest_memory: "text", retrieve_context: "task", correct_stale_facts: "topic" };
  for (const [name, argument] of Object.entries(required)) {
    const { messages } = await client.getPrompt({ name, arguments: { [argument]: "a very special value" } });
    assert.ok(messages[0].content.text.includes("a very special value"), name);
    await assert.rejects(client.getPrompt({ name, arguments: {} }), { code: -32602 });
  }
  const ref = { type: "ref/prompt", name: "correct_stale_facts" };
  const { completion } = await client.complete({ ref, argument: { name: "topic", value: "dep" } });
  assert.deepEqual(completion.values, ["deploys"]);
}

async function scopes({ call, refused }) {
  const named = await call("create_namespace", { name: "acme", description: "ACME Corporation" });
  assert.deepEqual(Object.keys(named.scopes), ["default"]);
  await refused("create_namespace", { name: "acme", description: "Again" }, "CONFLICT");
  for (const scope of ["acme:mobile", "acme:shop"]) {
    await call("create_scope", { scope, description: "A project" });
  }
  const shop = await call("update_scope", { scope: "acme:shop", parents: ["acme:mobile"] });
  assert.deepEqual(shop.parents, ["acme:mobile", "acme:default"]);
  const circle = { scope: "acme:mobile", parents: ["acme:shop"] };
  await refused("update_scope", circle, "INVALID_ARGUMENT");
  const { namespaces } = await call("get_namespaces", { style: "details" });
  assert.deepEqual(namespaces.acme.scopes.shop.parents, ["mobile", "default"]);
  assert.deepEqual(await call("get_namespaces", { namespace: "none" }), { namespaces: {} });

  const rule = (scope, content) => ({ scope, content, context: "auth session expiry login" });
  const near = await call("write_knowledge", rule("acme:shop", "Token lifetime is 15 minutes"));
  const far = await call("write_knowledge", rule("global:default", "Token lifetime is 60 minutes"));
  const asked = { queries: ["token lifetime", "session expiry"], scope: "acme:shop", task_size: "M" };
  const context = await call("get_task_context", asked);
  const scopes = (reply) => Object.keys(reply).filter((key) => key.includes(":"));
  assert.deepEqual(scopes(context), ["acme:shop", "global:default"]);
  assert.ok(context.contradictions[near.id].startsWith(far.id));
  assert.equal(context["acme:shop"][near.id], "Token lifetime is 15 minutes");
  const off = await call("get_task_context", { queries: ["giraffes of the savanna"] });
  assert.deepEqual(Object.keys(off.nothing_for), ["giraffes of the savanna"]);
  await refused("get_task_context", { queries: ["x"], scope: "acme:nowhere" }, "NOT_FOUND");
  await call("resolve_knowledge_collision", { active_id: near.id, suppressed_ids: [far.id] });
  assert.deepEqual(scopes(await call("get_task_context", asked)).slice(0, 1), ["acme:shop"]);

  await call("update_knowledge", { id: near.id, scope: "acme:mobile" });
  await call("delete_knowledge", { id: near.id });
  await call("undo", {});
  await call("update_namespace", { name: "acme", new_name: "acme-corp" });
  assert.equal((await call("delete_scope", { scope: "acme-corp:mobile" })).knowledge_deleted, 1);
  await call("undo", {});
  const gone = await call("delete_namespace", { name: "acme-corp" });
  assert.deepEqual([gone.scopes_count, gone.knowledge_count], [3, 1]);
  await refused("query", { scope: "acme-corp:shop" }, "NOT_FOUND");
  await call("undo", { tx_id: gone.tx_id });
  const found = await call("query", { scope: "acme-corp:shop", content: "lifetime" });
  assert.equal(found.items[0].id, near.id);
}

async function notices(client, watch) {
  let told;
  const notice = new Promise((resolve) => (told = resolve));
  const stop = await watch("knowledge://entries", told);
  const news = { topic: "news", content: "New." };
  const { structuredContent } = await client.callTool({ name: "store", arguments: news });
  const late = new Promise((_, reject) => setTimeout(reject, NOTICE_MAX_MS, new Error("no notice came")).unref());
  const { params } = await Promise.race([notice, late]);
  assert.equal(params.uri, "knowledge://entries");
  assert.deepEqual(params._meta["io.kenning/change"], {
    resource_uri: "knowledge://entries",
    tx_id: structuredContent.tx_id,
    change_type: "upsert",
    changed_ids: [structuredContent.id],
  });
  await stop();
}

async function documents(client, { call, refused }, { command, dataDir, watchTools }) {
  const names = async () => (await client.listTools()).tools.map((tool) => tool.name);
  assert.ok(!(await names()).includes("kb_search"));
  const stop = await watchTools();
  const book = join(dataDir, "book");
  mkdirSync(book);
  const garbage = "# Garbage\n\nGarbage is collected every night at 2:30. See [restoring](restore.md#mounting).\n";
  writeFileSync(join(book, "garbage.md"), garbage);
  writeFileSync(join(book, "restore.md"), "# Restoring\n\n## Mounting\n\nRun `volctl mount` first.\n");
  execFileSync(command, ["ingest", book, "--data-dir", dataDir]);

  const { quotes } = await call("kb_retrieve_evidence", { question: "when is garbage collected?" });
  assert.ok(quotes[0].quote.includes("2:30"), JSON.stringify(quotes));
  const found = await client.callTool({ name: "kb_search", arguments: { query: "garbage collected" } });
  const [first, second] = found.structuredContent.results;
  assert.deepEqual([first.source, second.source], ["hybrid", "graph_expanded"]);
  assert.ok(found._meta["io.kenning/usage"].bytes_returned > 0);
  const link = found.content.find((block) => block.type === "resource_link");
  assert.deepEqual([link.uri, link.mimeType, link.annotations.priority], [first.scratch_uri, "text/plain", undefined]);
  const { contents } = await client.readResource({ uri: first.scratch_uri });
  assert.ok(contents[0].text.startsWith("Garbage is collected"));
  const { passage_id } = first;
  assert.ok((await call("kb.read_excerpt", { passage_id })).excerpt.includes("2:30"));
  assert.equal((await call("kb_expand_excerpt", { passage_id })).truncated, false);
  const evidence = await call("kb_extract_evidence", { question: "garbage when?", passage_ids: [passage_id] });
  assert.equal(evidence.quotes[0].passage_id, passage_id);
  await refused("kb_read_excerpt", { passage_id: "none" }, "INVALID_ARGUMENT");
  await refused("kb_search", { query: "x", scope: { project_id: "other" } }, "SCOPE_VIOLATION");

  const { edges } = await call("graph_expand", { node_ids: [first.section_id] });
  assert.deepEqual(edges.filter((edge) => edge.type === "links_to").map((edge) => edge.to), [second.section_id]);
  const paths = await call("graph_paths", { a_ids: [first.section_id], b_ids: ["volctl mount"] });
  assert.deepEqual(paths.paths[0].types, ["links_to", "mentions"]);
  const node_ids = [first.section_id];
  for (const [name, args] of [
    ["graph_describe", { node_ids }],
    ["graph_parents", { section_ids: node_ids }],
    ["graph_children", { parent_id: first.section_id }],
    ["graph_entities_for_sections", { section_ids: [second.section_id] }],
    ["graph_sections_for_entities", { entity_ids: ["volctl mount"] }],
    ["search_sections", { query: "garbage" }],
    ["get_section_text", { section_ids: node_ids }],
    ["describe_nodes", { node_ids }],
    ["expand_neighbors", { node_ids }],
    ["get_paths_between", { a_ids: node_ids, b_ids: [second.section_id] }],
    ["list_children", { parent_id: first.section_id }],
    ["list_parents", { section_ids: node_ids }],
    ["get_entities_for_sections", { section_ids: node_ids }],
    ["get_sections_for_entities", { entity_ids: ["volctl mount"] }],
  ]) {
    await call(name, args);
  }
  const { diagnostic_id } = await call("kb_search", { query: "garbage", options: { include_debug: true } });
  const trace = await client.readResource({ uri: `kenning://diagnostics/${diagnostic_id}` });
  assert.equal(JSON.parse(trace.contents[0].text).candidates[0].section_id, first.section_id);
  const usage = await client.readResource({ uri: "kenning://diagnostics/usage" });
  assert.equal(JSON.parse(usage.contents[0].text).tools["kb.retrieve_evidence"].calls, 1);

  // Clients may keep a list, but not after they were told of another.
  let listed = await names();
  for (const until = Date.now() + NOTICE_MAX_MS; !listed.includes("kb_search") && Date.now() < until; ) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    listed = await names();
  }
  assert.ok(listed.includes("kb_search") && listed.includes("graph_expand"), listed.join(" "));
  assert.ok(!listed.includes("search_sections"));
  await stop();
}
