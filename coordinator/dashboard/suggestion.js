/** A first configuration for a file, guessed from its beginning. */

import { isIsoDate } from "./bins.js";

const SAMPLE_BYTES = 512 * 1024;
const SAMPLE_ITEMS = 400;
const FACETS_MAX = 12;
const VALUE_LENGTH_MAX = 40;
const DISTINCT_SHARE_MAX = 0.5;
const TITLES = ["name", "title", "label", "headline"];

/** Reads the first items of a file (plain or gzip) and proposes facets and searchable fields. */
export async function suggestConfiguration(file) {
  return configurationFor(sampleItems(await beginningOf(file)));
}

/** "film list.ndjson.gz" -> "film-list". */
export function suggestName(file) {
  const stem = file.name.replace(/\.(gz|json|ndjson|jsonl|txt)/g, "");
  return stem
    .trim()
    .replaceAll(/[\s/]+/g, "-")
    .replace(/^[_.]+/, "")
    .slice(0, 64);
}

async function beginningOf(file) {
  const head = file.slice(0, SAMPLE_BYTES);
  if (!file.name.endsWith(".gz")) return head.text();
  const decoder = new TextDecoder();
  let text = "";
  try {
    const reader = head.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    for (
      let chunk = await reader.read();
      !chunk.done && text.length < SAMPLE_BYTES;
      chunk = await reader.read()
    ) {
      text += decoder.decode(chunk.value, { stream: true });
    }
  } catch {
    // The slice ends in the middle of the stream: what was read up to there is enough.
  }
  return text;
}

function sampleItems(text) {
  if (text.trimStart().startsWith("["))
    text = text
      .trimStart()
      .slice(1)
      .replaceAll(/\}\s*,\s*\{/g, "}\n{");
  const items = [];
  for (const line of text.split("\n")) {
    if (items.length >= SAMPLE_ITEMS) break;
    try {
      const item = JSON.parse(line.trim().replace(/,$/, ""));
      if (item && typeof item === "object" && !Array.isArray(item)) items.push(item);
    } catch {
      // A broken or cut-off line says nothing about the fields; the load will report it.
    }
  }
  return items;
}

/** Pure: sample items -> configuration. */
export function configurationFor(items) {
  const aggregations = {};
  const textFields = [];
  const fields = new Set(items.flatMap((item) => Object.keys(item)));
  for (const field of fields) {
    const values = items.flatMap((item) => item[field] ?? []);
    if (field === "id" || values.length === 0 || values.some((value) => typeof value === "object"))
      continue;
    const isText = values.some((value) => typeof value === "string") && !values.every(isIsoDate);
    if (isFacet(values) && Object.keys(aggregations).length < FACETS_MAX) aggregations[field] = {};
    else if (isText) textFields.push(TITLES.includes(field) ? `${field}^3` : field);
  }
  return {
    aggregations,
    ...(textFields.some((field) => field.includes("^")) ? { searchable_fields: textFields } : {}),
  };
}

function isFacet(values) {
  if (values.every((value) => typeof value !== "string") || values.every(isIsoDate)) return true;
  const length = values.reduce((sum, value) => sum + String(value).length, 0) / values.length;
  return (
    length <= VALUE_LENGTH_MAX &&
    new Set(values).size <= Math.max(2, values.length * DISTINCT_SHARE_MAX)
  );
}
