// The contract of the catalogue, as a program sees it that reads the JSON block, or the structured reply, or both.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const OUTCOMES = [
  ["search_patterns", { q: "try again later" }, "patternSearchResults:v1"],
  ["search_patterns", { q: "giraffes of the savannah" }, "patternSearchResults:v1"],
  ["search_patterns", { q: "common way", category: "rare", includeProvenancePanel: true }, "patternSearchResults:v1"],
  ["search_patterns", { q: " " }, "needsInput:v1"],
  ["search_patterns", { q: "common way" }, "needsInput:v1"],
  ["search_patterns", { q: "x", limit: 0 }, "toolError:v1"],
  ["get_pattern", { id: "retry-backoff" }, "patternDetails:v1"],
  ["get_pattern", { id: "retry" }, "needsInput:v1"],
  ["get_pattern", { id: "x", color: "red" }, "toolError:v1"],
];

// `connect` gives another client of the same kind, which answers questions as it is told.
export async function patterns(client, { command, dataDir, connect, watchTools }) {
  const stop = await watchTools();
  const catalogue = join(dataDir, "catalogue");
  mkdirSync(catalogue);
  const write = (id, category, text) => {
    const front = `id: ${id}\ntitle: ${id}\ncategory: ${category}\ndifficulty: beginner`;
    writeFileSync(join(catalogue, `${id}.md`), `---\n${front}\n---\n${text}\n`);
  };
  write("retry-backoff", "errors", "Try again later.\n\n## Example\n\n```ts\nretry(call)\n```");
  for (let number = 0; number < 25; number += 1) {
    write(`p${number}`, number % 5 === 0 ? "rare" : "usual", `The common way, ${number}.`);
  }
  execFileSync(command, ["ingest", "--kind", "patterns", catalogue, "--data-dir", dataDir]);
  // What is listed is what replies are checked against.
  for (const until = Date.now() + 10_000; ; ) {
    const listed = (await client.listTools()).tools.map((tool) => tool.name);
    if (listed.includes("search_patterns") && listed.includes("get_pattern")) break;
    assert.ok(Date.now() < until, listed.join(" "));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await stop();
  for (const [name, args, kind] of OUTCOMES) {
    for (const format of ["markdown", "json", "both"]) {
      const result = await client.callTool({ name, arguments: { ...args, format } });
      check(result, kind, format, `${name} ${JSON.stringify(args)} ${format}`);
    }
  }
  const questions = [
    ["search_patterns", {}, { q: "try again" }, (told) => told.patterns[0].id === "retry-backoff"],
    ["search_patterns", { q: "common way" }, { category: "rare" }, (told) => told.metadata.totalCount === 5],
    ["get_pattern", {}, { id: "retry-backoff" }, (told) => told.kind === "patternDetails:v1"],
  ];
  for (const [name, args, content, isIt] of questions) {
    let asked = 0;
    for (const answer of [{ action: "accept", content }, { action: "decline" }, { action: "cancel" }]) {
      const asking = await connect((request) => {
        asked += 1;
        assert.ok(Object.keys(content).every((field) => field in request.params.requestedSchema.properties));
        return answer;
      });
      await asking.listTools();
      const told = (await asking.callTool({ name, arguments: args })).structuredContent;
      assert.ok(answer.action === "accept" ? isIt(told) : told.kind === "needsInput:v1", JSON.stringify(told));
      await asking.close();
    }
    assert.equal(asked, 3, `${name}: once for each call`);
  }
}

function check(result, kind, format, what) {
  const told = result.structuredContent;
  assert.equal(told.kind, kind, `${what}: ${JSON.stringify(result)}`);
  assert.equal(result.isError ?? false, kind === "toolError:v1", what);
  const texts = result.content.filter((block) => block.type === "text");
  const payload = extracted(texts);
  assert.deepEqual(payload, format === "markdown" ? undefined : told, what);
  const people = texts.filter((block) => block._meta["io.kenning/mimeType"] === "text/markdown");
  assert.equal(people.length > 0, format !== "json" && kind !== "toolError:v1", what);
  const shown = people.map((block) => block.text).join("\n");
  assert.ok(!/search_patterns|get_pattern|cursor/.test(shown), `${what}: ${shown}`);
  if (kind === "patternSearchResults:v1") {
    const count = (name) => shown.split(`<!-- kind:pattern-${name}:v1 -->`).length - 1;
    const { contractMarkers, renderedCards, renderedCardIds } = told.metadata;
    assert.deepEqual(contractMarkers, { index: count("index"), cards: count("card"), version: "v1" }, what);
    assert.equal(renderedCards, count("card"), what);
    assert.deepEqual(renderedCardIds, told.patterns.slice(0, renderedCards).map((pattern) => pattern.id), what);
    assert.equal(told.query.format, format);
  }
}

// As a program finds the JSON: whatever can be read as such, from the last block on.
function extracted(texts) {
  for (const { text } of texts.toReversed()) {
    try {
      return JSON.parse(text);
    } catch {
      // It is for people.
    }
  }
}
