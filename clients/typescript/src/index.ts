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
/** What `fetch` sends, which Node's types and the DOM's both name so. */
export type RequestBody = NonNullable<RequestInit["body"]>;
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
  /** Tries while the service is starting, which do not count as `tries`; 60, or 1 if `tries` is 1. */
  triesWhileStarting?: number;
  /** Milliseconds before the second try; doubled for each further one. */
  firstWait?: number;
  /** Milliseconds without receiving a byte after which a try fails; `Infinity` for none. */
  timeout?: number;
  /** To use instead of the platform's. */
  fetch?: typeof fetch;
}

/** Of one call. */
export interface CallOptions {
  /** Ends the call, and the wait before its next try; it throws the `reason` of the signal. */
  signal?: AbortSignal | undefined;
  /** Instead of the client's. */
  timeout?: number | undefined;
}

/** An error answer, or none: then `status` is 0, and `cause` the error of the platform. */
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
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

interface Call {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  body?: RequestBody;
  contentType?: string;
  /** Whether sending it twice gives the same as sending it once. */
  isRepeatable: boolean;
}

/** The tries of a call that have failed. */
interface Failed {
  tries: number;
  triesWhileStarting: number;
}

/** The service did nothing with what it answers so. */
const NOTHING_DONE = new Set(["overloaded", "starting", "switched", "too_many_requests"]);
const LONGEST_WAIT = 10_000;
const LONGEST_WAIT_WHILE_STARTING = 1_000;
/** Milliseconds; platforms take longer ones for none at all, and end at once. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** The content of an answer, as it arrives. */
type Pieces = AsyncGenerator<string, void, undefined>;

export class Client {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #tries: number;
  readonly #triesWhileStarting: number;
  readonly #firstWait: number;
  readonly #timeout: number;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.url = (options.url ?? "http://127.0.0.1:3000").replace(/\/+$/, "");
    this.#headers = { accept: "application/json" };
    if (options.key !== undefined) this.#headers["authorization"] = `Bearer ${options.key}`;
    this.#tries = options.tries ?? 4;
    this.#triesWhileStarting = options.triesWhileStarting ?? (this.#tries > 1 ? 60 : 1);
    this.#firstWait = options.firstWait ?? 100;
    this.#timeout = options.timeout ?? 60_000;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /** Search an index. */
  search<T = Item>(
    index: string,
    parameters: SearchParameters = {},
    options: CallOptions = {},
  ): Promise<SearchAnswer<T>> {
    return this.#json(post(pathOf(index, "search"), parameters), options);
  }

  /** Make many searches at once; throws the error of the first that failed. */
  async searches<T = Item>(
    searches: NamedSearch[],
    options: CallOptions = {},
  ): Promise<SearchAnswer<T>[]> {
    type Result = SearchAnswer<T> & { error?: Record<string, unknown> };
    const call = post("/_search", { searches });
    const answer = await this.#json<{ results: Result[] }>(call, options);
    for (const { error } of answer.results) {
      if (error) throw errorIn(error, Number(error["status"] ?? 500));
    }
    return answer.results;
  }

  /** Return a page of the values of a facet. */
  facet(
    index: string,
    name: string,
    parameters: FacetParameters = {},
    options: CallOptions = {},
  ): Promise<FacetAnswer> {
    return this.#json(post(pathOf(index, "facet"), { ...parameters, name }), options);
  }

  /** Return what a text as typed may become. */
  async suggest(
    index: string,
    query: string,
    parameters: SuggestParameters = {},
    options: CallOptions = {},
  ): Promise<Suggestion[]> {
    const call = post(pathOf(index, "suggest"), { ...parameters, query });
    const answer = await this.#json<Schemas["Suggestions"]>(call, options);
    return answer.data.suggestions;
  }

