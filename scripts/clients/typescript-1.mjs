// The official TypeScript SDK 1.x, which checks replies most strictly.
// Usage: node typescript-1.mjs KENNING DATA_DIR

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

import { scenario } from "./scenario.mjs";

const [command, dataDir] = process.argv.slice(2);
const start = async (options, prepare) => {
  const client = new Client({ name: "typescript-1", version: "1" }, options);
  prepare(client);
  await client.connect(new StdioClientTransport({ command, args: ["serve", "--data-dir", dataDir] }));
  return client;
};
const connect = (answer) =>
  start({ capabilities: { elicitation: {} } }, (client) => client.setRequestHandler(ElicitRequestSchema, answer));
const client = await start({}, () => {});
await scenario(client, async (uri, told) => {
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, told);
  await client.subscribeResource({ uri });
  return () => client.unsubscribeResource({ uri });
}, { command, dataDir, connect, watchTools: async () => () => {} });
await client.close();
