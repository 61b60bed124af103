/**
 * Dates that do not begin with their year. Pure functions; the same rules as `facetd load`.
 *
 *     "31.12.2024", "1/3/2024"     dmy     day first       only where the user says so:
 *     "12/31/2024", "1/3/2024"     mdy     month first     becomes "2024-12-31", …
 *     "3 May 2021", "May 3, 2021"          named, stays text
 */

export const ORDERS = { dmy: "31.12.2024", mdy: "12/31/2024" };

const ORDERED = /^([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})$/;
const MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\\.?";
const NAMED = new RegExp(
  `^(?:[0-9]{1,2}\\.? ${MONTH} [0-9]{4}|${MONTH} [0-9]{1,2}, [0-9]{4})$`,
  "i",
);
const MONTH_LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether a (trimmed) cell looks like a date that does not begin with its year. */
export function isOtherDate(text) {
  return ORDERED.test(text) || NAMED.test(text);
}

/** A date as "2024-12-31", or null if a (trimmed) cell is not a date of this order. */
export function dateOf(text, order) {
  const found = ORDERED.exec(text);
  if (found === null) return null;
  const [, first, , second, year] = found;
  const [day, month] = order === "dmy" ? [first, second] : [second, first];
  if (Number(year) < 1 || Number(month) < 1 || Number(month) > 12) return null;
  if (Number(day) < 1 || Number(day) > daysIn(Number(year), Number(month))) return null;
  return `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;
}

function daysIn(year, month) {
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 && isLeap ? 29 : MONTH_LENGTHS[month - 1];
}
