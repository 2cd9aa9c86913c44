// Works with the console in headless Chromium.
// Usage: node test.mjs KENNING DATA_DIR REPOSITORY

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { gzipSync } from "node:zlib";

import { chromium } from "playwright-core";

import { fill } from "./fill.mjs";

const WEIGHT_MAX = 60 * 1024;
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const [kenning, dir, repository] = process.argv.slice(2);
const known = await fill(kenning, dir, repository, Number(process.env.ENTRIES ?? 2000));
const ui = spawn(kenning, ["ui", "--no-open", "--data-dir", dir], { stdio: ["ignore", "pipe", "inherit"], cwd: dir });
const address = await new Promise((resolve) => createInterface({ input: ui.stdout }).once("line", resolve));
const base = new URL(address).origin;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const faults = [];
let first;

// The address opens the console once; other contexts get the cookie.
first = await context({});
const page = await first.newPage();
watch(page);
await page.goto(address);
assert.equal(page.url(), `${base}/console`, "no token stays in the address");
const cookies = await first.cookies();
assert.ok(cookies.every(({ httpOnly, sameSite }) => httpOnly && sameSite === "Strict"));
assert.equal((await fetch(address)).status, 401, "the token is of use once");
assert.equal((await fetch(`${base}/console`)).status, 401, "nothing without the cookie");

await page.goto(`${base}/console/documents`);
const document_ = await page.goto(`${base}/console/documents?scope=global:default&source=docs`).then(() => page.locator("ul.tree a").nth(3).getAttribute("href"));
const pattern = await page.goto(`${base}/console/patterns`).then(() => page.locator(".card a").first().getAttribute("href"));
const PAGES = {
  home: "/console",
  search: "/console/search?q=how+long+do+access+tokens+live",
  entry: `/console/entry/${known.wrong}`,
  edit: `/console/entry/${known.wrong}/edit`,
  move: `/console/entry/${known.wrong}/move`,
  deleted: `/console/entry/${known.gone}`,
  new: "/console/new",
  history: "/console/history",
  transaction: `/console/tx/${known.fixed}`,
  undo: `/console/tx/${known.fixed}/undo`,
  contradictions: "/console/contradictions",
  duplicates: "/console/contradictions?kind=duplicates",
  task: "/console/task?queries=how+is+matchmaking+rolled+back%0Atoken+lifetime%0Asourdough&scope=halden:live&tokens=800",
  time: "/console/time",
  documents: "/console/documents?scope=global:default&source=docs",
  document: document_,
  patterns: "/console/patterns",
  pattern,
  graph: "/console/graph",
  name: "/console/graph?name=matchmaking",
  path: "/console/graph?name=Mira&to=PostgreSQL",
  sessions: "/console/sessions",
  settings: "/console/settings",
  nothing: "/console/entry/K7H9M2PQX8",
};
let failed = 0;
for (const [name, run] of Object.entries({
  every_page_light: () => everyPage("light", { width: 1280, height: 900 }),
  every_page_dark: () => everyPage("dark", { width: 1280, height: 900 }),
  every_page_on_a_telephone: () => everyPage("phone", { width: 360, height: 740 }),
  without_javascript, keyboard, search_as_you_type, actions, five_tasks, live, weight,
})) {
  if (process.env.ONLY && !process.env.ONLY.split(",").includes(name)) continue;
  const since = Date.now();
  try {
    await run();
    console.log(`console ${name}: ok (${Date.now() - since} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`console ${name}: failed\n${error.stack.replace(/^/gm, "    ")}`);
  }
}
if (faults.length) console.log(`console: pages failed, reported, or asked for something elsewhere:\n  ${[...new Set(faults)].join("\n  ")}`);
await browser.close();
ui.kill();
process.exit(failed || faults.length ? 1 : 0);

async function context(options) {
  const made = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  if (first) await made.addCookies(await first.cookies());
  return made;
}

function watch(page) {
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error}`));
  // A refused inline script or style, or a request that the policy stops, is an error on the console.
  page.on("console", (message) => message.type() === "error" && !/status of 4\d\d/.test(message.text()) && faults.push(`${page.url()}: ${message.text()}`));
  page.on("request", (request) => request.url().startsWith(base) || faults.push(`asked for ${request.url()}`));
}

