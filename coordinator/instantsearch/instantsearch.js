/**
 * A `searchClient` for InstantSearch and Autocomplete. An ES module without dependencies:
 *
 *     import { createSearchClient } from "http://127.0.0.1:3000/_instantsearch.js";
 *     const search = instantsearch({ indexName: "films", searchClient: createSearchClient() });
 *
 * The service speaks Algolia's protocol itself, under `/1/`: this only sends the queries there and
 * divides long lists. So `algoliasearch` with the service as its host does the same.
 *
 * Facets that widgets use are named in the index's configuration, as attributes for faceting are.
 * The widget that sorts switches to another index. Here "films:year:desc" is the index "films"
 * sorted by year; "films:year:desc:name:asc" also works, and no index has to be made for it.
 */

const QUERIES_MAX = 64;

/**
 * Make a search client.
 *
 * @param {object} [options]
 * @param {string} [options.url] of the service; by default where this module came from.
 * @param {string} [options.apiKey] that may search.
 * @param {typeof fetch} [options.fetch] to use instead of the platform's.
 */
export function createSearchClient(options = {}) {
  const url = (options.url ?? new URL(".", import.meta.url).href).replace(/\/+$/, "");
  const send = options.fetch ?? ((...request) => fetch(...request));
  const headers = { "content-type": "application/json" };
  if (options.apiKey) headers["x-api-key"] = options.apiKey;

  async function post(requests) {
    const body = JSON.stringify({ requests });
    const reply = await send(`${url}/1/indexes/*/queries`, { method: "POST", headers, body });
    const answer = parsed(await reply.text());
    if (!reply.ok || !answer.results) {
      const what = reply.ok ? `what answers at ${url} is not facetd` : `the service answered ${reply.status}`;
      const error = new Error(answer.error?.message ?? what);
      throw Object.assign(error, { name: "SearchError", status: reply.status, ...answer.error });
    }
    return answer.results;
  }

  /** Send a list of queries in parts; queries of one search stay together. */
  async function search(queries) {
    const requests = Array.isArray(queries) ? queries : queries?.requests;
    if (!Array.isArray(requests)) {
      throw new TypeError("search takes a list of queries, or an object with such requests");
    }
    const parts = [];
    for (let at = 0; at < requests.length; at += QUERIES_MAX) {
      parts.push(post(requests.slice(at, at + QUERIES_MAX)));
    }
    return { results: (await Promise.all(parts)).flat() };
  }

  return {
    /** Answer queries, each by a result in its place: a list, or `{ requests }`. */
    search,

    /** Answer what is typed into the search box of a facet. */
    async searchForFacetValues(queries) {
      const requests = Array.isArray(queries) ? queries : queries.requests;
      const { results } = await search(requests.map((one) => ({ ...one, type: "facet" })));
      return results;
    },

    /** Refuse what only Algolia has. */
    async getRecommendations() {
      throw new Error("facetd has no recommendations");
    },
  };
}

/** Return the JSON of an answer; nothing of what another server answers, such as a proxy. */
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
