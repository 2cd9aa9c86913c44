// Finds dual responses in MCP tool results and fetches the rows they point at. Needs `fetch` and nothing else.

/** Every error of this library. `code` is stable. */
export class DualResponseClientError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** A request that failed. `status` is the server's, or null if it did not answer. */
export class FetchError extends DualResponseClientError {
  constructor(code, message, status = null, options) {
    super(code, message, options);
    this.status = status;
  }
}

const SAMPLE_FIELDS = ['results', 'items', 'patterns', 'data'];
const META_KEY = 'io.kenning/dual';
const CREDENTIALS = ['authorization', 'proxy-authorization', 'cookie', 'x-api-key'];

export class DualResponseClient {
  constructor({
    baseUrl = null, fetch = globalThis.fetch, headers = {}, headersFor = {}, timeout = 30000, allowPrivate = false,
  } = {}) {
    // A tool result must not be able to choose who gets a credential.
    if (!baseUrl && Object.keys(headers).some((name) => CREDENTIALS.includes(name.toLowerCase()))) {
      throw new TypeError('a credential would go wherever a tool result points; use headersFor or baseUrl');
    }
    const origins = Object.fromEntries(Object.entries(headersFor).map(([url, own]) => [new URL(url).origin, own]));
    Object.assign(this, { baseUrl, fetch, headers, headersFor: origins, timeout, allowPrivate });
  }

  /** What a tool result says, or null if it is not a dual response. */
  parse(toolResult) {
    const result = typeof toolResult === 'string' ? parseJson(toolResult) : toolResult;
    if (!isObject(result)) return null;
    const metaUrl = result._meta?.[META_KEY]?.url;
    if (result.structuredContent !== undefined) return this.parseStructured(result.structuredContent, metaUrl);
    if (result.content === undefined) return this.parseStructured(result, metaUrl);
    for (const block of [result.content].flat()) {
      const parsed = typeof block?.text === 'string' && this.parseStructured(parseJson(block.text), metaUrl);
      if (parsed) return parsed;
    }
    return null;
  }

  /** What the structured content of a tool result says, or null if it is not a dual response. */
  parseStructured(content, metaUrl) {
    if (!isObject(content) || !isObject(content.resource)) return null;
    const { resource, metadata = {} } = content;
    const uri = resource.uri ?? resource.url;
    const totalCount = metadata?.total_count ?? content.total_count;
    const sample = SAMPLE_FIELDS.map((field) => content[field]).find(Array.isArray);
    if (typeof uri !== 'string' || !Number.isInteger(totalCount) || !sample?.every(isObject)) return null;
    const expiresAt = toDate(metadata?.expires_at);
    const executedAt = toDate(metadata?.executed_at);
    if (Number.isNaN(expiresAt?.getTime()) || Number.isNaN(executedAt?.getTime())) return null;
    const resourceUrl = this.#urlOf(uri, resource.url, metaUrl);
    if (resourceUrl === undefined) return null;
    return new ParsedDualResponse(this, {
      sample, totalCount, resourceUri: uri, resourceUrl, name: resource.name ?? '', columns: metadata?.columns ?? [],
      expiresAt, executedAt,
    });
  }

  /** Below the program's own address if it named one, else where the result says; null if that is nowhere. */
  #urlOf(uri, ...candidates) {
    if (this.baseUrl) {
      const id = /^[^:]+:\/\/(?:[^?#]*\/)?([A-Za-z0-9_-]{1,128})(?:[?#]|$)/.exec(uri)?.[1];
      return id && `${this.baseUrl.replace(/\/+$/, '')}/${id}`;
    }
    return [...candidates, uri].find((url) => typeof url === 'string' && /^https?:\/\//i.test(url)) ?? null;
  }

  /** Sends a request and gives the answer if it is a success. */
  async send(url, method, { body, accept = 'application/json', signal, timer = AbortSignal.timeout(this.timeout) } = {}) {
    const target = this.#checked(url);
    const headers = { ...this.headers, ...this.headersFor[target.origin], accept };
    if (body) headers['content-type'] = 'application/json';
    let response;
    try {
      response = await (0, this.fetch)(target, {
        method, headers, body: body && JSON.stringify(body), redirect: 'error',
        signal: signal ? AbortSignal.any([signal, timer]) : timer,
      });
    } catch (cause) {
      throw failed(cause, signal);
    }
    if (response.ok) return response;
    const message = (await response.json().catch(() => null))?.message ?? `the server answered ${response.status}`;
    const code = { 404: 'RESOURCE_NOT_FOUND', 410: 'RESOURCE_EXPIRED' }[response.status] ?? 'FETCH_ERROR';
    throw new FetchError(code, message, response.status);
  }

  /** The address comes from a server by way of a model: it must not lead to machines that only we can reach. */
  #checked(url) {
    if (!url) throw new DualResponseClientError('PARSE_ERROR', 'the response does not say where its rows are');
    const target = new URL(url);
    const trusted = [this.baseUrl && new URL(this.baseUrl).origin, ...Object.keys(this.headersFor)];
    if (trusted.includes(target.origin)) return target;
    const host = target.hostname;
    const isLoopback = /^(127\.\d+\.\d+\.\d+|\[::1\]|(.+\.)?localhost)$/.test(host);
    const isPrivate = /^(0|10|127|169\.254|172\.(1[6-9]|2\d|3[01])|192\.168|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])|22[4-9]|2[3-5]\d)\.[\d.]+$/.test(host)
      || (host.startsWith('[') && !/^\[[23]/.test(host)) || /^\[2002:/.test(host);
    if (target.username || target.password || !(target.protocol === 'https:' || isLoopback)
      || (isPrivate && !isLoopback && !this.allowPrivate)) {
      throw new DualResponseClientError('URL_REFUSED', `refused to fetch from ${target.origin}`);
    }
    return target;
  }
}

export class ParsedDualResponse {
  #client;

