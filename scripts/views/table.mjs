// What a person does with a table of rows.

import assert from "node:assert/strict";

import { FORMULA, MARKUP, TAG } from "./data.mjs";

const QUERY = { tags: [TAG], limit: 15 };

const cells = (host, column) =>
  host.view.locator("#heads th").evaluateAll((heads, name) => heads.findIndex((head) => head.textContent.startsWith(name)), column)
    .then((position) => host.view.locator("#rows tr:not([hidden])").evaluateAll((lines, position) => lines.map((line) => line.cells[position].textContent), position));
const head = (host, column) => host.view.locator("#heads button").filter({ hasText: new RegExp(`^${column}( |$)`) });
const place = (host, text) => host.view.locator("#place", { hasText: text }).waitFor();
const idsAt = async (host, uri, offset, limit, sort) =>
  (await host.call("kenning_rows_page", { resource: uri, offset, limit, sort })).structuredContent.data.map(({ id }) => id);

export const table = {
  async "table-shows-the-sample-at-once"(host) {
    const reply = await host.open("query", QUERY);
    await place(host, `1–15 of ${reply.metadata.total_count}`);
    assert.deepEqual(await cells(host, "id"), reply.items.map(({ id }) => id));
    assert.match(await host.view.locator("#expiry").textContent(), /^expires /);
    assert.equal(await host.view.locator("#name").textContent(), reply.resource.name);
    await host.waitForSize();
    await host.shot("table-light");
    const paper = () => host.view.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
    const light = await paper();
    await host.setTheme("dark");
    await host.view.locator("html[style*=dark]").waitFor();
    await host.shot("table-dark");
    assert.notEqual(await paper(), light);
  },

  async "table-puts-first-what-people-read"(host) {
    await host.open("query", QUERY);
    const heads = await host.view.locator("#heads th").evaluateAll((heads) => heads.map((head) => head.textContent));
    assert.deepEqual(heads.slice(0, 2), ["topic", "content"]);
    assert.ok(heads.indexOf("id") > heads.indexOf("recorded_at"), `${heads}`);
    // Heads that do not sort look like those that do.
    const looks = await host.view.locator("#heads th > *").evaluateAll((heads) =>
      heads.map((head) => `${getComputedStyle(head).padding} ${getComputedStyle(head.parentElement).backgroundColor}`));
    assert.equal(new Set(looks).size, 1, `${looks}`);
  },

  async "table-tells-the-history-in-words"(host) {
    await host.open("history", { limit: 3 });
    const changes = await cells(host, "changes");
    assert.ok(changes.length && changes.every((text) => /^(create|update|delete) \w+ /.test(text)), `${changes}`);
    await host.waitForSize();
    await host.shot("table-history");
  },

  async "table-begins-where-the-set-does"(host) {
    const first = await host.open("query", QUERY);
    if (!first.next_cursor) return;
    await host.open("query", { ...QUERY, cursor: first.next_cursor });
    const wanted = first.items.map(({ id }) => id);
    for (const until = Date.now() + 10_000; ; ) {
      const shown = await cells(host, "id");
      if (JSON.stringify(shown) === JSON.stringify(wanted)) break;
      assert.ok(Date.now() < until, `${shown} is not ${wanted}`);
    }
    await place(host, `1–15 of ${first.metadata.total_count}`);
  },

  async "table-sorts-and-pages"(host) {
    const { resource: { uri }, metadata: { total_count } } = await host.open("query", QUERY);
    await head(host, "topic").click();
    await host.view.locator("th[aria-sort=ascending]").waitFor();
    const up = { field: "topic", order: "asc" };
    assert.deepEqual(await cells(host, "id"), await idsAt(host, uri, 0, 15, up));
    await host.shot("table-sorted");
    await host.view.locator("#next").click();
    await place(host, `16–30 of ${total_count}`);
    assert.deepEqual(await cells(host, "id"), await idsAt(host, uri, 15, 15, up));
    await host.view.locator("#last").click();
    const last = Math.floor((total_count - 1) / 15) * 15;
    await place(host, `${last + 1}–${total_count} of`);
    assert.deepEqual(await cells(host, "id"), await idsAt(host, uri, last, 15, up));
    assert.ok(await host.view.locator("#next").isDisabled());
    await host.view.locator("#previous").click();
    await place(host, `${last - 14}–${last} of`);
    await host.view.locator("#first").click();
    await place(host, "1–15 of");
    // Down, then as the server has them.
    await head(host, "topic").click();
    await host.view.locator("th[aria-sort=descending]").waitFor();
    assert.deepEqual(await cells(host, "id"), await idsAt(host, uri, 0, 15, { field: "topic", order: "desc" }));
    await head(host, "topic").press("Enter");
    await host.view.locator("#heads:not(:has([aria-sort$=ending]))").waitFor();
    await host.view.locator("#limit").selectOption("50");
    await place(host, "1–50 of");
    assert.deepEqual(await cells(host, "id"), await idsAt(host, uri, 0, 50));
  },

  async "table-filters-the-rows-shown"(host) {
    const { items } = await host.open("query", QUERY);
    const sought = items[4].topic.slice(-8).toUpperCase();
    const matching = items.filter((item) => JSON.stringify(item).toUpperCase().includes(sought));
    await host.view.locator("#filter").fill(sought);
    await place(host, `${matching.length} match`);
    assert.deepEqual(await cells(host, "id"), matching.map(({ id }) => id));
    await host.view.locator("#filter").fill("");
    assert.equal((await cells(host, "id")).length, items.length);
  },

  async "table-shows-markup-as-text"(host) {
    await host.open("query", QUERY);
    await head(host, "topic").click();
    await host.view.locator("th[aria-sort=ascending]").waitFor();
    assert.ok((await cells(host, "content")).includes(MARKUP));
    assert.equal(await host.view.locator("#rows :is(img, b, i)").count(), 0);
  },

  async "table-downloads-all-rows"(host) {
    const { metadata: { total_count, columns } } = await host.open("query", QUERY);
    for (const kind of ["ndjson", "csv"]) {
      await host.view.locator(`#${kind}`).click();
      await host.view.locator("#message", { hasText: new RegExp(`^Saved .*\\.${kind}\\.$`) }).waitFor();
    }
    const [ndjson, csv] = host.saved.splice(0);
    const rows = ndjson.text.trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.equal(new Set(rows.map(({ id }) => id)).size, total_count);
    assert.match(csv.uri, /\.csv$/);
    assert.equal(csv.text.split("\r\n")[0], columns.map(({ name }) => name).join(","));
    assert.equal(csv.text.trimEnd().split("\r\n").length, total_count + 1);
    assert.ok(csv.text.includes(`"'${FORMULA.replaceAll('"', '""')}"`), "no cell is a formula");
  },

  async "table-says-that-a-set-is-gone"(host) {
    const result = await host.call("query", QUERY);
    const { resource, metadata, items } = result.structuredContent;
    resource.uri = "kenning://rows/ffffffffffffffffffffffffffffffff";
    metadata.expires_at = "2020-01-01T00:00:00Z";
    const { error } = await host.refusal("kenning_rows_page", { resource: resource.uri });
    await host.open("query", QUERY, { result });
    assert.equal(await host.view.locator("#expiry").textContent(), "expired");
    for (const button of ["#next", "#csv"]) {
      await host.view.locator(button).click();
      await host.view.locator("#message.bad", { hasText: error.message }).waitFor();
      assert.deepEqual(await cells(host, "id"), items.map(({ id }) => id), "what was there stays");
      await host.view.locator("#message").evaluate((message) => (message.textContent = ""));
    }
    await host.view.locator("#next").click();
    await host.view.locator("#message.bad", { hasText: error.message }).waitFor();
    await host.shot("table-expired");
  },

  async "table-works-with-the-sample-where-a-host-calls-no-tools"(host) {
    const { items } = await host.open("query", QUERY, { capabilities: {}, theme: "dark", width: 420 });
    await host.view.locator("#message", { hasText: "15 of" }).waitFor();
    await head(host, "topic").click();
    await host.view.locator("th[aria-sort=ascending]").waitFor();
    assert.deepEqual((await cells(host, "id")).toSorted(), items.map(({ id }) => id).toSorted());
    const topics = await cells(host, "topic");
    assert.deepEqual(topics, topics.toSorted((a, b) => a.localeCompare(b)));
    await host.shot("table-narrow");
  },

  async "table-shows-an-error-of-the-tool"(host) {
    const error = { code: "INVALID_ARGUMENT", message: "`tags`: <b>no</b>", retryable: false, details: {} };
    await host.open("query", QUERY, { result: { isError: true, content: [], structuredContent: { error } } });
    await host.view.locator("#message.bad", { hasText: error.message }).waitFor();
  },
};
