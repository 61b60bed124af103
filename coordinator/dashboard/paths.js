/** Addresses of the dashboard's own pages, and of the service that they belong to. */

/** What stands before every path: "" or, where a proxy serves facetd under a path, "/search". */
export const PREFIX = new URL(import.meta.url).pathname.replace(/\/dashboard\/assets\/.*$/, "");

export const HOME = `${PREFIX}/dashboard`;

/** The search page of an index. */
export function searchPath(index) {
  return `${HOME}/${encodeURIComponent(index)}`;
}

/** The page of one item. */
export function itemPath(index, id) {
  return `${searchPath(index)}?item=${encodeURIComponent(String(id))}`;
}

/** The page that compares two indexes. */
export function comparePath(index, other, query = "") {
  const text = query ? `&q=${encodeURIComponent(query)}` : "";
  return `${searchPath(index)}?compare=${encodeURIComponent(other)}${text}`;
}
