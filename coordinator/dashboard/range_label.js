/** A range as people say it. */

import { shiftDay } from "./bins.js";
import { plainNumber } from "./format.js";

/** {low: 1990, high: 2000} of a whole-number facet -> "1990 – 1999"; open ends are "from" and "up to". */
export function labelRange({ low, high }, facet) {
  const text = (value) => (typeof value === "number" ? plainNumber(value) : String(value));
  const isClosed = Boolean(facet?.isDate || facet?.isWhole);
  const last =
    high === null ? null : facet?.isDate ? shiftDay(high, -1) : facet?.isWhole ? high - 1 : high;
  if (high === null) return `from ${text(low)}`;
  if (low === null) return `${isClosed ? "up to" : "below"} ${text(last)}`;
  if (low === last) return text(low);
  return `${text(low)} – ${isClosed ? "" : "below "}${text(last)}`;
}
