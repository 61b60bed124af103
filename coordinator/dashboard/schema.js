/** What an index is made of, as the search page needs it: its facets, text fields and sort fields. */

import { dateBins, hasLongTail, isIsoDate, numberBins } from "./bins.js";
import { effectiveConfiguration, indexStats, search } from "./api.js";
import { fieldTitle } from "./format.js";

const SAMPLE_SIZE = 30;
const TITLE_FIELDS = ["name", "title", "label", "headline", "subject"];
const TITLE_LENGTH_MAX = 120;
/** Dates before our era do not sort as text; they are left to the list. */
const FIRST_DATE = "0000-01-01";
/** Fewer distinct numbers than this are better read as a list. */
const HISTOGRAM_BINS_MIN = 3;

/** Reads configuration, fields and a sample of items: {facets, textFields, sortFields, titleField}. */
export async function loadSchema(index, signal) {
  const [configuration, stats, sample] = await Promise.all([
    effectiveConfiguration(index, signal),
    indexStats(index, signal),
    search(index, { per_page: SAMPLE_SIZE, facet_fields: [] }, signal),
  ]);
  const kinds = new Map(stats.fields.map((field) => [field.name, field.kinds]));
  const items = sample.answer.data.items;
  const facets = Object.entries(configuration.aggregations ?? {})
    .map(([field, options]) => facetOf(field, options ?? {}, kinds.get(field) ?? [], items))
    .sort((one, other) => one.position - other.position || one.title.localeCompare(other.title));
  const textFields = searchableFields(configuration, kinds);
  return {
    items: stats.items,
    facets,
    textFields,
    sortFields: [...kinds.keys()].filter((field) =>
      items.every((item) => !Array.isArray(item[field])),
    ),
    titleField: titleField(textFields, kinds, items),
  };
}

function facetOf(field, options, kinds, items) {
  const seen = items.flatMap((item) => item[field] ?? []);
  return {
    field,
    title: options.title && options.title !== field ? options.title : fieldTitle(field),
    position: options.position ?? Infinity,
    isConjunctive: options.conjunction !== false,
    size: options.size,
    isNumeric: kinds.length === 1 && kinds[0] === "number",
    isWhole: seen.every((value) => Number.isInteger(value)),
    isDate: seen.length > 0 && seen.every(isIsoDate),
    isHistogram: false,
    isMultiple: items.some((item) => Array.isArray(item[field])),
    bins: [],
  };
}

function searchableFields(configuration, kinds) {
  const named = (configuration.searchable_fields ?? []).map((field) => String(field).split("^")[0]);
  if (named.length > 0 && !named.includes("*")) return named;
  return [...kinds]
    .filter(([, fieldKinds]) => fieldKinds.includes("string"))
    .map(([field]) => field);
}

/** What to head an item with: a field named like a title, else a short text, else the id. */
function titleField(textFields, kinds, items) {
  const isShort = (field) =>
    items.every(
      (item) => typeof item[field] !== "string" || item[field].length <= TITLE_LENGTH_MAX,
    );
  const isPlain = (field) =>
    items.some((item) => typeof item[field] === "string") && isShort(field);
  return (
    TITLE_FIELDS.find((field) => kinds.get(field)?.includes("string")) ??
    textFields.find((field) => field !== "id" && isPlain(field)) ??
    "id"
  );
}

/**
 * Finds the bins of the numeric and date facets, over the whole index, so that they stay put while
 * the user narrows the hits. Facets with few distinct numbers stay lists.
 */
export async function loadBins(index, facets, signal) {
  const numeric = facets.filter((facet) => facet.isNumeric);
  const [numbers] = await Promise.all([
    numeric.length > 0 ? numberStats(index, numeric, signal) : {},
    ...facets
      .filter((facet) => facet.isDate && !facet.isMultiple)
      .map((facet) => loadDateBins(index, facet, signal)),
  ]);
  for (const facet of numeric) {
    const stats = numbers[facet.field] ?? {};
    facet.isWhole &&= [stats.min, stats.max, stats.sum].every(Number.isInteger);
    facet.bins = numberBins({ ...stats, isWhole: facet.isWhole });
    facet.isLogarithmic = hasLongTail(stats);
  }
  for (const facet of facets) {
    facet.canBeHistogram = facet.bins.length > 0 && !facet.isMultiple;
    facet.isHistogram = facet.canBeHistogram && facet.bins.length >= HISTOGRAM_BINS_MIN;
  }
}

async function numberStats(index, facets, signal) {
  const options = Object.fromEntries(
    facets.map((facet) => [facet.field, { stats: true, size: 1 }]),
  );
  const { answer } = await search(
    index,
    { per_page: 0, facet_fields: facets.map((facet) => facet.field), facets: options },
    signal,
  );
  return Object.fromEntries(
    Object.entries(answer.data.aggregations).map(([field, facet]) => [
      field,
      facet.facet_stats ?? {},
    ]),
  );
}

async function loadDateBins(index, facet, signal) {
  const end = async (order) => {
    const filters = { [facet.field]: { gte: FIRST_DATE } };
    const { answer } = await search(
      index,
      { per_page: 1, filters, sort_field: facet.field, order, facet_fields: [] },
      signal,
    );
    return answer.data.items[0]?.[facet.field];
  };
  const [min, max] = await Promise.all([end("asc"), end("desc")]);
  facet.bins = dateBins(min, max);
}
