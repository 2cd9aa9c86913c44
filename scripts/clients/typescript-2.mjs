// The official TypeScript client 2.x, in each way of settling on a protocol version.
// Usage: node typescript-2.mjs KENNING DATA_DIR legacy|auto|2026-07-28

import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { scenario } from "./scenario.mjs";

const [command, dataDir, way] = process.argv.slice(2);
const mode = ["legacy", "auto"].includes(way) ? way : { pin: way };
const start = async (options, prepare) => {
  const client = new Client({ name: "typescript-2", version: "1" }, { versionNegotiation: { mode }, ...options });
  prepare(client);
  await client.connect(new StdioClientTransport({ command, args: ["serve", "--data-dir", dataDir] }));
  return client;
};
const connect = (answer) =>
  start({ capabilities: { elicitation: { form: {} } } }, (client) =>
    client.setRequestHandler("elicitation/create", answer),
  );
const client = await start({}, () => {});
assert.equal(client.getNegotiatedProtocolVersion(), way === "legacy" ? "2025-11-25" : "2026-07-28");
const watchTools = async () => {
  if (way === "legacy") return () => {};
  const subscription = await client.listen({ toolsListChanged: true });
  assert.equal(subscription.honoredFilter.toolsListChanged, true);
  return () => subscription.close();
};
await scenario(client, async (uri, told) => {
  client.setNotificationHandler("notifications/resources/updated", told);
  if (way === "legacy") {
    await client.subscribeResource({ uri });
    return () => client.unsubscribeResource({ uri });
  }
  const subscription = await client.listen({ resourceSubscriptions: [uri, "knowledge://unknown"] });
  assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri]);
  return () => subscription.close();
}, { command, dataDir, connect, watchTools });
await client.close();