  /** Return why an item is a hit of a search, or what keeps it out. */
  async explain(
    index: string,
    id: ItemId,
    parameters: SearchParameters = {},
    options: CallOptions = {},
  ): Promise<Schemas["Explanation"]["data"]> {
    const call = post(pathOf(index, "explain"), { ...parameters, id });
    return (await this.#json<Schemas["Explanation"]>(call, options)).data;
  }

  /** Return one item; an error with the code `item_not_found` if there is none. */
  get<T = Item>(index: string, id: ItemId, options: CallOptions = {}): Promise<T> {
    const path = pathOf(index, "items", id);
    return this.#json({ method: "GET", path, isRepeatable: true }, options);
  }

  /** Add items, or replace those whose id exists: all or none. */
  add(
    index: string,
    items: readonly object[],
    options: CallOptions = {},
  ): Promise<WriteAnswer> {
    const haveIds = items.every((item) => (item as { id?: unknown }).id != null);
    const call = { ...post(pathOf(index, "items"), items), isRepeatable: haveIds };
    return this.#json(call, options);
  }

  /** Set fields of one item. */
  update(
    index: string,
    id: ItemId,
    fields: object,
    options: CallOptions = {},
  ): Promise<WriteAnswer> {
    return this.#json(post(pathOf(index, "items", id, "partial"), fields), options);
  }

  /** Set fields of many items, each given with its id; `errors` lists those not found. */
  updateItems(
    index: string,
    items: readonly object[],
    options: CallOptions = {},
  ): Promise<WriteAnswer> {
    return this.#json({ ...post(pathOf(index, "items"), items), method: "PATCH" }, options);
  }

  /** Remove items by ids, or all that a filter expression finds. */
  delete(
    index: string,
    chosen: { ids: ItemId[] } | { filter: string },
    options: CallOptions = {},
  ): Promise<WriteAnswer> {
    return this.#json(post(pathOf(index, "items", "delete"), chosen), options);
  }

  /**
   * Load lines of JSON of any size; nothing is stored if one is wrong, unless `skipsBad`.
   *
   * The client's `timeout` is not for this call: `fetch` does not tell how much it has sent.
   */
  load(
    index: string,
    lines: RequestBody,
    options: CallOptions & { skipsBad?: boolean } = {},
  ): Promise<WriteAnswer> {
    const path = pathOf(index, "index") + (options.skipsBad ? "?on_error=skip" : "");
    const contentType = "application/x-ndjson";
    const call: Call = { method: "POST", path, body: lines, contentType, isRepeatable: false };
    return this.#json(call, { ...options, timeout: options.timeout ?? Infinity });
  }

  /** Yield all items of one state of the index, or those that match. */
  async *export<T = Item>(
    index: string,
    parameters: SearchParameters = {},
    options: CallOptions = {},
  ): AsyncGenerator<T> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
      if (value == null) continue;
      query.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
    const path = `${pathOf(index, "items")}?${query}`;
    const pieces = await this.#send({ method: "GET", path, isRepeatable: true }, options, (p) => p);
    let rest = "";
    for await (const piece of pieces) {
      const lines = (rest + piece).split("\n");
      rest = lines.pop()!;
      for (const line of lines) yield this.#parsed<T>(line);
    }
    if (rest) throw this.#notFacetd(); // our last line ends, too
  }

  /** Create an index, or replace its configuration. */
  configure(
    index: string,
    configuration: Configuration,
    options: CallOptions = {},
  ): Promise<ConfigurationAnswer> {
    return this.#json(post(pathOf(index, "configuration"), configuration), options);
  }

  /** Return the configuration as it was posted. */
  configuration(index: string, options: CallOptions = {}): Promise<Configuration> {
    const path = pathOf(index, "configuration");
    return this.#json({ method: "GET", path, isRepeatable: true }, options);
  }

  /**
   * Give an index another name; its aliases go with it. `alias` makes the former name an alias,
   * `replace` takes the name from an index that has it, which is deleted at the same moment.
   */
  async rename(
    index: string,
    to: string,
    options: CallOptions & { alias?: boolean; replace?: boolean } = {},
  ): Promise<void> {
    const { alias = false, replace = false, ...others } = options;
    const call = post(pathOf(index, "rename"), { to, alias, replace });
    await this.#json({ ...call, isRepeatable: false }, others);
  }

