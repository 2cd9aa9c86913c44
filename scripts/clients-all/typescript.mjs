// TypeScript clients: lists, calls a tool of each family, reads a resource.
// Usage: node typescript.mjs KENNING DATA_DIR sdk-1.10|anthropic|ai-sdk

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [command, dataDir, which] = process.argv.slice(2);
const CALLS = JSON.parse(readFileSync(new URL("calls.json", import.meta.url)));
const ENTRIES = "knowledge://entries";
const text = (reply) => (typeof reply === "string" ? reply : JSON.stringify(reply));

const clients = {
  // A client of 2025-03-26, which knows neither structured content nor links.
  "sdk-1.10": async () => {
    const { Client } = await import("sdk-1.10/client/index.js");
    const { StdioClientTransport } = await import("sdk-1.10/client/stdio.js");
    const client = new Client({ name: "a program", version: "1" });
    await client.connect(new StdioClientTransport({ command, args: ["serve", "--data-dir", dataDir] }));
    const { tools } = await client.listTools();
    for (const [name, args, expected] of CALLS) {
      assert.ok(tools.some((tool) => tool.name === name), name);
      const result = await client.callTool({ name, arguments: args });
      assert.ok(!result.isError && result.content[0].text.includes(expected), text(result));
    }
    assert.ok((await client.readResource({ uri: ENTRIES })).contents[0].text.includes("Blue-green"));
    await client.close();
  },
  // The helper raises on links, and nobody knows the name of this program: README says to use `--content text`.
  anthropic: async () => {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { mcpTools } = await import("@anthropic-ai/sdk/helpers/beta/mcp");
    const client = new Client({ name: "a program", version: "1" });
    const args = ["serve", "--content", "text", "--data-dir", dataDir];
    await client.connect(new StdioClientTransport({ command, args }));
    const tools = mcpTools((await client.listTools()).tools, client);
    for (const [name, input, expected] of CALLS) {
      const tool = tools.find((tool) => tool.name === name);
      assert.ok(text(await tool.run(input)).includes(expected), name);
    }
    assert.ok((await client.readResource({ uri: ENTRIES })).contents[0].text.includes("Blue-green"));
    await client.close();
  },
  "ai-sdk": async () => {
    const { experimental_createMCPClient, createMCPClient } = await import("@ai-sdk/mcp");
    const { Experimental_StdioMCPTransport: Transport } = await import("@ai-sdk/mcp/mcp-stdio");
    const create = createMCPClient ?? experimental_createMCPClient;
    const client = await create({ transport: new Transport({ command, args: ["serve", "--data-dir", dataDir] }) });
    const tools = await client.tools();
    for (const [name, args, expected] of CALLS) {
      const result = await tools[name].execute(args, { toolCallId: name, messages: [] });
      assert.ok(text(result).includes(expected), `${name}: ${text(result)}`);
      assert.ok(result.content.every((block) => block.type === "text"), name);
    }
    const read = await client.readResource({ uri: ENTRIES });
    assert.ok(read.contents[0].text.includes("Blue-green"));
    await client.close();
  },
};

await clients[which]();
