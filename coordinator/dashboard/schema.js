/** What an index is made of, as the search page needs it: its facets, text fields and sort fields. */

import { dateBins, hasLongTail, isIsoDate, linearBins, logBins } from "./bins.js";
import { effectiveConfiguration, indexStats, search } from "./api.js";
import { fieldTitle } from "./format.js";
import { boundsOf, gridOf, homeOf } from "./map_home.js";

const SAMPLE_SIZE = 30;
const TREE_SIZE = 10;
const NUMBER_KINDS = new Set(["number", "integer", "float"]);
const TITLE_FIELDS = ["name", "title", "label", "headline", "subject"];
const TITLE_LENGTH_MAX = 120;
/** Dates before our era do not sort as text; they are left to the list. */
const FIRST_DATE = "0000-01-01";
/** Fewer distinct numbers than this are better read as a list. */
const HISTOGRAM_BINS_MIN = 3;
/** From cells of 11 degrees to those of a view of a town. */
const BOUNDS_STEPS = 4;

/** Reads configuration, fields and a sample of items: {facets, trees, places, textFields, sortFields, titleField}. */
export async function loadSchema(index, signal) {
  const [configuration, stats, sample] = await Promise.all([
    effectiveConfiguration(index, signal),
    indexStats(index, signal),
    search(index, { per_page: SAMPLE_SIZE, facet_fields: [] }, signal),
  ]);
  const fields = new Map(stats.fields.map((field) => [field.name, field]));
  const kinds = new Map(stats.fields.map((field) => [field.name, field.kinds]));
  const items = sample.answer.data.items;
  const trees = Object.entries(configuration.hierarchies ?? {}).map(treeOf);
  const inTrees = new Set(trees.flatMap((tree) => tree.fields));
  const facets = Object.entries(configuration.aggregations ?? {})
    .filter(([field]) => !inTrees.has(field))
    .map(([field, options]) =>
      facetOf(field, options ?? {}, fields.get(field) ?? { kinds: [], items: 0 }, items),
    )
    .sort((one, other) => one.position - other.position || one.title.localeCompare(other.title));
  const textFields = searchableFields(configuration, kinds);
  const display = configuration.display ?? {};
  return {
    display,
    rules: configuration.rules ?? [],
    /** How many words must match, unless the index itself says something else than all. */
    match: configuration.match === "all" ? "auto" : configuration.match,
    items: stats.items,
    facets,
    trees,
    places: placesOf(configuration, fields),
    textFields,
    sortFields: [...kinds.keys()].filter((field) =>
      items.every((item) => !Array.isArray(valueAt(item, field))),
    ),
    titleField: display.title ?? titleField(configuration, textFields, kinds, items),
  };
}

/** The first field with points, for the map; undefined if there is none. */
function placesOf({ geo_fields: names = [] }, fields) {
  const field = names.find((name) => fields.get(`${name}.lat`)?.items > 0);
  return field && { field, title: field === "_geo" ? "Map" : fieldTitle(field), isOpen: true };
}

/** A hierarchy; the facets that it is made of are shown as this tree only. */
function treeOf([name, { path, levels }]) {
  return {
    field: name,
    title: fieldTitle(name),
    fields: levels ?? [path],
    size: TREE_SIZE,
    opened: new Set(),
    isOpen: true,
  };
}

function facetOf(field, options, { kinds, items: itemCount }, items) {
  const seen = items.flatMap((item) => valueAt(item, field) ?? []);
  return {
    field,
    title: options.title && options.title !== field ? options.title : fieldTitle(field),
    position: options.position ?? Infinity,
    isConjunctive: options.conjunction !== false,
    size: options.size,
    isNumeric: kinds.length > 0 && kinds.every((kind) => NUMBER_KINDS.has(kind)),
    isWhole: !kinds.includes("float") && seen.every(isInteger),
    isDate: seen.length > 0 && seen.every(isIsoDate),
    isHistogram: false,
    isMultiple: items.some((item) => Array.isArray(valueAt(item, field))),
    items: itemCount,
    bins: [],
  };
}

function searchableFields(configuration, kinds) {
  const named = weightedFields(configuration).map(({ field }) => field);
  if (named.length > 0 && !named.includes("*")) return named;
  return [...kinds]
    .filter(([, fieldKinds]) => fieldKinds.includes("string"))
    .map(([field]) => field);
}

/** The searchable fields that the configuration names, with their weights. */
function weightedFields(configuration) {
  return (configuration.searchable_fields ?? []).map((entry) => {
    const [field, weight] = String(entry).split("^");
    return { field, weight: Number(weight ?? 1) };
  });
}