  /** Copy an index, its items and its configuration; a large one takes longer than the timeout. */
  async copy(index: string, to: string, options: CallOptions = {}): Promise<void> {
    await this.#json({ ...post(pathOf(index, "copy"), { to }), isRepeatable: false }, options);
  }

  /** Remove an index and its data. */
  async deleteIndex(index: string, options: CallOptions = {}): Promise<void> {
    await this.#json({ method: "DELETE", path: pathOf(index), isRepeatable: false }, options);
  }

  async #json<T>(call: Call, options: CallOptions): Promise<T> {
    return this.#parsed<T>(await this.#send(call, options, joined));
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
  async #send<R>(
    call: Call,
    { signal, timeout = this.#timeout }: CallOptions,
    read: (pieces: Pieces) => R | Promise<R>,
  ): Promise<R> {
    if (!(timeout > 0)) throw new TypeError(`timeout must be above 0 milliseconds, not ${timeout}`);
    const failed: Failed = { tries: 0, triesWhileStarting: 0 };
    for (;;) {
      const guard = new Guard(timeout, signal);
      try {
        return await this.#once(call, guard, read);
      } catch (error) {
        guard.release();
        const wait = error instanceof FacetdError ? this.#waitAfter(error, call, failed) : null;
        if (wait === null) throw error;
        await sleep(wait, signal);
      }
    }
  }

  /** Count a failed try; return milliseconds to wait before the next one, or null. */
  #waitAfter(error: FacetdError, call: Call, failed: Failed): number | null {
    const isStream = call.body instanceof ReadableStream; // which can be read only once
    const asked = (error.retryAfter ?? 0) * 1000;
    if (isStream || asked > LONGEST_WAIT) return null;
    const wait = isOfStart(error, call, failed)
      ? this.#waitForStart(failed)
      : this.#waitAfterFailure(error, call, failed);
    return wait === null ? null : Math.max(asked, wait * (0.5 + Math.random() / 2));
  }

  #waitForStart(failed: Failed): number | null {
    failed.triesWhileStarting += 1;
    if (failed.triesWhileStarting >= this.#triesWhileStarting) return null;
    const wait = this.#firstWait * 2 ** (failed.triesWhileStarting - 1);
    return Math.min(LONGEST_WAIT_WHILE_STARTING, wait);
  }

  #waitAfterFailure(error: FacetdError, call: Call, failed: Failed): number | null {
    failed.tries += 1;
    const isTransient = [0, 503, 504].includes(error.status);
    const isSafe = NOTHING_DONE.has(error.code) || (isTransient && call.isRepeatable);
    if (failed.tries >= this.#tries || !isSafe) return null;
    return Math.min(LONGEST_WAIT, this.#firstWait * 2 ** (failed.tries - 1));
  }

  async #once<R>(
    call: Call,
    guard: Guard,
    read: (pieces: Pieces) => R | Promise<R>,
  ): Promise<R> {
    const { method, path, body, contentType = "application/json" } = call;
    // Followed, a redirected POST would become a GET without its body, which finds everything.
    const init: RequestInit & { duplex?: "half" } = { method, redirect: "manual" };
    init.headers = { ...this.#headers };
    init.signal = guard.signal;
    if (body !== undefined) {
      init.body = body;
      init.headers["content-type"] = contentType;
      if (body instanceof ReadableStream) init.duplex = "half";
    }
    const reply = await this.#guarded(guard, `no answer from ${this.url}`, () =>
      this.#fetch(this.url + path, init),
    );
    const pieces = this.#pieces(reply, guard);
    if (reply.ok) return await read(pieces);
    throw this.#errorOf(reply, await joined(pieces));
  }

  /** Yield the content of an answer as it arrives. */
  async *#pieces(reply: Response, guard: Guard): Pieces {
    const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
    try {
      while (reader) {
        const read = () => reader.read();
        const { done, value } = await this.#guarded(guard, `${this.url} broke off`, read);
        if (done) break;
        yield value;
      }
    } finally {
      // The caller may have stopped early: without this, the connection would stay open.
      await reader?.cancel().catch(() => {});
      guard.release();
    }
  }

  /** Wait for the platform; throw what the caller's signal says, or our error. */
  async #guarded<T>(guard: Guard, what: string, wait: () => Promise<T>): Promise<T> {
    try {
      return await guard.within(wait);
    } catch (error) {
      guard.caller?.throwIfAborted();
      const cause = guard.signal.aborted ? guard.signal.reason : error;
      throw new FacetdError(`${what}: ${cause}`, 0, "", undefined, {}, undefined, { cause });
    }
  }

  #errorOf(reply: Response, content: string): FacetdError {
    if (reply.type === "opaqueredirect" || (reply.status >= 300 && reply.status < 400)) {
      const target = reply.headers.get("location") ?? "another address"; // browsers do not tell
      const what = `${this.url} redirects to ${target}; give the URL that it leads to`;
      return new FacetdError(what, reply.status || 302, "", undefined, {}, undefined);
    }
    const after = Number(reply.headers.get("retry-after") ?? NaN);
    return errorIn(errorObject(content), reply.status, Number.isNaN(after) ? undefined : after);
  }
}

