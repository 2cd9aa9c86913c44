/** One row of a result. */
export type Row = Record<string, unknown>;

export interface ColumnDefinition {
  name: string;
  type: string;
  /** False if rows cannot be sorted by it. */
  sortable?: boolean;
  /** True if it tells rows apart. */
  key?: boolean;
}

export interface Sort {
  field: string;
  order?: 'asc' | 'desc';
}

export interface DualResponseClientOptions {
  /** Fetches every resource below this address, whatever a tool result says. */
  baseUrl?: string | null;
  /** A `fetch` of your own. */
  fetch?: typeof globalThis.fetch;
  /** Headers of all requests; credentials only together with `baseUrl`. */
  headers?: Record<string, string>;
  /** Headers of requests to one origin, which is then trusted. */
  headersFor?: Record<string, Record<string, string>>;
  /** Milliseconds; 30000 if not said. */
  timeout?: number;
  /** Lets tool results point into private networks. */
  allowPrivate?: boolean;
}

export interface FetchOptions {
  offset?: number;
  limit?: number;
  sort?: Sort | Sort[] | null;
  signal?: AbortSignal;
}

export interface FetchResult<T = Row> {
  data: T[];
  totalCount: number;
  returnedCount: number;
  offset: number;
  hasNext: boolean;
  hasPrevious: boolean;
  /** Null at the end. */
  nextOffset: number | null;
}

export interface BatchOptions {
  /** Rows at a time: 500 for `fetchAll`, 100 for `fetchStream`. */
  batchSize?: number;
  sort?: Sort | Sort[] | null;
  onProgress?: (fetched: number, total: number) => void;
  signal?: AbortSignal;
}

export interface ResourceMetadata {
  status: string;
  name: string;
  totalCount: number;
  columns: ColumnDefinition[];
  createdAt: Date;
  expiresAt: Date | null;
  accessCount: number;
}

export type ErrorCode =
  | 'PARSE_ERROR' | 'FETCH_ERROR' | 'TIMEOUT' | 'RESOURCE_NOT_FOUND' | 'RESOURCE_EXPIRED' | 'URL_REFUSED';

/** Every error of this library. */
export class DualResponseClientError extends Error {
  readonly code: ErrorCode;
}

/** A request that failed. */
export class FetchError extends DualResponseClientError {
  /** The server's, or null if it did not answer. */
  readonly status: number | null;
}

export class DualResponseClient {
  constructor(options?: DualResponseClientOptions);
  /** What a tool result says, or null if it is not a dual response. */
  parse(toolResult: unknown): ParsedDualResponse | null;
  /** The same for the structured content of a tool result. */
  parseStructured(structuredContent: unknown): ParsedDualResponse | null;
}

export class ParsedDualResponse {
  private constructor();
  readonly sample: Row[];
  readonly totalCount: number;
  readonly resourceUri: string;
  /** Null if the server has no REST endpoints. */
  readonly resourceUrl: string | null;
  readonly name: string;
  readonly columns: ColumnDefinition[];
  readonly expiresAt: Date | null;
  readonly executedAt: Date | null;
  isExpired(): boolean;
  fetch<T = Row>(options?: FetchOptions): Promise<FetchResult<T>>;
  fetchAll<T = Row>(options?: BatchOptions): Promise<T[]>;
  fetchStream<T = Row>(options?: BatchOptions): AsyncGenerator<T[], void, void>;
  /** All rows in one request; fails if the server stops before the end. */
  exportStream<T = Row>(options?: Pick<BatchOptions, 'sort' | 'signal'>): AsyncGenerator<T[], void, void>;
  getMetadata(options?: { signal?: AbortSignal }): Promise<ResourceMetadata>;
  pin(options?: { signal?: AbortSignal }): Promise<boolean>;
  delete(options?: { signal?: AbortSignal }): Promise<boolean>;
}
