/**
 * An InstantSearch `searchClient` that asks facetd. An ES module without dependencies:
 *
 *     import { createSearchClient } from "http://127.0.0.1:3000/_instantsearch.js";
 *     const search = instantsearch({ indexName: "films", searchClient: createSearchClient() });
 *
 * InstantSearch renders a page by one list of queries: the search itself, and for every disjunctive
 * facet with a selection the same search without that selection, of which only the facet's counts
 * are used. facetd counts such facets without their own selection anyway, so these queries are
 * folded into the search that they belong to, and a list of any length is one `POST /_search`.
 *
 *     query  {facetFilters: [["brand:A", "brand:B"], ["size:L"]]}    search   {filters: {brand: …, size: …},
 *     query  {facetFilters: [["size:L"]], facets: "brand"}        ─▶           facets: {brand: {conjunction: false},
 *     query  {facetFilters: [["brand:A", "brand:B"]], facets: "size"}                   size: {conjunction: false}}}
 *
 * Facets that widgets use are named in the index's configuration, as attributes for faceting are.
 *
 * The widget that sorts switches to another index. Here "films:year:desc" is the index "films" sorted
 * by year; "films:year:desc:name:asc" also works, and no index has to be made for it.
 */

const HITS_PER_PAGE = 20;
const VALUES_PER_FACET = 100;
const FACET_HITS = 10;
const SEARCHES_MAX = 64;

/** What facetd puts around marked words; private characters, which no tag of a page looks like. */
const PRE = "\ue000";
const POST = "\ue001";

/**
 * Make a search client.
 *
 * @param {object} [options]
 * @param {string} [options.url] of the service; by default where this module came from.
 * @param {string} [options.apiKey] that may search.
 * @param {typeof fetch} [options.fetch] to use instead of the platform's.
 */
