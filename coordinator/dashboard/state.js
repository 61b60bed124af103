/**
 * What the search page shows, as one plain value: read from the URL, written to the URL, and
 * turned into a request. All functions are pure.
 *
 *     ?q=… (or query=…)&sort=year:desc&page=2&per_page=20&view=json|table&explain=1&partial=1
 *     &is.F=value      selected value of field F (repeated)
 *     &not.F=value     excluded value
 *     &range.F=a..b    from a inclusive to b exclusive; either may be absent
 *     &box.F=t,r,b,l   part of the map: degrees of its top, right, bottom and left side
 *     &join.F=any|all  and/or switch, where it differs from the configuration
 *     &at.F=3          page of the facet's values
 *     &find.F=text     search within the facet's values
 */

import { gridOf } from "./map_home.js";

export const VIEWS = ["cards", "table", "json"];
export const PER_PAGE = 20;
export const PER_PAGE_CHOICES = [10, 20, 50, 100];
export const HIGHLIGHT_OPEN = "\uE000";
export const HIGHLIGHT_CLOSE = "\uE001";
const FACET_SIZE = 10;
const FACET_SIZE_MAX = 50;

const NO_CHOICE = Object.freeze({
  selected: [],
  excluded: [],
  low: null,
  high: null,
  box: null,
  join: null,
  page: 1,
  find: "",
});

export const EMPTY_STATE = Object.freeze({
  query: "",
  choices: {},
  sort: "",
  page: 1,
  perPage: PER_PAGE,
  view: "cards",
  explains: false,
  allowsPartial: false,
});

/** What is chosen in one facet. */
export function choiceOf(state, field) {
  return Object.hasOwn(state.choices, field) ? state.choices[field] : NO_CHOICE;
}

/**
 * The state with some of one facet's choice replaced. The hits change, so they start again at page
 * 1, and so do the values of the other facets.
 */
export function withChoice(state, field, change) {
  const first = { ...withFirstPages(state), page: 1 };
  return put(first, field, { ...choiceOf(state, field), ...change });
}

/** The same hits, with another page of, or another search within, one facet's values. */
export function withFacetView(state, field, change) {
  return put(state, field, { ...choiceOf(state, field), ...change });
}

/** Another text to search for. */
export function withQuery(state, query) {
  return { ...withFirstPages(state), query, page: 1 };
}

function put(state, field, choice) {
  return { ...state, choices: { ...state.choices, [field]: choice } };
}

function withFirstPages(state) {
  const choices = Object.entries(state.choices).map(([field, choice]) => [
    field,
    choice.page === 1 ? choice : { ...choice, page: 1 },
  ]);
  return { ...state, choices: Object.fromEntries(choices) };
}

/** A click on a value: off -> selected -> excluded -> off. */
export function withNextMark(state, field, key) {
  const { selected, excluded } = choiceOf(state, field);
  if (selected.includes(key)) return withMark(state, field, key, "excluded");
  return withMark(state, field, key, excluded.includes(key) ? "off" : "selected");
}

/** Sets a value of a facet to "selected", "excluded" or "off". */
export function withMark(state, field, key, mark) {
  const choice = choiceOf(state, field);
  const selected = choice.selected.filter((other) => other !== key);
  const excluded = choice.excluded.filter((other) => other !== key);
  if (mark === "selected") selected.push(key);
  if (mark === "excluded") excluded.push(key);
  return withChoice(state, field, { selected, excluded });
}

export function hasRange(choice) {
  return choice.low !== null || choice.high !== null;
}

/** Whether anything narrows the hits besides the text. */
export function countChoices(state) {
  return Object.values(state.choices).reduce(
    (sum, choice) =>
      sum +
      choice.selected.length +
      choice.excluded.length +
      (hasRange(choice) ? 1 : 0) +
      (choice.box ? 1 : 0),
    0,
  );
}

export function withoutChoices(state) {
  return { ...state, page: 1, choices: {} };
}

// --- URL ---------------------------------------------------------------------------------------

export function readState(search) {
  const parameters = new URLSearchParams(search);
  const positive = (name, fallback) =>
    Math.max(1, Math.floor(Number(parameters.get(name)) || fallback));
  let state = {
    ...EMPTY_STATE,
    query: parameters.get("q") ?? parameters.get("query") ?? "",
    sort: parameters.get("sort") ?? "",
    perPage: Math.min(positive("per_page", PER_PAGE), 1000),
    view: VIEWS.includes(parameters.get("view")) ? parameters.get("view") : "cards",
    explains: parameters.has("explain"),
    allowsPartial: parameters.has("partial"),
  };
  for (const [name, value] of parameters) {
    const [, kind, field] = /^(is|not|range|box|join|at|find)\.(.+)$/.exec(name) ?? [];
    if (kind) state = withFacetView(state, field, readChoice(choiceOf(state, field), kind, value));
  }
  return { ...state, page: positive("page", 1) };
}

