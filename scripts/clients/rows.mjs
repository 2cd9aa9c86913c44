// The JavaScript client of the dual response library reads all rows behind a reply of Kenning.
// Usage: node rows.mjs KENNING DATA_DIR LIBRARY

import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [command, dataDir, library] = process.argv.slice(2);
const { DualResponseClient } = await import(library);
const ROWS = 130;

const client = new Client({ name: "rows", version: "1" });
const args = ["serve", "--data-dir", dataDir, "--rows-listen", "127.0.0.1:0"];
await client.connect(new StdioClientTransport({ command, args }));
for (let number = 0; number < ROWS; number += 1) {
  const topic = `topic ${String(number).padStart(3, "0")}`;
  await client.callTool({ name: "store", arguments: { topic, content: "A common fact." } });
}
const result = await client.callTool({ name: "query", arguments: { content: "common", limit: 10, detail: "full" } });
const link = result.content.find((block) => block.type === "resource_link");
const response = new DualResponseClient().parse(result);
assert.equal(response.resourceUri, link.uri);
assert.deepEqual([response.totalCount, response.sample.length], [ROWS, 10]);
assert.ok(!response.isExpired());

let told = 0;
const rows = await response.fetchAll({ batchSize: 50, onProgress: (fetched) => (told = fetched) });
assert.deepEqual([rows.length, told], [ROWS, ROWS]);
assert.deepEqual(rows.slice(0, 10), response.sample);
const last = await response.fetch({ limit: 2, sort: { field: "topic", order: "desc" } });
assert.deepEqual(last.data.map((row) => row.topic), ["topic 129", "topic 128"]);
let exported = 0;
for await (const batch of response.exportStream()) exported += batch.length;
assert.equal(exported, ROWS);
await response.delete();
await assert.rejects(response.fetch(), { code: "RESOURCE_NOT_FOUND" });
await client.close();