  constructor(client, fields) {
    this.#client = client;
    Object.assign(this, fields);
  }

  isExpired() {
    return this.expiresAt !== null && this.expiresAt <= new Date();
  }

  /** A page of rows. */
  async fetch({ offset, limit, sort, signal } = {}) {
    const page = await this.#ask('POST', { body: { offset, limit, sort }, signal });
    return {
      data: page.data, totalCount: page.total_count, returnedCount: page.data.length, offset: page.offset,
      hasNext: page.has_next, hasPrevious: page.offset > 0, nextOffset: page.next_offset ?? null,
    };
  }

  /** All rows, in memory. */
  async fetchAll({ batchSize = 500, ...options } = {}) {
    const rows = [];
    for await (const batch of this.fetchStream({ batchSize, ...options })) for (const row of batch) rows.push(row);
    return rows;
  }

  /** All rows, page by page. */
  async* fetchStream({ batchSize = 100, sort, onProgress, signal } = {}) {
    for (let offset = 0, fetched = 0; ;) {
      const page = await this.fetch({ offset, limit: batchSize, sort, signal });
      // Rows may vanish meanwhile: an empty page is the end, and so is one that does not lead onwards.
      if (!page.returnedCount) return;
      fetched += page.returnedCount;
      onProgress?.(fetched, page.totalCount);
      yield page.data;
      const next = page.nextOffset ?? offset + page.returnedCount;
      if (!page.hasNext || next <= offset) return;
      offset = next;
    }
  }

  /** All rows as one NDJSON stream: a single request, and an error if the server stops before the end. */
  async* exportStream({ sort, signal } = {}) {
    const silence = new AbortController();
    let timer;
    // A long stream may take its time; only silence is a timeout.
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new DOMException('', 'TimeoutError')), this.#client.timeout);
    };
    let [partial, last, count] = ['', null, 0];
    try {
      wait();
      const options = { body: { sort }, accept: 'application/x-ndjson', signal, timer: silence.signal };
      const response = await this.#client.send(this.resourceUrl, 'POST', options);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        wait();
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (partial + value).split('\n');
        partial = lines.pop();
        const rows = lines.filter(Boolean).map((line) => JSON.parse(line));
        if (!rows.length) continue;
        // The last line is the marker, not a row: each is held back until another follows.
        if (last) rows.unshift(last);
        last = rows.pop();
        count += rows.length;
        clearTimeout(timer);
        if (rows.length) yield rows;
      }
    } catch (cause) {
      throw failed(cause, signal);
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
    if (last?._end !== true || last.count !== count || partial) {
      throw new FetchError('FETCH_ERROR', `the export broke off after ${count} rows`);
    }
  }

  /** What the server knows of the resource now. */
  async getMetadata({ signal } = {}) {
    const found = await this.#ask('GET', { signal });
    return {
      status: found.status, name: found.name, totalCount: found.total_count, columns: found.columns,
      createdAt: toDate(found.created_at), expiresAt: toDate(found.expires_at), accessCount: found.access_count,
    };
  }

  /** Takes away the end of the resource. */
  async pin({ signal } = {}) {
    return (await this.#ask('PUT', { signal })).expires_at === null;
  }

  /** Deletes the resource. */
  async delete({ signal } = {}) {
    return (await this.#client.send(this.resourceUrl, 'DELETE', { signal })).ok;
  }

  async #ask(method, options) {
    const response = await this.#client.send(this.resourceUrl, method, options);
    try {
      return await response.json();
    } catch (cause) {
      throw failed(cause, options.signal);
    }
  }
}

function failed(cause, signal) {
  // Who aborts a request gets their own reason back.
  if (signal?.aborted || cause instanceof DualResponseClientError) return cause;
  return cause?.name === 'TimeoutError'
    ? new FetchError('TIMEOUT', 'no answer in time', null, { cause })
    : new FetchError('FETCH_ERROR', 'the request failed', null, { cause });
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

const toDate = (text) => (text == null ? null : new Date(text));
