// What a person does with a graph.

import assert from "node:assert/strict";

import { TRIPLES } from "./data.mjs";

const nodeIds = (host) => host.view.locator(".node").evaluateAll((nodes) => nodes.map((node) => node.dataset.id).toSorted());
const edgeRows = (host) => host.view.locator("#edges tr").evaluateAll((lines) => lines.map((line) => [...line.cells].map((cell) => cell.textContent)));
const node = (host, id) => host.view.locator(`.node[data-id="${id}"] circle`);
const idOf = (term) => `entity:${term.trim().toLowerCase()}`;
const message = (host, text) => host.view.locator("#message", { hasText: text }).waitFor();

// Nothing that is drawn may stick out of the picture.
async function assertFits(host) {
  const outside = await host.view.locator("#picture").evaluate((picture) => {
    const frame = picture.getBoundingClientRect();
    return [...picture.querySelectorAll("circle, text")].filter((mark) => {
      const box = mark.getBoundingClientRect();
      return box.width && (box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom);
    }).map((mark) => mark.textContent || mark.parentNode.dataset.id);
  });
  assert.deepEqual(outside, []);
}

function large(size) {
  const nodes = Array.from({ length: size }, (_, n) => ({ id: `S${n}`, label: ["section", "document", "command", "term"][n % 4], title: `Section ${n}` }));
  const edges = nodes.slice(1).map(({ id }, n) => ({ from: id, type: "child_of", to: `S${Math.floor(n / 4)}` }));
  return { content: [], structuredContent: { nodes, edges, missing: [], next_cursor: null } };
}

