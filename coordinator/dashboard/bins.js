/** The bins of a histogram: half-open intervals with round edges. Pure functions. */

const BINS_MAX = 40;
const DAY_MS = 86_400_000;
const ISO_DATE = /^-?\d{4}-\d{2}-\d{2}([T ].*)?$/;
/** Sorts behind all dates of four-digit years: the edge that would be the first day of 10000. */
const END_OF_DATES = "9999-12-31T24";
/** Edges within a decade; six a decade look even on a logarithmic axis. */
const LOG_STEPS = [1, 1.5, 2, 3, 5, 7];
const LOG_FROM = 100;
const CALENDAR_STEPS = [
  { unit: "day", count: 1, days: 1 },
  { unit: "day", count: 7, days: 7 },
  { unit: "month", count: 1, days: 30.4 },
  { unit: "month", count: 3, days: 91.3 },
  { unit: "year", count: 1, days: 365.25 },
  { unit: "year", count: 2, days: 730.5 },
  { unit: "year", count: 5, days: 1826 },
  { unit: "year", count: 10, days: 3652 },
  { unit: "year", count: 25, days: 9131 },
  { unit: "year", count: 50, days: 18262 },
  { unit: "year", count: 100, days: 36525 },
];

export function isIsoDate(value) {
  return typeof value === "string" && ISO_DATE.test(value);
}

/**
 * Bins of equal width for numbers between min and max; `isWhole` keeps integers' edges whole. Edges
 * are BigInt if min or max is: such integers are not exact as numbers.
 */
export function linearBins({ min, max, isWhole }) {
  if (typeof min === "bigint" || typeof max === "bigint")
    return pair(bigEdges(BigInt(min), BigInt(max)));
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [];
  if (min === max) return pair([min, isWhole ? min + 1 : min + Math.abs(min || 1)]);
  return pair(linearEdges(min, max, isWhole));
}

/** Bins of about equal ratio, for numbers from 0 that have a long tail. */
export function logBins({ min, max }) {
  return pair(logEdges(min, max));
}

/** Whether a log axis would show more: it can be one, and half of the items stand at its foot. */
export function hasLongTail({ min, max }, counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return min >= 0 && max >= LOG_FROM && counts.length > 2 && counts[0] + counts[1] > total / 2;
}

function linearEdges(min, max, isWhole) {
  const rough = (max - min) / BINS_MAX;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10]
    .map((factor) => factor * magnitude)
    .find((candidate) => candidate >= rough * 0.999);
  if (isWhole) step = Math.max(1, Math.round(step));
  const first = Math.floor(min / step);
  const last = Math.floor(max / step) + 1;
  return Array.from({ length: last - first + 1 }, (_, position) => {
    const edge = (first + position) * step;
    return isWhole ? edge : tidy(edge);
  });
}

function bigEdges(min, max) {
  if (min === max) return [min, min + 1n];
  const rough = (max - min - 1n) / BigInt(BINS_MAX) + 1n;
  const magnitude = 10n ** BigInt(String(rough).length - 1);
  const step = [1n, 2n, 5n, 10n].map((factor) => factor * magnitude).find((one) => one >= rough);
  const edges = [min - (((min % step) + step) % step)];
  while (edges.at(-1) <= max) edges.push(edges.at(-1) + step);
  return edges;
}

function logEdges(min, max) {
  const edges = min < 1 ? [0] : [];
  for (let decade = 0; edges.length === 0 || edges.at(-1) <= max; decade += 1) {
    for (const step of LOG_STEPS) {
      const edge = step * 10 ** decade;
      if (!Number.isInteger(edge)) continue;
      if (edge <= min) edges.length = 0;
      edges.push(edge);
      if (edge > max) break;
    }
  }
  return edges;
}

/** 0.30000000000000004 -> 0.3. */
function tidy(number) {
  return Number(number.toPrecision(12));
}

/** Bins for ISO dates, whose order as text is their order in time. */
export function dateBins(min, max) {
  const first = parseDate(min);
  const last = parseDate(max);
  if (!first || !last) return [];
  const days = (last - first) / DAY_MS + 1;
  const step =
    CALENDAR_STEPS.find((candidate) => days / candidate.days <= BINS_MAX) ?? CALENDAR_STEPS.at(-1);
  const edges = [floorDate(first, step)];
  while (edges.at(-1) <= last) edges.push(nextDate(edges.at(-1), step));
  return pair(edges.map(isoDay));
}

function parseDate(text) {
  if (text === END_OF_DATES) return utcDate(10_000, 0, 1);
  const date = new Date(`${String(text).slice(0, 10)}T00:00:00Z`);
  return Number.isNaN(date.getTime()) ? null : date;
}

function utcDate(year, month, day) {
  const date = new Date(0);
  date.setUTCFullYear(year, month, day);
  return date;
}

function floorDate(date, { unit, count }) {
  const year = date.getUTCFullYear();
  if (unit === "year") return utcDate(Math.floor(year / count) * count, 0, 1);
  if (unit === "month") return utcDate(year, Math.floor(date.getUTCMonth() / count) * count, 1);
  return utcDate(year, date.getUTCMonth(), date.getUTCDate());
}

function nextDate(date, { unit, count }) {
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (unit === "year") return utcDate(year + count, 0, 1);
  if (unit === "month") return utcDate(year, month + count, 1);
  return utcDate(year, month, day + count);
}

function isoDay(date) {
  if (date.getUTCFullYear() > 9999) return END_OF_DATES;
  return date.toISOString().slice(0, 10);
}

/** An integer moved by a whole number. */
export function shiftWhole(number, by) {
  return typeof number === "bigint" ? number + BigInt(by) : number + by;
}

/** The day after (or, with -1, before) an ISO day. */
export function shiftDay(day, by) {
  const date = parseDate(day);
  return date ? isoDay(new Date(date.getTime() + by * DAY_MS)) : day;
}

function pair(edges) {
  return edges.slice(1).map((to, position) => ({ from: edges[position], to }));
}