function readChoice(choice, kind, value) {
  if (kind === "is") return { selected: [...choice.selected, value] };
  if (kind === "not") return { excluded: [...choice.excluded, value] };
  if (kind === "join") return { join: value === "any" ? "any" : "all" };
  if (kind === "at") return { page: Math.max(1, Math.floor(Number(value) || 1)) };
  if (kind === "find") return { find: value };
  if (kind === "box") return { box: readBox(value) };
  const [low, high = ""] = value.split("..");
  return { low: boundOf(low), high: boundOf(high) };
}

function readBox(text) {
  const sides = text.split(",").map(Number);
  const [top, right, bottom, left] = sides;
  const isBox = sides.length === 4 && top > bottom && right > left;
  return isBox && top <= 90 && bottom >= -90 && right <= 180 && left >= -180 ? sides : null;
}

/** The end of a range as a number (BigInt where a number would be rounded) or text; "" is open. */
export function boundOf(text) {
  if (text === "") return null;
  const number = Number(text);
  if (!Number.isFinite(number)) return text;
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(number) ? BigInt(text) : number;
}

export function writeState(state) {
  const parameters = new URLSearchParams();
  const append = (name, value, usual) => value !== usual && parameters.append(name, value);
  append("q", state.query, "");
  append("sort", state.sort, "");
  append("page", state.page, 1);
  append("per_page", state.perPage, PER_PAGE);
  append("view", state.view, "cards");
  if (state.explains) parameters.append("explain", "1");
  if (state.allowsPartial) parameters.append("partial", "1");
  for (const [field, choice] of Object.entries(state.choices)) {
    for (const key of choice.selected) parameters.append(`is.${field}`, key);
    for (const key of choice.excluded) parameters.append(`not.${field}`, key);
    if (hasRange(choice))
      parameters.append(`range.${field}`, `${choice.low ?? ""}..${choice.high ?? ""}`);
    append(`box.${field}`, choice.box?.join(",") ?? null, null);
    append(`join.${field}`, choice.join, null);
    append(`at.${field}`, choice.page, 1);
    append(`find.${field}`, choice.find, "");
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

// --- request -----------------------------------------------------------------------------------

/** Whether items must have every selected value of the facet, or any. */
export function joinOf(state, facet) {
  return choiceOf(state, facet.field).join ?? (facet.isConjunctive ? "all" : "any");
}

/**
 * The filters and not_filters of a state, leaving out the facet `except`. A part of the map is an
 * expression: that narrows the cells of the map too.
 */
export function filtersOf(state, except = null) {
  const filters = {};
  const notFilters = {};
  const parts = [];
  for (const [field, choice] of Object.entries(state.choices)) {
    if (choice.excluded.length > 0) notFilters[field] = choice.excluded;
    if (field === except) continue;
    if (choice.box) parts.push(withinBox(field, choice.box));
    const range = rangeOf(choice);
    const isJoined = choice.selected.length > 0 && (range !== null || choice.join !== null);
    if (isJoined) filters[field] = { ...range, [choice.join ?? "all"]: choice.selected };
    else if (range) filters[field] = range;
    else if (choice.selected.length > 0) filters[field] = choice.selected;
  }
  const filter = parts.length > 0 ? { filter: parts.join(" AND ") } : {};
  return { filters, not_filters: notFilters, ...filter };
}

function withinBox(field, [top, right, bottom, left]) {
  return `_geoBoundingBox(${JSON.stringify(field)},[${top},${right}],[${bottom},${left}])`;
}

function rangeOf(choice) {
  if (!hasRange(choice)) return null;
  return {
    ...(choice.low !== null ? { gte: choice.low } : {}),
    ...(choice.high !== null ? { lt: choice.high } : {}),
  };
}

/** How many values of a facet are listed at once. */
export function facetSize(facet) {
  return Math.max(1, Math.min(facet.size ?? FACET_SIZE, FACET_SIZE_MAX));
}

/** Whether the number of a facet's values among the hits is that of the values it lists. */
function countsOwnValues(state, facet) {
  const choice = choiceOf(state, facet.field);
  return joinOf(state, facet) === "all" || (choice.selected.length === 0 && !hasRange(choice));
}

/** The whole search: hits, and of the open facets the values or the histogram. */
export function searchRequest(state, schema, openFacets) {
  const lists = openFacets.filter((facet) => !facet.isHistogram);
  const histograms = openFacets.filter((facet) => facet.isHistogram && facet.bins.length > 0);
  const options = {};
  for (const facet of lists) {
    const { selected, excluded } = choiceOf(state, facet.field);
    options[facet.field] = {
      size: facetSize(facet) + selected.length + excluded.length,
      conjunction: joinOf(state, facet) === "all",
      ...(countsOwnValues(state, facet) ? { cardinality: true } : {}),
    };
  }
  const request = {
    query: state.query,
    page: state.page,
    per_page: state.perPage,
    ...filtersOf(state),
  };
  if (state.query.trim()) request.match = schema.match;
  request.facet_fields = lists.map((facet) => facet.field);
  if (lists.length > 0) request.facets = options;
  if (histograms.length > 0) {
    request.facet_ranges = Object.fromEntries(histograms.map((facet) => [facet.field, facet.bins]));
  }
  if (schema.places?.isOpen) {
    const { field, home } = schema.places;
    const grid = gridOf(choiceOf(state, field).box ?? home);
    request.facet_ranges = { ...request.facet_ranges, [field]: { grid } };
  }
  const trees = schema.trees.filter((tree) => tree.isOpen);
  if (trees.length > 0)
    request.trees = Object.fromEntries(
      trees.map((tree) => [tree.field, { size: tree.size, open: [...tree.opened] }]),
    );
  const [sortField, order] = splitSort(state.sort);
  if (sortField) request.sort_field = sortField;
  if (sortField || (order === "desc" && !state.query)) request.order = order;
  if (state.query.trim() && schema.textFields.length > 0) {
    request.highlight = { fields: schema.textFields, pre: HIGHLIGHT_OPEN, post: HIGHLIGHT_CLOSE };
  }
  if (state.explains) request.show = ["score", "score_details"];
  if (state.allowsPartial) request.partial = "allow";
  return request;
}

/**
 * The joint counts of a histogram's bins with everything else that is open, as they are without the
 * histogram's own range: with them that range moves without a request.
 */
export function cubeRequest(state, schema, openFacets, facet) {
  const whole = withChoice(state, facet.field, { low: null, high: null });
  const { sort_field, order, highlight, show, ...request } = searchRequest(
    { ...whole, page: 1 },
    schema,
    openFacets,
  );
  const edges = [facet.bins[0].from, ...facet.bins.map((bin) => bin.to)];
  return { ...request, per_page: 0, facet_cube: { field: facet.field, edges } };
}

/** "release.date:desc" -> ["release.date", "desc"]; ":desc" is the newest item first. */
export function splitSort(sort) {
  const colon = sort.lastIndexOf(":");
  return colon < 0 ? [sort, "asc"] : [sort.slice(0, colon), sort.slice(colon + 1)];
}

/** One page of a facet's values, within the same hits. */
export function facetRequest(state, facet, schema) {
  const choice = choiceOf(state, facet.field);
  const isAny = joinOf(state, facet) === "any";
  const request = {
    name: facet.field,
    page: choice.page,
    per_page: facetSize(facet),
    search_query: state.query,
    ...filtersOf(state, isAny ? facet.field : null),
  };
  if (!isAny) request.facet_mode = "strict";
  if (choice.find) request.facet_query = choice.find;
  request.hide_zero = true;
  if (state.query.trim()) request.match = schema.match;
  return request;
}

/** The state that a logged request asks for, as far as the page can show it. */
export function stateFromRequest(request) {
  let state = { ...EMPTY_STATE, query: String(request.query ?? "") };
  for (const [field, spec] of Object.entries(request.filters ?? {})) {
    if (Array.isArray(spec)) state = withChoice(state, field, { selected: spec.map(String) });
    else if (spec && typeof spec === "object")
      state = withChoice(state, field, { low: spec.gte ?? null, high: spec.lt ?? null });
  }
  for (const [field, keys] of Object.entries(request.not_filters ?? {})) {
    if (Array.isArray(keys)) state = withChoice(state, field, { excluded: keys.map(String) });
  }
  if (request.sort_field)
    state = { ...state, sort: `${request.sort_field}:${request.order ?? "asc"}` };
  return {
    ...state,
    page: Number(request.page) || 1,
    perPage: Number(request.per_page) || PER_PAGE,
  };
}