export const graph = {
  async "graph-draws-triples"(host) {
    const { items } = await host.open("query_graph", { limit: 12 });
    await message(host, "12 edges");
    assert.deepEqual(await nodeIds(host), [...new Set(items.flatMap(({ subject, object }) => [idOf(subject), idOf(object)]))].toSorted());
    assert.deepEqual((await edgeRows(host)).toSorted(), items.map(({ subject, predicate, object }) => [subject, predicate, object]).toSorted());
    assert.match(await host.view.locator("#message").textContent(), new RegExp(`12 of ${TRIPLES.length}`));
    await assertFits(host);
    await host.shot("graph-light");
  },

  async "graph-keeps-arrowheads-free"(host) {
    await host.open("query_graph", { limit: 50 });
    await host.view.locator(".edge line").first().waitFor({ state: "attached" });
    const covered = await host.view.locator("#picture").evaluate((picture) => {
      const frame = picture.getBoundingClientRect();
      const boxes = [...picture.querySelectorAll("text:not(.hidden)")].map((text) => text.getBoundingClientRect());
      const tips = [...picture.querySelectorAll(".edge line")].map((line) => [frame.left + +line.getAttribute("x2"), frame.top + +line.getAttribute("y2")]);
      return tips.filter(([x, y]) => boxes.some((box) => x > box.left + 2 && x < box.right - 2 && y > box.top + 2 && y < box.bottom - 2)).length;
    });
    assert.equal(covered, 0);
  },

  async "graph-expands-a-node"(host) {
    await host.open("query_graph", { limit: 12 }, { theme: "dark" });
    const before = await nodeIds(host);
    const id = idOf("payments");
    const { structuredContent: reply } = await host.call("graph_expand", { node_ids: [id], max_hops: 1 });
    await node(host, id).click();
    await message(host, "Around payments");
    assert.deepEqual(await nodeIds(host), [...new Set([...before, ...reply.nodes.map(({ id }) => id)])].toSorted());
    assert.ok((await nodeIds(host)).length > before.length);
    assert.deepEqual(host.calls.at(-1), { name: "graph_expand", arguments: { node_ids: [id], max_hops: 1 } });
    await node(host, id).click();
    await message(host, "All that is around payments");
    await assertFits(host);
    await host.shot("graph-expanded-dark");
  },

  async "graph-is-worked-with-the-keyboard"(host) {
    await host.open("query_graph", { limit: 12 });
    await host.view.locator(".node[tabindex='0']").focus();
    const focused = () => host.view.locator(".node:focus").getAttribute("data-id");
    const visited = new Set([await focused()]);
    for (const key of ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowUp"]) {
      await host.view.locator(".node:focus").press(key);
      visited.add(await focused());
    }
    assert.ok(visited.size > 2, [...visited].join());
    const id = await focused();
    await host.view.locator(".node:focus").press("Enter");
    await message(host, "Around");
    assert.equal(await focused(), id, "the focus stays on the node");
    assert.equal(await host.view.locator(".node[tabindex='0']").count(), 1);
    await host.shot("graph-focus");
    // The table expands too.
    await host.view.locator("summary").click();
    await host.view.locator("#edges button", { hasText: "gateway" }).first().press("Enter");
    await message(host, "Around gateway");
    await host.shot("graph-table");
  },

  async "graph-shows-markup-as-text"(host) {
    await host.open("query_graph", { limit: 200 });
    await message(host, "nodes");
    assert.ok((await edgeRows(host)).some(([, , object]) => object === "Team <b>East</b>"));
    assert.ok((await host.view.locator(".node text").allTextContents()).includes("Team <b>East</b>"));
    assert.equal(await host.view.locator("b, i, img").count(), 0);
    await assertFits(host);
    await host.shot("graph-all");
    await host.setTheme("dark");
    await host.shot("graph-all-dark");
  },

  async "graph-is-the-same-each-time"(host) {
    const places = () => host.view.locator(".node circle").evaluateAll((marks) => marks.map((mark) => [mark.getAttribute("cx"), mark.getAttribute("cy")]));
    await host.open("query_graph", { limit: 30 });
    await message(host, "nodes");
    const first = await places();
    await host.open("query_graph", { limit: 30 });
    await message(host, "nodes");
    assert.deepEqual(await places(), first);
  },

  async "graph-draws-no-more-than-300-nodes"(host) {
    const started = Date.now();
    await host.open("query_graph", {}, { result: large(400) });
    await message(host, "100 more nodes");
    assert.equal((await nodeIds(host)).length, 300);
    assert.equal((await edgeRows(host)).length, 299);
    assert.ok(Date.now() - started < 10_000, "the layout takes too long");
    await assertFits(host);
    await host.shot("graph-300");
  },

  async "graph-shows-paths"(host) {
    const nodes = ["Snapshots", "Restoring > From a snapshot", "volctl restore"].map((title, n) => ({ id: `N${n}`, label: n === 2 ? "command" : "section", title }));
    const edges = [{ from: "N0", type: "links_to", to: "N1" }, { from: "N1", type: "mentions", to: "N2" }, { from: "N0", type: "next", to: "N0" }];
    const paths = [{ nodes: ["N0", "N1", "N2"], types: ["links_to", "mentions"], length: 2 }];
    await host.open("query_graph", {}, { result: { content: [], structuredContent: { nodes, edges, paths, missing: [] } }, width: 420 });
    await message(host, "3 nodes");
    assert.deepEqual(await host.view.locator("#paths li").allTextContents(), ["Snapshots – links_to – Restoring > From a snapshot – mentions – volctl restore"]);
    assert.equal(await host.view.locator(".edge.way").count(), 2);
    await assertFits(host);
    await host.shot("graph-paths-narrow");
  },

  async "graph-names-what-a-reply-does-not-describe"(host) {
    const result = await host.call("graph_expand", { node_ids: [idOf("payments")], max_hops: 1 });
    await host.open("graph_expand", {}, { result });
    await message(host, "nodes");
    await host.view.locator(".node text", { hasText: /^payments$/ }).waitFor({ state: "attached" });
  },

  async "graph-says-why-it-can-not-expand"(host) {
    await host.open("query_graph", { limit: 12 }, { capabilities: {} });
    await node(host, idOf("payments")).click();
    await host.view.locator("#message.bad", { hasText: "this host lets no view ask for more" }).waitFor();
    await host.open("query_graph", {}, { result: { content: [], structuredContent: { items: [], total_count: 0 } } });
    await message(host, "0 nodes, 0 edges.");
  },
};
