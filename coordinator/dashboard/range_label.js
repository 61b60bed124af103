/** A range as people say it. */

import { shiftDay, shiftWhole } from "./bins.js";
import { plainNumber } from "./format.js";

/** {low: 1990, high: 2000} of a whole-number facet -> "1990 – 1999"; open ends are "from" and "up to". */
export function labelRange({ low, high }, facet) {
  const text = (value) => (typeof value === "string" ? value : plainNumber(value));
  const isClosed = Boolean(facet?.isDate || facet?.isWhole);
  let last = high;
  if (high !== null && facet?.isDate) last = shiftDay(high, -1);
  else if (high !== null && facet?.isWhole) last = shiftWhole(high, -1);
  if (high === null) return `from ${text(low)}`;
  if (low === null) return `${isClosed ? "up to" : "below"} ${text(last)}`;
  if (String(low) === String(last)) return text(low);
  return `${text(low)} – ${isClosed ? "" : "below "}${text(last)}`;
}
