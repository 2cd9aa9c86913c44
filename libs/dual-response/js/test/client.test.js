// The client against the Rust server of `examples/axum_server.rs`, and against servers that misbehave.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

import { DualResponseClient, DualResponseClientError, FetchError } from '../index.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const client = new DualResponseClient();
const running = [];

/** Starts the Rust server and gives the tool result that it prints. */
async function start() {
  const metadata = execFileSync('cargo', ['metadata', '--no-deps', '--format-version=1'], { cwd: root, maxBuffer: 1 << 26 });
  const program = join(JSON.parse(metadata).target_directory, 'debug', 'examples', 'axum_server');
  const server = spawn(program, { stdio: ['ignore', 'pipe', 'inherit'] });
  running.push(() => server.kill());
  let text = '';
  for await (const chunk of server.stdout) {
    text += chunk;
    if (text.includes('\n')) break;
  }
  return JSON.parse(text);
}

/** Starts a server of the test's own and gives its address. */
async function serve(handler) {
  const server = createServer(handler);
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  running.push(() => { server.closeAllConnections(); server.close(); });
  return `http://127.0.0.1:${server.address().port}`;
}

const pointingAt = (url, over = client) => over.parse({
  resource: { uri: 'resource://abc', url }, metadata: { total_count: 847 }, results: [],
});

const sending = (page) => serve((request, response) => response.end(JSON.stringify(page)));

let toolResult;
before(async () => { toolResult = await start(); });
after(() => running.forEach((stop) => stop()));

test('js parse gives every property', () => {
  const parsed = client.parse(toolResult);
  assert.equal(parsed.sample.length, 15);
  assert.equal(parsed.totalCount, 847);
  assert.match(parsed.resourceUri, /^resource:\/\/[0-9a-f]{32}$/);
  assert.equal(parsed.resourceUrl, toolResult.structuredContent.resource.url);
  assert.deepEqual(parsed.columns[0], { name: 'id', type: 'number' });
  assert.ok(parsed.expiresAt instanceof Date && parsed.executedAt instanceof Date);
  assert.equal(parsed.isExpired(), false);
});

test('js parse takes four shapes and nothing else', () => {
  const structured = toolResult.structuredContent;
  const text = JSON.stringify(structured);
  for (const shape of [toolResult, structured, text, { content: [{ type: 'text', text: 'Found' }, { type: 'text', text }] }]) {
    assert.equal(client.parse(shape).totalCount, 847);
  }
  assert.equal(client.parseStructured(structured).totalCount, 847);
  for (const other of [null, 1, 'Found 847 results.', {}, [], { content: [{ type: 'text', text: 'no' }] }, { resource: { uri: 'a://b' } }]) {
    assert.equal(client.parse(other), null);
  }
});

test('js parse takes the sample from where it is', () => {
  for (const field of ['results', 'items', 'patterns', 'data']) {
    const parsed = client.parse({ resource: { uri: 'kenning://rows/abc' }, total_count: 9, [field]: [{ id: 1 }] });
    assert.equal(parsed.sample.length, 1);
    assert.equal(parsed.resourceUrl, null);
  }
});

test('js fetch gives a page', async () => {
  const page = await client.parse(toolResult).fetch({ offset: 100, limit: 100, sort: { field: 'id', order: 'desc' } });
  assert.equal(page.data[0].id, 746);
  const { data, ...rest } = page;
  assert.deepEqual(rest, {
    totalCount: 847, returnedCount: 100, offset: 100, hasNext: true, hasPrevious: true, nextOffset: 200,
  });
  const last = await client.parse(toolResult).fetch({ offset: 800 });
  assert.deepEqual([last.hasNext, last.nextOffset], [false, null]);
});

test('js fetchAll tells its progress', async () => {
  const told = [];
  const rows = await client.parse(toolResult).fetchAll({ batchSize: 500, onProgress: (...now) => told.push(now) });
  assert.deepEqual(rows.map((row) => row.id), [...Array(847).keys()]);
  assert.deepEqual(told, [[500, 847], [847, 847]]);
});

test('js fetchStream gives batches', async () => {
  const sizes = [];
  for await (const batch of client.parse(toolResult).fetchStream({ batchSize: 300 })) sizes.push(batch.length);
  assert.deepEqual(sizes, [300, 300, 247]);
});

test('js exportStream gives every row in one request', async () => {
  let rows = 0;
  for await (const batch of client.parse(toolResult).exportStream()) rows += batch.length;
  assert.equal(rows, 847);
});

test('js exportStream without its end is an error', async () => {
  const url = await serve((request, response) => response.end('{"id":1}\n{"id":2}\n'));
  await assert.rejects(async () => {
    for await (const batch of pointingAt(url).exportStream()) assert.equal(batch.length, 1);
  }, { code: 'FETCH_ERROR' });
});

