/** What an index is made of, as the search page needs it: its facets, text fields and sort fields. */

import { dateBins, isIsoDate, numberBins } from "./bins.js";
import { effectiveConfiguration, indexStats, search } from "./api.js";
import { fieldTitle } from "./format.js";

const SAMPLE_SIZE = 30;
const TITLE_FIELDS = ["name", "title", "label", "headline", "subject"];
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
    sortFields: [...kinds.keys()].filter((field) => items.every((item) => !Array.isArray(item[field]))),
    titleField: titleField(textFields, kinds),
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
    isDate: seen.length > 0 && seen.every(isIsoDate),
    isHistogram: false,
    isMultiple: items.some((item) => Array.isArray(item[field])),
    bins: [],
  };
}

function searchableFields(configuration, kinds) {
  const named = (configuration.searchable_fields ?? []).map((field) => String(field).split("^")[0]);
  if (named.length > 0 && !named.includes("*")) return named;
  return [...kinds].filter(([, fieldKinds]) => fieldKinds.includes("string")).map(([field]) => field);
}

function titleField(textFields, kinds) {
  return TITLE_FIELDS.find((field) => kinds.get(field)?.includes("string")) ?? textFields.find((field) => field !== "id") ?? "id";
}

/**
 * Finds the bins of the numeric and date facets, over the whole index, so that they stay put while
 * the user narrows the hits. Facets with few distinct numbers stay lists.
 */
export async function loadBins(index, facets, signal) {
  const numeric = facets.filter((facet) => facet.isNumeric);
  const [numbers] = await Promise.all([
    numeric.length > 0 ? numberStats(index, numeric, signal) : {},
    ...facets.filter((facet) => facet.isDate && !facet.isMultiple).map((facet) => loadDateBins(index, facet, signal)),
  ]);
  for (const facet of numeric) facet.bins = numberBins(numbers[facet.field] ?? {});
  for (const facet of facets) {
    facet.isWhole = facet.isNumeric && facet.bins.every((bin) => Number.isInteger(bin.from) && Number.isInteger(bin.to));
    facet.canBeHistogram = facet.bins.length > 0 && !facet.isMultiple;
    facet.isHistogram = facet.canBeHistogram && facet.bins.length >= HISTOGRAM_BINS_MIN;
  }
}

async function numberStats(index, facets, signal) {
  const options = Object.fromEntries(facets.map((facet) => [facet.field, { stats: true, size: 1 }]));
  const { answer } = await search(
    index,
    { per_page: 0, facet_fields: facets.map((facet) => facet.field), facets: options },
    signal,
  );
  return Object.fromEntries(
    Object.entries(answer.data.aggregations).map(([field, facet]) => [field, facet.facet_stats ?? {}]),
  );
}

async function loadDateBins(index, facet, signal) {
  const end = async (order) => {
    const { answer } = await search(index, { per_page: 1, sort_field: facet.field, order, facet_fields: [] }, signal);
    return answer.data.items[0]?.[facet.field];
  };
  const [min, max] = await Promise.all([end("asc"), end("desc")]);
  facet.bins = dateBins(min, max);
}