export function createSearchClient(options = {}) {
  const url = (options.url ?? new URL(import.meta.url).origin).replace(/\/+$/, "");
  const send = options.fetch ?? ((...request) => fetch(...request));
  const headers = { "content-type": "application/json" };
  if (options.apiKey) headers["x-api-key"] = options.apiKey;

  async function post(path, body) {
    const reply = await send(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    const answer = await reply.json();
    if (!reply.ok) {
      const error = new Error(answer.error?.message ?? `the service answered ${reply.status}`);
      throw Object.assign(error, { name: "SearchError", status: reply.status, ...answer.error });
    }
    return answer;
  }

  async function searchAll(searches) {
    const parts = [];
    for (let at = 0; at < searches.length; at += SEARCHES_MAX) {
      parts.push(post("/_search", { searches: searches.slice(at, at + SEARCHES_MAX) }));
    }
    return (await Promise.all(parts)).flatMap((part) => part.results);
  }

  return {
    /** Answer a list of queries, each by a result in its place. */
    async search(requests) {
      if (requests.some((request) => request.type === "facet")) {
        return { results: await Promise.all(requests.map((request) => this.one(request))) };
      }
      const groups = fold(requests);
      const answers = await searchAll(groups.map(searchOf));
      const results = new Array(requests.length);
      groups.forEach((group, number) => {
        const result = resultOf(group.main, answers[number]);
        results[group.position] = result;
        for (const { position, facet } of group.folded) {
          results[position] = { ...result, hits: [], facets: pick(result.facets, facet) };
        }
      });
      return { results };
    },

    /** Answer one request of a list in which some ask for facet values. */
    async one(request) {
      if (request.type === "facet") return (await this.searchForFacetValues([request]))[0];
      return (await this.search([request])).results[0];
    },

    /** Answer what is typed into the search box of a facet. */
    async searchForFacetValues(requests) {
      return Promise.all(
        requests.map(async (request) => {
          const params = { ...request.params, ...request };
          const name = params.facetName ?? params.facet;
          const { index } = indexAndSort(request.indexName);
          const answer = await post(`/${encodeURIComponent(index)}/facet`, {
            name,
            facet_query: params.facetQuery ?? "",
            per_page: params.maxFacetHits ?? FACET_HITS,
            search_query: params.query ?? "",
            ...restrictionOf(params, new Set()),
          });
          const found = answer.data.buckets.filter((bucket) => bucket.doc_count > 0);
          return {
            facetHits: found.map((bucket) => ({
              value: bucket.key,
              highlighted: highlightStart(bucket.key, params),
              count: bucket.doc_count,
            })),
            exhaustiveFacetsCount: true,
            processingTimeMS: answer.timings.total,
          };
        }),
      );
    },
  };
}

// --- folding ---------------------------------------------------------------------------------

/** Return the searches to send: each with the queries that its answer is enough for. */
export function fold(requests) {
  const groups = [];
  requests.forEach((request, position) => {
    const main = groups.at(-1);
    const facet = main === undefined ? null : leftOutFacet(main.main, request);
    if (facet !== null) main.folded.push({ position, facet });
    else groups.push({ main: request, position, folded: [] });
  });
  return groups;
}

/** Return the facet whose own selection a query leaves out of a search's, or null. */
function leftOutFacet(main, request) {
  const params = request.params ?? {};
  const facets = [params.facets ?? []].flat();
  if (request.indexName !== main.indexName || facets.length !== 1) return null;
  if (!(params.hitsPerPage <= 1) || (params.page ?? 0) !== 0) return null;
  const facet = facets[0];
  const selections = [main.params?.facetFilters ?? []].flat(1);
  const others = selections.filter((group) => !isChoiceOf(group, facet));
  // Values of the facet that are ANDed, or ORed with another field, are no choice of it.
  const isChosen = selections.length === others.length + 1;
  if (!isChosen || others.some((group) => fieldsOf(group).includes(facet))) return null;
  const isSame = ["query", "filters", "numericFilters", "distinct"].every((name) =>
    isEqual(main.params?.[name], params[name]),
  );
  return isSame && isEqual(others, [params.facetFilters ?? []].flat(1)) ? facet : null;
}

function isChoiceOf(group, facet) {
  return (
    Array.isArray(group) &&
    group.length > 0 &&
    group.every((text) => {
      const { field, isNegative } = readFacetFilter(text);
      return field === facet && !isNegative;
    })
  );
}

function fieldsOf(group) {
  return [group].flat().map((text) => readFacetFilter(text).field);
}

function isEqual(one, other) {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}

function pick(members, name) {
  return members && name in members ? { [name]: members[name] } : {};
}

// --- queries ---------------------------------------------------------------------------------

/** Return what facetd is asked for a query and those folded into it. */
export function searchOf({ main, folded }) {
  const params = main.params ?? {};
  const choices = new Set(folded.map(({ facet }) => facet));
  const shown = params.facets === "*" ? null : [params.facets ?? []].flat();
  const size = params.maxValuesPerFacet ?? VALUES_PER_FACET;
  const search = {
    ...indexAndSort(main.indexName),
    query: params.query ?? "",
    page: (params.page ?? 0) + 1,
    per_page: params.hitsPerPage ?? HITS_PER_PAGE,
    ...restrictionOf(params, choices),
  };
  if (shown !== null && !shown.includes("*")) {
    const names = [...new Set([...shown, ...choices])];
    search.facet_fields = names;
    search.facets = {};
    for (const name of names) {
      const options = { size, hide_zero: true, stats: true };
      search.facets[name] = { ...options, conjunction: !choices.has(name) };
    }
  }
  const marked = params.attributesToHighlight ?? ["*"];
  if (marked.length && search.per_page > 0 && search.query) {
    search.highlight = { fields: marked, pre: PRE, post: POST };
  }
  if (params.attributesToSnippet?.length && search.per_page > 0) {
    const ellipsis = params.snippetEllipsisText ?? "…";
    search.snippet = { fields: params.attributesToSnippet, pre: PRE, post: POST, ellipsis };
  }
  const wanted = params.attributesToRetrieve;
  if (wanted?.length && !wanted.includes("*")) {
    search.fields = [...new Set([...wanted.filter((name) => !name.startsWith("-")), "id"])];
  }
  return search;
}

/** Return what a name stands for: an index, or one in an order. */
function indexAndSort(name) {
  const found = /^(.+?)((?::[^:]+:(?:asc|desc))+)$/.exec(name);
  if (!found) return { index: name };
  return { index: found[1], sort: found[2].match(/[^:]+:(?:asc|desc)/g) };
}

/** Return `filters` of the facets whose counts leave them out, and all else as `filter`. */
function restrictionOf(params, choices) {
  const filters = {};
  const conditions = [];
  for (const group of [params.facetFilters ?? []].flat(1)) {
    const texts = [group].flat().map(readFacetFilter);
    if (texts.length === 0) continue;
    if (Array.isArray(group) && choices.has(texts[0].field)) {
      filters[texts[0].field] = texts.map(({ value }) => value);
    } else {
      conditions.push(anyOf(texts.map(equals)));
    }
  }
  for (const group of [params.numericFilters ?? []].flat(1)) {
    conditions.push(anyOf([group].flat().map(numericCondition)));
  }
  if (params.filters?.trim()) conditions.push(`(${translated(params.filters)})`);
  const restriction = {};
  if (Object.keys(filters).length) restriction.filters = filters;
  if (conditions.length) restriction.filter = conditions.join(" AND ");
  return restriction;
}

/** Read "field:value" or "field:-value"; a value that begins with a dash is written "\-value". */
function readFacetFilter(text) {
  const colon = text.indexOf(":");
  const value = text.slice(colon + 1);
  const isNegative = value.startsWith("-");
  return {
    field: text.slice(0, colon),
    value: isNegative ? value.slice(1) : value.replace(/^\\-/, "-"),
    isNegative,
  };
}

function equals({ field, value, isNegative }) {
  return `${isNegative ? "NOT " : ""}${quoted(field)} = ${quoted(value)}`;
}

function anyOf(conditions) {
  return conditions.length === 1 ? conditions[0] : `(${conditions.join(" OR ")})`;
}

function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/** Read "price >= 10", "price:10 TO 20" or "price = 3". */
function numericCondition(text) {
  const range = /^(.+):\s*(\S+)\s+TO\s+(\S+)$/.exec(text);
  if (range) return `${quoted(range[1].trim())} ${range[2]} TO ${range[3]}`;
  const comparison = /^(.+?)\s*(<=|>=|!=|=|<|>)\s*(\S+)$/.exec(text);
  if (!comparison) throw new Error(`numericFilters: ${text} is no comparison such as price>=10`);
  return `${quoted(comparison[1].trim())} ${comparison[2]} ${comparison[3]}`;
}

/** Translate the filter language: it differs in the colon between a field and its value. */
function translated(filters) {
  const tokens = filters.match(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[():]|<=|>=|!=|[=<>]|[^\s():=<>!"']+/g);
  return (tokens ?? [])
    .map((token, at, all) => (token !== ":" ? token : all[at + 2]?.toUpperCase() === "TO" ? "" : "="))
    .filter(Boolean)
    .join(" ");
}

// --- answers ---------------------------------------------------------------------------------

/** Return an answer in the form that widgets read. */
export function resultOf(request, answer) {
  const params = request.params ?? {};
  const { page, per_page: hitsPerPage, total } = answer.pagination;
  const style = {
    pre: params.highlightPreTag ?? "<em>",
    post: params.highlightPostTag ?? "</em>",
  };
  const facets = {};
  const stats = {};
  for (const [name, facet] of Object.entries(answer.data.aggregations)) {
    const found = facet.buckets.filter((bucket) => bucket.doc_count > 0);
    facets[name] = Object.fromEntries(found.map((bucket) => [bucket.key, bucket.doc_count]));
    const { min, max, avg, sum, count } = facet.facet_stats ?? {};
    if (count) stats[name] = { min, max, avg, sum };
  }
  return {
    index: request.indexName,
    query: params.query ?? "",
    params: new URLSearchParams(scalars(params)).toString(),
    hits: answer.data.items.map((item) => hitOf(item, style)),
    nbHits: total,
    page: page - 1,
    hitsPerPage,
    nbPages: hitsPerPage ? Math.ceil(total / hitsPerPage) : 0,
    facets,
    facets_stats: stats,
    exhaustiveFacetsCount: true,
    exhaustiveNbHits: true,
    processingTimeMS: answer.timings.total,
  };
}

function scalars(params) {
  return Object.entries(params).filter(([, value]) => typeof value !== "object");
}

function hitOf(item, style) {
  const { _highlight: highlight, _snippet: snippet, ...fields } = item;
  const hit = { ...fields, objectID: String(item.id ?? "") };
  // Every attribute has an entry, as widgets expect: without a match it is the text itself.
  hit._highlightResult = {
    ...marks(fields, style, false),
    ...nested(highlight ?? {}, (value) => marks(value, style, true)),
  };
  if (snippet) hit._snippetResult = nested(snippet, (value) => marks(value, style, true));
  return hit;
}

/** Turn dotted paths into objects inside each other. */
function nested(byPath, make) {
  const result = {};
  for (const [path, value] of Object.entries(byPath)) {
    const names = path.split(".");
    const last = names.pop();
    let place = result;
    for (const name of names) place = place[name] ??= {};
    place[last] = make(value);
  }
  return result;
}

/** Return {value, matchLevel, matchedWords} for each text; arrays and objects keep their form. */
function marks(value, style, isMarked) {
  if (Array.isArray(value)) return value.map((one) => marks(one, style, isMarked));
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value).map(([name, one]) => [name, marks(one, style, isMarked)]);
    return Object.fromEntries(members);
  }
  const text = isMarked ? unescaped(String(value)) : String(value ?? "");
  const words = isMarked ? [...text.matchAll(/\ue000(.*?)\ue001/gs)].map((match) => match[1]) : [];
  return {
    value: isMarked ? text.replaceAll(PRE, style.pre).replaceAll(POST, style.post) : text,
    matchLevel: words.length ? "full" : "none",
    matchedWords: [...new Set(words.map((word) => word.toLowerCase()))],
  };
}

/** Undo facetd's escaping: InstantSearch escapes all of a hit itself. */
function unescaped(text) {
  const characters = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };
  return text.replace(/&(?:lt|gt|quot|#x27|amp);/g, (entity) => characters[entity]);
}

/** Mark the beginning of a word of a facet's value that was typed. */
function highlightStart(value, params) {
  const typed = (params.facetQuery ?? "").trim();
  const pre = params.highlightPreTag ?? "<em>";
  const post = params.highlightPostTag ?? "</em>";
  if (!typed) return value;
  const at = value.toLowerCase().indexOf(typed.toLowerCase());
  if (at < 0) return value;
  const end = at + typed.length;
  return value.slice(0, at) + pre + value.slice(at, end) + post + value.slice(end);
}