test('js metadata, pin and delete', async () => {
  const parsed = client.parse(await start());
  const metadata = await parsed.getMetadata();
  assert.deepEqual([metadata.status, metadata.totalCount, metadata.accessCount], ['ready', 847, 0]);
  assert.ok(metadata.expiresAt instanceof Date);
  assert.equal(await parsed.pin(), true);
  assert.equal((await parsed.getMetadata()).expiresAt, null);
  assert.equal(await parsed.delete(), true);
  await assert.rejects(parsed.fetch(), (error) => error instanceof FetchError && error instanceof DualResponseClientError
    && error.code === 'RESOURCE_NOT_FOUND' && error.status === 404 && error.message === 'Resource not found or expired');
});

test('js errors have codes and statuses', async () => {
  await assert.rejects(client.parse(toolResult).fetch({ limit: 5000 }), { code: 'FETCH_ERROR', status: 400 });
  const gone = await serve((request, response) => response.writeHead(410).end());
  await assert.rejects(pointingAt(gone).fetch(), { code: 'RESOURCE_EXPIRED', status: 410 });
  await assert.rejects(pointingAt('http://127.0.0.1:9/abc').fetch(), { code: 'FETCH_ERROR', status: null });
  const nowhere = client.parse({ resource: { uri: 'kenning://rows/abc' }, total_count: 0, results: [] });
  await assert.rejects(nowhere.fetch(), { code: 'PARSE_ERROR' });
});

test('js timeout and abort', async () => {
  const url = await serve(() => {});
  const impatient = new DualResponseClient({ timeout: 50 });
  await assert.rejects(pointingAt(url, impatient).fetch(), { code: 'TIMEOUT' });
  const stop = AbortSignal.abort(new Error('enough'));
  await assert.rejects(pointingAt(url).fetch({ signal: stop }), { message: 'enough' });
});

test('js exportStream may take its time, but not be silent', async () => {
  const lines = ['{"id":1}\n', '{"id":2}\n', '{"id":3}\n', '{"_end":true,"count":3}\n'];
  const drip = (rest) => (request, response) => {
    response.flushHeaders();
    const timer = setInterval(() => (rest.length ? response.write(rest.shift()) : response.end(clearInterval(timer))), 60);
  };
  const impatient = new DualResponseClient({ timeout: 150 });
  let rows = 0;
  for await (const batch of pointingAt(await serve(drip([...lines])), impatient).exportStream()) rows += batch.length;
  assert.equal(rows, 3);
  const silent = await serve((request, response) => response.write(lines[0]));
  await assert.rejects(async () => {
    for await (const batch of pointingAt(silent, impatient).exportStream()) assert.fail(`${batch}`);
  }, { code: 'TIMEOUT' });
});

test('js pages never loop', async () => {
  const base = { total_count: 847, offset: 0, has_next: true };
  const empty = await sending({ ...base, data: [], returned_count: 0, next_offset: 100 });
  assert.deepEqual(await pointingAt(empty).fetchAll(), []);
  const stuck = await sending({ ...base, data: [{ id: 1 }], returned_count: 1, next_offset: 0 });
  assert.deepEqual(await pointingAt(stuck).fetchAll(), [{ id: 1 }]);
});

test('js options are used', async () => {
  const seen = [];
  const fetch = async (url, { headers }) => {
    seen.push([String(url), headers]);
    return Response.json({ data: [], total_count: 0, offset: 0, has_next: false, next_offset: null });
  };
  const own = new DualResponseClient({
    baseUrl: 'https://proxy.example/rows/', fetch, headers: { authorization: 'Bearer secret' },
  });
  await pointingAt('https://elsewhere.example/x', own).fetch();
  assert.equal(seen[0][0], 'https://proxy.example/rows/abc');
  assert.equal(seen[0][1].authorization, 'Bearer secret');
  const per = new DualResponseClient({ fetch, headersFor: { 'https://a.example': { authorization: 'Bearer a' } } });
  await pointingAt('https://a.example/abc', per).fetch();
  await pointingAt('https://b.example/abc', per).fetch();
  assert.deepEqual(seen.slice(1).map(([, headers]) => headers.authorization), ['Bearer a', undefined]);
  assert.throws(() => new DualResponseClient({ headers: { Authorization: 'Bearer secret' } }), TypeError);
});

test('js addresses are guarded', async () => {
  const refuse = ['http://a.example/x', 'https://10.0.0.1/x', 'https://169.254.169.254/x', 'https://192.168.0.1/x',
    'https://172.20.0.1/x', 'https://[fd00::1]/x', 'https://[::ffff:10.0.0.1]/x', 'https://me:secret@a.example/x',
    'https://167772161/x'];
  for (const url of refuse) await assert.rejects(pointingAt(url).fetch(), { code: 'URL_REFUSED' }, url);
  const away = await serve((request, response) => response.writeHead(307, { location: 'http://127.0.0.1:9/' }).end());
  await assert.rejects(pointingAt(away).fetch(), { code: 'FETCH_ERROR' });
});

test('js is small', () => {
  const bytes = gzipSync(readFileSync(new URL('../index.js', import.meta.url))).length;
  assert.ok(bytes <= 4096, `${bytes} bytes`);
});
