/**
 * The public HTTP interface of facetd as functions: nothing here that another client could not do.
 * Failures come out as ApiError, whatever their cause.
 */

import { PREFIX } from "./paths.js";

const KEY_NAME = "facetd-api-key";
const INDEX_NAME_CHARS_MAX = 64;

/** What went wrong with one request, in the service's own words where it gave any. */
export class ApiError extends Error {
  constructor(
    { status = 0, code = "unreachable", message, param = null, request_id, errors = [], ...counts },
    retryAfter = null,
  ) {
    super(message);
    this.name = "ApiError";
    const { rejected = errors.length, created = null, updated = null } = counts;
    const requestId = request_id ?? null;
    Object.assign(this, { status, code, param, requestId, errors, retryAfter });
    /** Of a load: items that are not valid, and those that were stored before it failed. */
    Object.assign(this, { rejected, stored: created === null ? null : created + updated });
  }

  /** Whether asking again needs another key. */
  get isRefused() {
    return this.status === 401 || this.status === 403;
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status === 0 || this.status === 429 || this.status === 503 || this.status === 504;
  }
}

/** Integers beyond 2^53 become BigInt where the browser allows it, so that no id is ever rounded. */
function exactNumber(_key, value, context) {
  if (
    typeof value === "number" &&
    Number.isInteger(value) &&
    !Number.isSafeInteger(value) &&
    /^-?\d+$/.test(context?.source ?? "")
  ) {
    return BigInt(context.source);
  }
  return value;
}

export function parseJson(text) {
  return /\d{16}/.test(text) ? JSON.parse(text, exactNumber) : JSON.parse(text);
}

export function toJson(value, indent = 0) {
  const exact = (_key, part) =>
    typeof part === "bigint" ? (JSON.rawJSON?.(String(part)) ?? String(part)) : part;
  return JSON.stringify(value, exact, indent);
}

export const apiKey = {
  get: () => sessionStorage.getItem(KEY_NAME) ?? "",
  set: (key) => (key ? sessionStorage.setItem(KEY_NAME, key) : sessionStorage.removeItem(KEY_NAME)),
};

let askForKey = null;

/** `ask(message)` shows the key form and resolves to whether the user has entered one. */
export function onUnauthorized(ask) {
  askForKey = ask;
}

let tellStarting = null;

/** `tell(error)` is called whenever an answer says that the service is still starting. */
export function onStarting(tell) {
  tellStarting = tell;
}

/** How far the start is: `{ progress, message }`, or null once the service is ready. */
export async function startProgress() {
  try {
    const response = await fetch(`${PREFIX}/_ready`, { cache: "no-store", headers: headersFor(null) });
    if (response.ok) return null;
    const { error } = await response.json();
    return { progress: error.progress ?? null, message: error.message };
  } catch {
    return { progress: null, message: "The service cannot be reached." };
  }
}

function headersFor(contentType) {
  const headers = {};
  if (contentType) headers["Content-Type"] = contentType;
  if (apiKey.get()) headers["X-API-Key"] = apiKey.get();
  return headers;
}

function errorFrom(status, text, retryAfter) {
  try {
    const { error, errors } = JSON.parse(text);
    return new ApiError({ errors: errors ?? error.errors, ...error, status }, retryAfter);
  } catch {
    return new ApiError(
      {
        status,
        code: "unexpected_answer",
        message: `The service answered with status ${status} and no explanation.`,
      },
      retryAfter,
    );
  }
}