/** Ends one try of a call: when the caller's signal says so, or when nothing arrives in time. */
class Guard {
  readonly #controller = new AbortController();
  readonly #callOff = () => this.#controller.abort(this.caller!.reason);

  constructor(
    readonly timeout: number,
    readonly caller: AbortSignal | undefined,
  ) {
    caller?.throwIfAborted();
    caller?.addEventListener("abort", this.#callOff);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Wait for something to arrive, not longer than the timeout. */
  async within<T>(wait: () => Promise<T>): Promise<T> {
    const giveUp = () => {
      const message = `nothing arrived within ${this.timeout} ms`;
      this.#controller.abort(new DOMException(message, "TimeoutError"));
    };
    const timer = this.timeout > LONGEST_TIMER ? undefined : setTimeout(giveUp, this.timeout);
    try {
      return await wait();
    } finally {
      clearTimeout(timer);
    }
  }

  /** Let go of the caller's signal, which may live longer than this call. */
  release(): void {
    this.caller?.removeEventListener("abort", this.#callOff);
  }
}

/** Return whether a try failed because the service is starting. */
function isOfStart(error: FacetdError, call: Call, failed: Failed): boolean {
  if (error.code === "starting") return true;
  // The port is closed for a moment when the coordinator takes it over. `fetch` does not tell
  // whether it has sent the call before.
  const isLost = error.status === 0 && (error.cause as Error | undefined)?.name !== "TimeoutError";
  return failed.triesWhileStarting > 0 && isLost && call.isRepeatable;
}

async function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  let callOff = () => {};
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    callOff = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    signal?.addEventListener("abort", callOff);
  }).finally(() => signal?.removeEventListener("abort", callOff));
}

async function joined(pieces: Pieces): Promise<string> {
  let content = "";
  for await (const piece of pieces) content += piece;
  return content;
}

function post(path: string, body: unknown): Call {
  return { method: "POST", path, body: JSON.stringify(body), isRepeatable: true };
}

function pathOf(...segments: (string | number)[]): string {
  // fetch takes dots for folders, even escaped: the call would reach something else.
  const isOther = segments.some((segment) => ["", ".", ".."].includes(String(segment)));
  if (isOther) throw new TypeError("an index or id that is empty or dots cannot be in a URL");
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

/** Return the error object in the content of an answer; empty if a proxy answers, say. */
function errorObject(content: string): Record<string, unknown> {
  try {
    return JSON.parse(content)?.error ?? {};
  } catch {
    return {};
  }
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
