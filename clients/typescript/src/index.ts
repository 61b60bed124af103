/** The TypeScript client of facetd. Types of parameters and answers are those of its OpenAPI document. */

import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
type BodyOf<Path extends keyof paths> = paths[Path] extends {
  post: { requestBody?: { content: { "application/json": infer Body } } };
}
  ? Body
  : never;

/** Parameters of a search. */
export type SearchParameters = BodyOf<"/{index}/search">;
/** Parameters of a page of a facet's values. */
export type FacetParameters = Omit<BodyOf<"/{index}/facet">, "name">;
/** Parameters of suggestions. */
export type SuggestParameters = Omit<BodyOf<"/{index}/suggest">, "query">;
export type Suggestion = Schemas["Suggestions"]["data"]["suggestions"][number];
/** One search of several: its parameters, and the index. */
export type NamedSearch = Schemas["Searches"]["searches"][number];
export type Configuration = Schemas["Configuration"];
export type ConfigurationAnswer = Schemas["ConfigurationAnswer"];
export type WriteAnswer = Schemas["WriteAnswer"];
export type FacetAnswer = Schemas["FacetAnswer"];
export type ItemId = number | string;
export type Item = Record<string, unknown>;
/** What a search answers, with items of a type that the caller knows. */
export type SearchAnswer<T = Item> = Omit<Schemas["SearchAnswer"], "data"> & {
  data: Omit<Schemas["SearchAnswer"]["data"], "items"> & { items: T[] };
};

export interface ClientOptions {
  /** Of the service, with a path where a proxy serves it under one. */
  url?: string;
  /** API key or tenant token. */
  key?: string;
  /** Tries of a call altogether; 1 never repeats. */
  tries?: number;
  /** Milliseconds before the second try; doubled for each further one. */
  firstWait?: number;
  /** To use instead of the platform's. */
  fetch?: typeof fetch;
}

/** An error answer, or none: then `status` is 0. */
export class FacetdError extends Error {
  override readonly name = "FacetdError";
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly param: string | undefined,
    /** The whole error object of the answer. */
    readonly details: Record<string, unknown>,
    /** Seconds, where the service says when to come again. */
    readonly retryAfter: number | undefined,
  ) {
    super(message);
  }
}

interface Call {
  method: "GET" | "POST" | "DELETE";
  path: string;
  body?: BodyInit;
  contentType?: string;
  /** Whether sending it twice gives the same as sending it once. */
  isRepeatable: boolean;
}

/** The service did nothing with what it answers so. */
const NOTHING_DONE = new Set(["overloaded", "starting", "switched", "too_many_requests"]);
const LONGEST_WAIT = 10_000;

export class Client {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #tries: number;
  readonly #firstWait: number;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.url = (options.url ?? "http://127.0.0.1:3000").replace(/\/+$/, "");
    this.#headers = { accept: "application/json" };
    if (options.key !== undefined) this.#headers["authorization"] = `Bearer ${options.key}`;
    this.#tries = options.tries ?? 4;
    this.#firstWait = options.firstWait ?? 100;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /** Search an index. */
  search<T = Item>(index: string, parameters: SearchParameters = {}): Promise<SearchAnswer<T>> {
    return this.#json(post(pathOf(index, "search"), parameters));
  }

  /** Make many searches at once; throws the error of the first that failed. */
  async searches<T = Item>(searches: NamedSearch[]): Promise<SearchAnswer<T>[]> {
    type Result = SearchAnswer<T> & { error?: Record<string, unknown> };
    const answer = await this.#json<{ results: Result[] }>(post("/_search", { searches }));
    for (const { error } of answer.results) {
      if (error) throw errorIn(error, Number(error["status"] ?? 500));
    }
    return answer.results;
  }

  /** Return a page of the values of a facet. */
  facet(index: string, name: string, parameters: FacetParameters = {}): Promise<FacetAnswer> {
    return this.#json(post(pathOf(index, "facet"), { ...parameters, name }));
  }

  /** Return what a text as typed may become. */
  async suggest(
    index: string,
    query: string,
    parameters: SuggestParameters = {},
  ): Promise<Suggestion[]> {
    const call = post(pathOf(index, "suggest"), { ...parameters, query });
    const answer = await this.#json<Schemas["Suggestions"]>(call);
    return answer.data.suggestions;
  }