/**
 * What to head an item with: the heaviest searchable field if it is a short text, else a field
 * named like a title, else any short text, else the id. Of texts, a facet is the last choice: it
 * heads many items alike.
 */
function titleField(configuration, textFields, kinds, items) {
  const isShort = (field) =>
    items.every(
      (item) => typeof item[field] !== "string" || item[field].length <= TITLE_LENGTH_MAX,
    );
  const isPlain = (field) =>
    items.some((item) => typeof item[field] === "string") && isShort(field);
  const weighted = weightedFields(configuration);
  const most = Math.max(...weighted.map(({ weight }) => weight));
  const heaviest = weighted.filter(({ weight, field }) => weight === most && isPlain(field));
  const plain = textFields.filter((field) => field !== "id" && isPlain(field));
  const facets = configuration.aggregations ?? {};
  return (
    (most > 1 ? heaviest[0]?.field : undefined) ??
    TITLE_FIELDS.find((field) => kinds.get(field)?.includes("string")) ??
    plain.find((field) => !Object.hasOwn(facets, field)) ??
    plain[0] ??
    "id"
  );
}

/**
 * Finds the bins of the numeric and date facets, over the whole index, so that they stay put while
 * the user narrows the hits. Facets with few bins stay lists.
 *
 * The ends of a field come from sorted pages of one item: that needs the sort column only, not the
 * facet's dictionary, which for coordinates is as long as the index.
 */
export async function loadBins(index, facets, signal) {
  await Promise.all(
    facets
      .filter((facet) => !facet.isMultiple && facet.items > 0)
      .map(async (facet) => {
        if (facet.isNumeric) await loadNumberBins(index, facet, signal);
        else if (facet.isDate) await loadDateBins(index, facet, signal);
      }),
  );
  for (const facet of facets) {
    facet.canBeHistogram = facet.bins.length > 0;
    facet.isHistogram = facet.bins.length >= HISTOGRAM_BINS_MIN;
  }
}

/**
 * Finds the part of the world with all places: where the map opens. Each step counts the cells of a
 * finer grid, of which only those within the former view can have items.
 */
export async function loadBounds(index, places, signal) {
  for (let step = 0; places && step < BOUNDS_STEPS; step++) {
    const grid = gridOf(places.home);
    const facetRanges = { [places.field]: { grid } };
    const request = { per_page: 0, facet_fields: [], facet_ranges: facetRanges };
    const { answer } = await search(index, request, signal);
    const home = homeOf(boundsOf(answer.data.ranges[places.field]));
    if (!home) return;
    places.home = home;
    if (gridOf(home) <= grid) return;
  }
}

async function loadNumberBins(index, facet, signal) {
  const [min, max] = await Promise.all([
    valueInOrder(index, facet.field, { order: "asc" }, signal),
    valueInOrder(index, facet.field, { order: "desc" }, signal),
  ]);
  facet.isWhole &&= isInteger(min) && isInteger(max);
  const edge = (end) => (facet.isWhole || typeof end !== "bigint" ? end : Number(end));
  facet.bins = linearBins({ min: edge(min), max: edge(max), isWhole: facet.isWhole });
  if (facet.bins.length === 0) return;
  const request = { per_page: 0, facet_fields: [], facet_ranges: { [facet.field]: facet.bins } };
  const { answer } = await search(index, request, signal);
  const counts = answer.data.ranges[facet.field].map((range) => range.doc_count);
  facet.isLogarithmic = hasLongTail({ min, max }, counts);
  if (facet.isLogarithmic) facet.bins = logBins({ min, max });
}

/** Whether a value is an integer; those beyond 2^53 are BigInt. */
function isInteger(value) {
  return typeof value === "bigint" || Number.isInteger(value);
}

async function loadDateBins(index, facet, signal) {
  const filters = { [facet.field]: { gte: FIRST_DATE } };
  const [min, max] = await Promise.all([
    valueInOrder(index, facet.field, { order: "asc", filters }, signal),
    valueInOrder(index, facet.field, { order: "desc", filters }, signal),
  ]);
  facet.bins = dateBins(min, max);
}

async function valueInOrder(index, field, request, signal) {
  const { answer } = await search(
    index,
    { ...request, sort_field: field, per_page: 1, fields: [field], facet_fields: [] },
    signal,
  );
  return valueAt(answer.data.items[0] ?? {}, field);
}

/** The value at a field's name or dotted path. */
function valueAt(item, path) {
  return memberOf(item, path) ?? path.split(".").reduce(memberOf, item);
}

/** A member of an object; undefined for what every object inherits, such as `constructor`. */
export function memberOf(part, key) {
  return part && Object.hasOwn(part, key) ? part[key] : undefined;
}
