// Stands in for a server with views: the tools, resources and metadata that the views need, over generated data.
// Usage: node mock-server.mjs DIRECTORY_OF_VIEWS

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

import { ENTRIES, TRIPLES } from "./data.mjs";

const views = process.argv[2];
const URI = "kenning://rows/0123456789abcdef";
const SAMPLE_ROWS = 15;
const LIMIT_MAX = 200;
// Fewer than asked for, as when a page would grow too large.
const PAGE_ROWS_MAX = 120;

const rows = ENTRIES.map((entry, n) => ({ id: `E${String(n).padStart(4, "0")}`, ...entry, version: (n * 7) % 40, tx_id: n + 1 }));
const columns = [
  { name: "id", type: "string" },
  { name: "topic", type: "string" },
  { name: "content", type: "string" },
  { name: "tags", type: "array" },
  { name: "version", type: "integer" },
  { name: "tx_id", type: "integer" },
];
const idOf = (term) => `entity:${term.trim().toLowerCase()}`;
const nodes = new Map(TRIPLES.flatMap(({ subject, object }) => [subject, object]).map((term) => [idOf(term), { id: idOf(term), label: term.startsWith("host-") ? "name" : "entity", title: term }]));
const edges = TRIPLES.map(({ subject, predicate, object }) => ({ from: idOf(subject), type: predicate, to: idOf(object) }));

class Refusal extends Error {}

const tools = {
  query: {
    ui: { resourceUri: "ui://kenning/table.html" },
    call: () => ({
      items: rows.slice(0, SAMPLE_ROWS),
      total_count: rows.length,
      resource: { uri: URI, name: "Entries tagged view-test", mimeType: "application/json" },
      metadata: { total_count: rows.length, columns, expires_at: new Date(Date.now() + 45 * 60_000).toISOString() },
    }),
  },
  kenning_rows_page: {
    ui: { visibility: ["app"] },
    call: ({ resource, offset = 0, limit = 50, sort }) => {
      if (resource !== URI) throw new Refusal("this result set has expired; run the query again");
      if (limit > LIMIT_MAX) throw new Refusal(`\`limit\`: ${limit} is above ${LIMIT_MAX}`);
      const sorted = sort ? rows.toSorted((one, other) => order(one, other, sort)) : rows;
      const data = sorted.slice(offset, offset + Math.min(limit, PAGE_ROWS_MAX));
      const end = offset + data.length;
      const has_next = end < rows.length;
      return { data, total_count: rows.length, returned_count: data.length, offset, has_next, next_offset: has_next ? end : null };
    },
  },
  query_graph: {
    ui: { resourceUri: "ui://kenning/graph.html" },
    call: ({ limit = 50 }) => ({
      items: TRIPLES.toReversed().slice(0, limit).map((triple, n) => ({ id: `T${n}`, ...triple, tx_id: n + 1 })),
      total_count: TRIPLES.length,
    }),
  },
  graph_describe: {
    ui: {},
    call: ({ node_ids }) => ({ nodes: node_ids.flatMap((id) => nodes.get(id) ?? []), edges: [], missing: [], next_cursor: null }),
  },
  graph_expand: {
    ui: { resourceUri: "ui://kenning/graph.html" },
    call: ({ node_ids }) => {
      const met = edges.filter(({ from, to }) => node_ids.includes(from) || node_ids.includes(to));
      const around = new Set(met.flatMap(({ from, to }) => [from, to]).filter((id) => !node_ids.includes(id)));
      return { nodes: [...around].map((id) => nodes.get(id)), edges: met, missing: [], next_cursor: null, partial: false };
    },
  },
};

function order(one, other, { field, order }) {
  if (!columns.some(({ name }) => name === field)) throw new Refusal(`\`sort\`: there is no column \`${field}\``);
  const [a, b] = [one[field], other[field]].map((value) => (Array.isArray(value) ? value.join() : value));
  const up = a < b ? -1 : a > b ? 1 : one.tx_id - other.tx_id;
  return order === "desc" ? -up : up;
}

function answer(name, args) {
  try {
    const structuredContent = tools[name].call(args);
    return { content: [{ type: "text", text: "See the view." }], structuredContent };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const refused = { error: { code: "INVALID_ARGUMENT", message: error.message, retryable: false, details: {} } };
    return { content: [{ type: "text", text: error.message }], structuredContent: refused, isError: true };
  }
}

serveStdio(() => {
  const capabilities = { tools: {}, resources: {}, extensions: { "io.modelcontextprotocol/ui": {} } };
  const server = new Server({ name: "mock", version: "1" }, { capabilities });
  server.setRequestHandler("tools/list", () => ({
    tools: Object.entries(tools).map(([name, { ui }]) => ({ name, inputSchema: { type: "object" }, _meta: { ui } })),
  }));
  server.setRequestHandler("tools/call", ({ params }) => answer(params.name, params.arguments ?? {}));
  server.setRequestHandler("resources/read", ({ params: { uri } }) => ({
    contents: [{
      uri,
      mimeType: "text/html;profile=mcp-app",
      text: readFileSync(join(views, new URL(uri).pathname.slice(1)), "utf8"),
      _meta: { ui: { prefersBorder: true } },
    }],
  }));
  return server;
});