  /** Return why an item is a hit of a search, or what keeps it out. */
  async explain(
    index: string,
    id: ItemId,
    parameters: SearchParameters = {},
  ): Promise<Schemas["Explanation"]["data"]> {
    const call = post(pathOf(index, "explain"), { ...parameters, id });
    return (await this.#json<Schemas["Explanation"]>(call)).data;
  }

  /** Return one item; an error with the code `item_not_found` if there is none. */
  get<T = Item>(index: string, id: ItemId): Promise<T> {
    return this.#json({ method: "GET", path: pathOf(index, "items", id), isRepeatable: true });
  }

  /** Add items, or replace those whose id exists: all or none. */
  add(index: string, items: readonly object[]): Promise<WriteAnswer> {
    const haveIds = items.every((item) => (item as { id?: unknown }).id != null);
    return this.#json({ ...post(pathOf(index, "items"), items), isRepeatable: haveIds });
  }

  /** Set fields of one item. */
  update(index: string, id: ItemId, fields: object): Promise<WriteAnswer> {
    return this.#json(post(pathOf(index, "items", id, "partial"), fields));
  }

  /** Remove items by ids, or all that a filter expression finds. */
  delete(index: string, chosen: { ids: ItemId[] } | { filter: string }): Promise<WriteAnswer> {
    return this.#json(post(pathOf(index, "items", "delete"), chosen));
  }

  /** Load lines of JSON of any size; nothing is stored if one is wrong, unless `skipsBad`. */
  load(index: string, lines: BodyInit, options: { skipsBad?: boolean } = {}): Promise<WriteAnswer> {
    const path = pathOf(index, "index") + (options.skipsBad ? "?on_error=skip" : "");
    const contentType = "application/x-ndjson";
    return this.#json({ method: "POST", path, body: lines, contentType, isRepeatable: false });
  }

  /** Yield all items of one state of the index, or those that match. */
  async *export<T = Item>(index: string, parameters: SearchParameters = {}): AsyncGenerator<T> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
      if (value == null) continue;
      query.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
    const path = `${pathOf(index, "items")}?${query}`;
    const reply = await this.#send({ method: "GET", path, isRepeatable: true }, (reply) => reply);
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error) => {
          throw noAnswer(`${this.url} broke off: ${error}`);
        });
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop()!;
        for (const line of lines) yield this.#parsed<T>(line);
      }
      if (rest) throw this.#notFacetd(); // our last line ends, too
    } finally {
      // The caller may have stopped early: without this, the connection would stay open.
      await reader.cancel().catch(() => {});
    }
  }

  /** Create an index, or replace its configuration. */
  configure(index: string, configuration: Configuration): Promise<ConfigurationAnswer> {
    return this.#json(post(pathOf(index, "configuration"), configuration));
  }

  /** Return the configuration as it was posted. */
  configuration(index: string): Promise<Configuration> {
    const path = pathOf(index, "configuration");
    return this.#json({ method: "GET", path, isRepeatable: true });
  }

  /** Remove an index and its data. */
  async deleteIndex(index: string): Promise<void> {
    await this.#json({ method: "DELETE", path: pathOf(index), isRepeatable: false });
  }

  async #json<T>(call: Call): Promise<T> {
    return this.#parsed<T>(await this.#send(call, (reply) => reply.text()));
  }

  #parsed<T>(text: string): T {
    try {
      return JSON.parse(text) as T;
    } catch {
      throw this.#notFacetd();
    }
  }

  #notFacetd(): FacetdError {
    const what = `what answers at ${this.url} is not facetd; check the URL`;
    return new FacetdError(what, 200, "", undefined, {}, undefined);
  }

  /** Make a call, again where that is safe; return what is read of its answer. */
  async #send<R>(call: Call, read: (reply: Response) => R | Promise<R>): Promise<R> {
    for (let tried = 1; ; tried += 1) {
      try {
        return await this.#once(call, read);
      } catch (error) {
        const wait = error instanceof FacetdError ? this.#waitAfter(error, call, tried) : null;
        if (wait === null) throw error;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  /** Return milliseconds to wait before a call is sent again, or null. */
  #waitAfter(error: FacetdError, call: Call, tried: number): number | null {
    const isTransient = [0, 503, 504].includes(error.status);
    const isStream = call.body instanceof ReadableStream; // which can be read only once
    const isSafe = NOTHING_DONE.has(error.code) || (isTransient && call.isRepeatable);
    const asked = (error.retryAfter ?? 0) * 1000;
    if (tried >= this.#tries || !isSafe || isStream || asked > LONGEST_WAIT) return null;
    const wait = Math.min(LONGEST_WAIT, this.#firstWait * 2 ** (tried - 1));
    return Math.max(asked, wait * (0.5 + Math.random() / 2));
  }

  async #once<R>(call: Call, read: (reply: Response) => R | Promise<R>): Promise<R> {
    const { method, path, body, contentType = "application/json" } = call;
    // Followed, a redirected POST would become a GET without its body, which finds everything.
    const init: RequestInit & { duplex?: "half" } = { method, redirect: "manual" };
    init.headers = { ...this.#headers };
    if (body !== undefined) {
      init.body = body;
      init.headers["content-type"] = contentType;
      if (body instanceof ReadableStream) init.duplex = "half";
    }
    try {
      const reply = await this.#fetch(this.url + path, init);
      if (reply.ok) return await read(reply);
      throw await this.#errorOf(reply);
    } catch (error) {
      if (error instanceof FacetdError) throw error;
      throw noAnswer(`no answer from ${this.url}: ${error}`);
    }
  }

  async #errorOf(reply: Response): Promise<FacetdError> {
    if (reply.type === "opaqueredirect" || (reply.status >= 300 && reply.status < 400)) {
      const target = reply.headers.get("location") ?? "another address"; // browsers do not tell
      const what = `${this.url} redirects to ${target}; give the URL that it leads to`;
      return new FacetdError(what, reply.status || 302, "", undefined, {}, undefined);
    }
    const answer = await reply.json().catch(() => null); // of a proxy, say
    const after = Number(reply.headers.get("retry-after") ?? NaN);
    return errorIn(answer?.error ?? {}, reply.status, Number.isNaN(after) ? undefined : after);
  }
}

function post(path: string, body: unknown): Call {
  return { method: "POST", path, body: JSON.stringify(body), isRepeatable: true };
}

function pathOf(...segments: (string | number)[]): string {
  const isDots = segments.some((segment) => segment === "." || segment === "..");
  // fetch takes them for folders, even escaped: the call would reach another resource.
  if (isDots) throw new TypeError("an index or id of one or two dots cannot be in a URL");
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

function noAnswer(message: string): FacetdError {
  return new FacetdError(message, 0, "", undefined, {}, undefined);
}

/** Return the error for an error object of an answer. */
function errorIn(
  error: Record<string, unknown>,
  status: number,
  retryAfter?: number,
): FacetdError {
  const message = String(error["message"] ?? `the service answered ${status}`);
  const param = error["param"] as string | undefined;
  return new FacetdError(message, status, String(error["code"] ?? ""), param, error, retryAfter);
}