async function send(
  method,
  path,
  { body, signal, contentType = "application/json", headers } = {},
) {
  let response;
  let text;
  try {
    response = await fetch(PREFIX + path, {
      method,
      body,
      signal,
      cache: "no-store",
      headers: { ...headersFor(body === undefined ? null : contentType), ...headers },
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({
      message: "The service cannot be reached. It may be stopped or restarting.",
    });
  }
  if (response.status === 401 && (await askForKey?.(errorFrom(401, text).message))) {
    return send(method, path, { body, signal, contentType, headers });
  }
  if (!response.ok) {
    const error = errorFrom(
      response.status,
      text,
      Number(response.headers.get("Retry-After")) || null,
    );
    if (error.code === "starting") tellStarting?.(error);
    throw error;
  }
  return { text, headers: response.headers };
}

async function json(method, path, body, signal) {
  const answer = await send(method, path, {
    body: body === undefined ? undefined : toJson(body),
    signal,
  });
  return answer.text ? parseJson(answer.text) : null;
}

/**
 * The path of an index, or of something inside it; names may be any Unicode text but "." and "..":
 * a browser resolves those, however they are written, so DELETE /films/items/.. removes the index.
 */
export function indexPath(index, ...rest) {
  const dots = [index, ...rest].find((part) => /^\.\.?$/.test(part));
  if (dots !== undefined)
    throw new ApiError({
      code: "unusable_address",
      message: `No web address can name “${dots}”: find the item by a filter on id, and delete it by POST /{index}/items/delete.`,
    });
  return `/${[index, ...rest].map((part) => encodeURIComponent(String(part))).join("/")}`;
}

export const listIndexes = (signal) =>
  json("GET", "/_indexes", undefined, signal).then((answer) => answer.indexes);
export const indexExists = (index) =>
  json("GET", indexPath(index, "status")).then(
    () => true,
    (error) => {
      if (error.code === "index_not_found") return false;
      throw error;
    },
  );
export const serviceStats = (signal) => json("GET", "/_stats", undefined, signal);
/** The log and all hosts that share it; `log` is null on a single host. */
export const clusterState = (signal) => json("GET", "/_cluster", undefined, signal);
export const indexStats = (index, signal) =>
  json("GET", indexPath(index, "stats"), undefined, signal);
export const effectiveConfiguration = (index, signal) =>
  json("GET", `${indexPath(index, "configuration")}?effective=true`, undefined, signal);
export const configurationText = (index) =>
  send("GET", indexPath(index, "configuration")).then((answer) => answer.text);
export const configure = (index, text) =>
  send("POST", indexPath(index, "configuration"), { body: text }).then((answer) =>
    JSON.parse(answer.text),
  );
/** Merges settings into the configuration of an index; creates the index if it is new. */
export const mergeConfiguration = (index, settings) =>
  json("PATCH", indexPath(index, "configuration"), settings);
/** A configuration that the service derives from a sample of the items. */
export const proposal = (index, signal) =>
  json("GET", indexPath(index, "proposal"), undefined, signal);
/** Makes an index with the items and the configuration of another. */
export const copyIndex = (index, to) => json("POST", indexPath(index, "copy"), { to });
export const removeIndex = (index) => json("DELETE", indexPath(index));
export const facetValues = (index, request, signal) =>
  json("POST", indexPath(index, "facet"), request, signal);
export const analytics = (days, signal) =>
  json("GET", `/_analytics?days=${days}`, undefined, signal);
export const listKeys = (signal) =>
  json("GET", "/_keys", undefined, signal).then((answer) => answer.keys);
/** The answer is the only place where the key itself can be read. */
export const makeKey = (wanted) => json("POST", "/_keys", wanted);
export const deleteKey = (id) => json("DELETE", `/_keys/${encodeURIComponent(id)}`);
export const listAliases = (signal) =>
  json("GET", "/_aliases", undefined, signal).then((answer) => answer.aliases);
/** `{alias: index}` sets, `{alias: null}` removes. */
export const changeAliases = (aliases) => json("POST", "/_aliases", { aliases });
export const listSnapshots = (signal) =>
  json("GET", "/_snapshots", undefined, signal).then((answer) => answer.snapshots);
export const makeSnapshot = (name) => json("POST", "/_snapshots", { name });
export const removeSnapshot = (name) => json("DELETE", `/_snapshots/${encodeURIComponent(name)}`);
export const restoreSnapshot = (snapshot, index, name) =>
  json("POST", `/_snapshots/${encodeURIComponent(snapshot)}/restore`, {
    indexes: [index],
    rename: { [index]: name },
  });
export const deleteItem = (index, id) => json("DELETE", indexPath(index, "items", id));

/**
 * Removes all items of an index, keeps its configuration and its aliases.
 *
 * An empty index with the same configuration takes its place in one step: if any step fails, the
 * index is as it was. A deletion by filter would leave the items that have no id.
 */
export async function emptyIndex(index) {
  const suffix = `-empty-${Math.random().toString(36).slice(2, 10)}`;
  const successor = [...index].slice(0, INDEX_NAME_CHARS_MAX - suffix.length).join("") + suffix;
  await configure(successor, await configurationText(index));
  try {
    await json("POST", indexPath(successor, "rename"), { to: index, replace: true });
  } catch (error) {
    await removeIndex(successor).catch(() => null); // the first error says what is wrong
    throw error;
  }
}

/** A search with the phases of its time: {answer, phases: [{name, ms}], roundTripMs}. */
export async function search(index, request, signal) {
  const started = performance.now();
  const { text, headers } = await send("POST", indexPath(index, "search"), {
    body: toJson(request),
    signal,
  });
  const roundTripMs = performance.now() - started;
  const answer = parseJson(text);
  return { answer, roundTripMs, phases: phasesOf(headers.get("Server-Timing"), answer.timings) };
}

/** What a text as typed may become, with the number of items of each. */
export const suggest = (index, request, signal) =>
  json("POST", indexPath(index, "suggest"), request, signal);

function phasesOf(serverTiming, timings) {
  const phases = (serverTiming ?? "")
    .split(",")
    .map((entry) => ({
      name: entry.split(";")[0].trim(),
      ms: Number(/dur=([\d.]+)/.exec(entry)?.[1]),
    }))
    .filter((phase) => phase.name && Number.isFinite(phase.ms));
  if (phases.length > 0) return phases;
  return Object.entries(timings ?? {})
    .filter(([name, ms]) => name !== "sorting" && Number.isFinite(ms))
    .map(([name, ms]) => ({ name, ms }));
}

/** One item as it is stored, with the tag that a later change may name as its precondition. */
export async function getItem(index, id, signal) {
  const { text, headers } = await send("GET", indexPath(index, "items", id), { signal });
  return { text, etag: headers.get("ETag") };
}

export const replaceItem = (index, id, text, etag) =>
  send("POST", indexPath(index, "items", id, "update"), {
    body: text,
    headers: etag ? { "If-Match": etag } : {},
  });

/** Loads items as `sendItems` does; asks for a key, and sends them again, if theirs is refused. */
export async function loadItems(index, body, options) {
  try {
    return await sendItems(index, body, options);
  } catch (error) {
    if (error.status === 401 && (await askForKey?.(error.message)))
      return loadItems(index, body, options);
    throw error;
  }
}

/**
 * Sends items to the bulk load. fetch() cannot report how much of a body has left, so this is an
 * XMLHttpRequest; the browser streams the body from disk.
 *
 * @param {Blob} body JSON, one item a line or one array
 * @param {{compression: ?string, skipsErrors: boolean, requestId: string, onProgress: Function, signal: AbortSignal}} options
 */
function sendItems(
  index,
  body,
  { compression, skipsErrors, requestId, onProgress, signal },
) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${PREFIX}${indexPath(index, "index")}${skipsErrors ? "?on_error=skip" : ""}`);
    for (const [name, value] of Object.entries(headersFor("text/plain")))
      request.setRequestHeader(name, value);
    request.setRequestHeader("X-Request-Id", requestId);
    if (compression) request.setRequestHeader("Content-Encoding", compression);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    let isSent = false;
    request.upload.onload = () => {
      isSent = true;
      onProgress(body.size, body.size);
    };
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(errorFrom(request.status, request.responseText));
    };
    request.onerror = () =>
      reject(
        new ApiError({
          code: isSent ? "connection_lost" : "unreachable",
          message: isSent
            ? "The connection broke before the service answered."
            : "The connection broke while the file was sent.",
        }),
      );
    request.onabort = () => reject(new DOMException("Cancelled", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}

/** How far a load is, as the service says: `{state, items_read, items_stored}`, or null. */
export async function loadProgress(requestId, signal) {
  const { loads } = await json("GET", "/_loads", undefined, signal);
  return loads.find((load) => load.id === requestId) ?? null;
}

/** The answer to a task that a newer one has overtaken. */
export const STALE = Symbol("stale");

/**
 * Runs tasks of which only the newest counts: starting one aborts the one before, and an answer
 * that arrives out of order is dropped, whatever the network did.
 */
export class Latest {
  #sequence = 0;
  #controller = null;

  /** Runs `task(signal)`; resolves to its value, or to STALE. */
  async run(task) {
    const sequence = this.cancel();
    this.#controller = new AbortController();
    try {
      const value = await task(this.#controller.signal);
      return sequence === this.#sequence ? value : STALE;
    } catch (error) {
      if (sequence !== this.#sequence || error.name === "AbortError") return STALE;
      throw error;
    }
  }

  /** Makes whatever is under way stale; returns the new sequence number. */
  cancel() {
    this.#controller?.abort();
    this.#sequence += 1;
    return this.#sequence;
  }
}

/** The request as a shell command; single quotes are safe for any text. */
export function asCurl(index, request) {
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const lines = [
    `curl ${quote(location.origin + PREFIX + indexPath(index, "search"))}`,
    "-H 'Content-Type: application/json'",
  ];
  if (apiKey.get()) lines.push(`-H "X-API-Key: $FACETD_KEY"`);
  lines.push(`-d ${quote(toJson(request))}`);
  return lines.join(" \\\n  ");
}