async function shot(page, name) {
  if (!process.env.SCREENSHOTS) return;
  await mkdir(process.env.SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
}

async function everyPage(look, viewport) {
  const made = await context({ viewport, colorScheme: look === "dark" ? "dark" : "light", bypassCSP: false });
  const page = await made.newPage();
  watch(page);
  const found = [];
  for (const [name, path] of Object.entries(PAGES)) {
    await page.goto(`${base}${path}`);
    await shot(page, `${look}-${name}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) found.push(`${name} is ${wide} pixels too wide`);
    // axe comes by the debugger, as an extension would, and not through the page's policy.
    const session = await made.newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: readFileSync(AXE, "utf8") });
    const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
    found.push(...violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary.split("\n")[1] ?? ""}`).join(" | ")}`).map((text) => `${name}: ${text}`));
  }
  assert.equal(found.join("\n"), "", look);
  await made.close();
}

async function without_javascript() {
  const made = await context({ javaScriptEnabled: false });
  const page = await made.newPage();
  for (const path of Object.values(PAGES)) {
    await page.goto(`${base}${path}`);
    assert.ok((await page.locator("main").innerText()).length > 20, path);
  }
  await page.goto(`${base}${PAGES.entry}`);
  await page.getByRole("button", { name: "Pin" }).click();
  await page.locator("button.undo").click();
  assert.match(await page.locator(".note.done").innerText(), /Transaction/);
  await page.goto(`${base}/console`);
  await page.locator("#find").fill("frame budget");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/console\/search/);
  assert.match(await page.locator("main").innerText(), /Physics may use/);
  await made.close();
}

async function keyboard() {
  const made = await context({});
  const page = await made.newPage();
  watch(page);
  await page.goto(`${base}/console`);
  await page.keyboard.press("?");
  assert.ok(await page.locator("dialog#help[open]").isVisible());
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("rollback of matchmaking");
  await page.keyboard.press("Enter");
  await page.waitForURL(/search/);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/entry/);
  const id = page.url();
  await page.getByRole("button", { name: "Suppress" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/done=/);
  await page.locator("main").press("u");
  await page.waitForURL((url) => /done=/.test(url.href) && url.href !== id);
  await page.waitForSelector("text=Suppress");
  await page.goto(`${base}/console/history`);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  const focused = await page.evaluate(() => document.activeElement.textContent);
  assert.match(focused, /^#\d+$/);
  // Everything on a page is reached by Tab, beginning with the way past the rest.
  await page.goto(`${base}${PAGES.entry}`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await made.close();
}

async function search_as_you_type() {
  await page.goto(`${base}/console/search`);
  await page.locator("#q").pressSequentially("frame budget physics", { delay: 30 });
  await page.waitForFunction(() => document.querySelector("#results mark")?.textContent);
  assert.match(await page.locator("#results").innerText(), /Physics may use/);
  assert.match(page.url(), /q=frame/);
}

async function actions() {
  for (const name of ["Pin", "Suppress", "Delete"]) {
    await page.goto(`${base}${PAGES.entry}`);
    await page.getByRole("button", { name, exact: true }).click();
    await page.waitForURL(/done=/);
    await page.locator("button.undo").click();
    await page.waitForURL(/done=/);
    await page.goto(`${base}${PAGES.entry}`);
    assert.ok(await page.getByRole("button", { name, exact: true }).isVisible(), name);
  }
  await page.getByRole("link", { name: "Move" }).click();
  await page.locator("select[name=scope]").selectOption("halden:web");
  await page.getByRole("button", { name: "Move" }).click();
  await page.waitForURL(/done=/);
  assert.match(await page.locator(".crumbs").innerText(), /halden:web/);
  await page.locator("button.undo").click();
  await page.waitForURL(/done=/);
  await page.goto(`${base}${PAGES.entry}`);
  assert.match(await page.locator(".crumbs").innerText(), /halden:live/);
}

// What people come for, each in so many clicks from Home as docs/console.md says.
async function five_tasks() {
  await page.goto(`${base}/console`);
  await page.locator("#find").fill("rollback of matchmaking");
  await page.keyboard.press("Enter");
  await page.locator("#results a[data-open]").first().click();
  assert.match(await page.locator("main").innerText(), /kubectl rollout undo/);
  await shot(page, "task-2-who-and-why");
  assert.match(await page.locator("main").innerText(), /claude-code/);
  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.locator("#content").fill("Roll matchmaking back with `kubectl rollout undo -n live`; never delete pods by hand.");
  await page.getByRole("button", { name: "Save" }).click();
  await page.waitForURL(/done=/);
  await shot(page, "task-3-corrected");
  await page.locator("button.undo").click();
  await page.waitForURL(/done=/);
  assert.doesNotMatch(await page.locator(".text-of").innerText(), /-n live/);
  // The pairs were looked for in the background meanwhile.
  await page.goto(`${base}/console`);
  for (let tries = 0; tries < 60 && !(await page.locator(".waiting .open").count()); tries += 1) {
    await page.waitForTimeout(250);
    await page.reload();
  }
  await page.getByRole("link", { name: /likely contradictions/ }).click();
  const pairs = () => page.locator("li.pair").allInnerTexts();
  const before = await pairs();
  assert.ok(before.length >= 2, "two pairs do not agree");
  await page.getByRole("button", { name: "This one holds" }).first().click();
  await page.waitForURL(/done=/);
  assert.ok(!(await pairs()).includes(before[0]), "the pair is settled");
  await page.locator("button.undo").click();
  await page.waitForURL(/done=/);
}

async function live() {
  await page.goto(`${base}/console`);
  const other = await context({});
  const writer = await other.newPage();
  await writer.goto(`${base}/console/new`);
  await writer.locator("#topic").fill("Seen at once");
  await writer.locator("#content").fill("Written while another page was open.");
  await writer.getByRole("button", { name: "Save" }).click();
  await page.waitForFunction(() => document.querySelector("#changed").innerText.includes("Seen at once"), undefined, { timeout: 8000 });
  await other.close();
}

async function weight() {
  const cookie = (await first.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  const get = async (path) => Buffer.from(await (await fetch(`${base}${path}`, { headers: { cookie } })).arrayBuffer());
  let heaviest = ["", 0];
  for (const [name, path] of Object.entries(PAGES)) {
    const html = await get(path);
    const parts = [...html.toString().matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(([, part]) => part);
    const all = [html, ...(await Promise.all(parts.map(get)))];
    const bytes = all.reduce((sum, part) => sum + gzipSync(part).length, 0);
    if (bytes > heaviest[1]) heaviest = [name, bytes];
    assert.ok(bytes <= WEIGHT_MAX, `${name} weighs ${bytes} bytes`);
  }
  console.log(`console: the heaviest page is ${heaviest[0]} with ${heaviest[1]} bytes, compressed, with styles and scripts`);
}
