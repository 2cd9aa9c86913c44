// Shows the views of a server in headless Chromium as a host would, works with them and looks at what they show.
// Usage: node test.mjs COMMAND [ARGUMENT...]
//
// CHROMIUM is the browser. Screenshots go to SCREENSHOTS, if that is set.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { build } from "esbuild";
import { chromium } from "playwright-core";

import { ENTRIES, TRIPLES } from "./data.mjs";
import { graph } from "./graph.mjs";
import { table } from "./table.mjs";

const MIME_TYPE = "text/html;profile=mcp-app";
const CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'";
const BYTES_MAX = { "ui://kenning/table.html": 12 * 1024, "ui://kenning/graph.html": 16 * 1024 };
const EVERYTHING = { serverTools: {}, downloadFile: {} };

const [command, ...args] = process.argv.slice(2);
const client = await connect();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const [pages, sandbox] = await Promise.all([serve(await hostPage()), serve(sandboxPage())]);
let failed = 0;
try {
  await prepare();
  const page = await openHost();
  for (const [name, run] of Object.entries({ ...table, ...graph })) {
    try {
      await run(page);
      console.log(`view ${name}: ok`);
    } catch (error) {
      failed += 1;
      console.log(`view ${name}: failed\n${error.stack.replace(/^/gm, "    ")}`);
      await page.shot(`failed-${name}`);
    }
  }
  assert.deepEqual(page.faults, [], "a view asked for something from the network, or failed");
} finally {
  await browser.close();
  await client.close();
  pages.server.close();
  sandbox.server.close();
}
process.exit(failed ? 1 : 0);

async function connect() {
  const capabilities = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [MIME_TYPE] } } };
  const client = new Client({ name: "views", version: "1" }, { capabilities, versionNegotiation: { mode: "auto" } });
  await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
  return client;
}

// A server that can be written to gets the data; another one has it.
async function prepare() {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  assert.deepEqual(tools.find(({ name }) => name === "kenning_rows_page")?._meta.ui.visibility, ["app"]);
  if (!names.includes("store")) return;
  for (const entry of ENTRIES) await call("store", entry);
  for (const triple of TRIPLES) await call("relate", triple);
}

async function call(name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result.content)}`);
  return result;
}

async function refusal(name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(result.isError, `${name} was to be refused`);
  return result.structuredContent;
}

async function hostPage() {
  const { outputFiles } = await build({ entryPoints: [join(import.meta.dirname, "host.mjs")], bundle: true, write: false, logLevel: "error" });
  return { "/": ["text/html", "<!doctype html><title>host</title><body><script src=/host.js></script>"], "/host.js": ["text/javascript", outputFiles[0].text] };
}
function sandboxPage() {
  return { "/": ["text/html", readFileSync(join(import.meta.dirname, "sandbox.html"), "utf8")] };
}
async function serve(files) {
  const server = createServer((request, response) => {
    const [type, body] = files[request.url] ?? [];
    const policy = files["/host.js"] ? {} : { "content-security-policy": CSP };
    response.writeHead(body ? 200 : 204, { "content-type": `${type ?? "text/plain"}; charset=utf-8`, ...policy }).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}

// The host's page, with what a test does there.
async function openHost() {
  const page = await browser.newPage({ viewport: { width: 960, height: 1040 } });
  const faults = [];
  const saved = [];
  const calls = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("request", (request) => [pages.url, sandbox.url].some((url) => request.url().startsWith(url)) || request.url().startsWith("data:") || request.url() === "about:srcdoc" || faults.push(request.url()));
  await page.exposeFunction("callTool", (params) => (calls.push(params), client.callTool(params)));
  await page.exposeFunction("saveFile", (file) => void saved.push(file));
  await page.goto(pages.url);
  const view = page.frameLocator("iframe").frameLocator("iframe");
  return {
    view, saved, calls, faults, call, refusal,
    // Opens the view that the tool names, with a result of that tool or the one that is given.
    async open(tool, args, { result, capabilities = EVERYTHING, theme = "light", width = 900 } = {}) {
      const { tools } = await client.listTools();
      const uri = tools.find(({ name }) => name === tool)._meta.ui.resourceUri;
      const { contents: [content] } = await client.readResource({ uri });
      assert.equal(content.mimeType, MIME_TYPE);
      assert.deepEqual(content._meta?.ui?.csp?.connectDomains ?? [], [], "a view needs no network");
      assert.ok(Buffer.byteLength(content.text) <= BYTES_MAX[uri], `${uri} grew to ${Buffer.byteLength(content.text)} bytes`);
      assert.doesNotMatch(content.text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b/, "data must not become markup");
      result ??= await call(tool, args);
      await page.evaluate((options) => window.openView(options), { sandbox: sandbox.url, html: content.text, result, capabilities, theme, width });
      return result.structuredContent;
    },
    // Waits until the frame is as high as the view says it is.
    async waitForSize() {
      const height = await view.locator("body").evaluate((body) => body.offsetHeight);
      await page.waitForFunction((height) => parseInt(document.querySelector("iframe").style.height) === height, height);
    },
    setTheme: (theme) => page.evaluate((theme) => window.setTheme(theme), theme),
    async shot(name) {
      if (!process.env.SCREENSHOTS) return;
      await mkdir(process.env.SCREENSHOTS, { recursive: true });
      // The frame follows the view's size; only people look at pictures, no assertion waits here.
      await page.waitForTimeout(100);
      await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`), fullPage: true });
    },
  };
}
