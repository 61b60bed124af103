/**
 * Dates in other notations than ISO's. Pure functions; the same rules as `facetd load`.
 *
 *     "31.12.2024", "1/3/2024"     dmy     day first       only where the user says so: becomes
 *     "12/31/2024", "1/3/2024"     mdy     month first     "2024-12-31", …; with a time
 *     "2024/12/31"                 ymd     year first      "2024-12-31T14:05", …
 *     "3 May 2021", "May 3, 2021"          named, stays text
 */

export const ORDERS = { dmy: "31.12.2024", mdy: "12/31/2024", ymd: "2024/12/31" };

const TIME =
  "(?:(?:,? |[Tt])([0-9]{1,2}):([0-9]{2})(:[0-9]{2})?(?: ?([AaPp])\\.?[Mm]\\.?)?)?";
const YEAR_LAST = new RegExp(`^([0-9]{1,2})([./-])([0-9]{1,2})\\2([0-9]{4})${TIME}$`);
const YEAR_FIRST = new RegExp(`^([0-9]{4})([./-])([0-9]{1,2})\\2([0-9]{1,2})${TIME}$`);
/** Or what is to be one: not "2024-12-31, 14:05" nor "2024-12-31 2:05 PM". */
const ISO = /^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[^,]*[0-9])?$/;
const MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\\.?";
const NAMED = new RegExp(
  `^(?:[0-9]{1,2}\\.? ${MONTH} [0-9]{4}|${MONTH} [0-9]{1,2}, [0-9]{4})$`,
  "i",
);
const MONTH_LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** By order, the groups of year, month and day. */
const PLACES = { dmy: [4, 3, 1], mdy: [4, 1, 3], ymd: [1, 3, 4] };

/** Whether a (trimmed) cell looks like a date, or date and time, in another notation than ISO's. */
export function isOtherDate(text) {
  if (YEAR_LAST.test(text) || NAMED.test(text)) return true;
  return YEAR_FIRST.test(text) && !ISO.test(text);
}

/** A date as "2024-12-31", or "2024-12-31T14:05"; null if a (trimmed) cell is none of this order. */
export function dateOf(text, order) {
  const found = (order === "ymd" ? YEAR_FIRST : YEAR_LAST).exec(text);
  if (found === null) return null;
  const [year, month, day] = PLACES[order].map((place) => found[place]);
  if (Number(year) < 1 || Number(month) < 1 || Number(month) > 12) return null;
  if (Number(day) < 1 || Number(day) > daysIn(Number(year), Number(month))) return null;
  const date = `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;
  if (found[5] === undefined) return date;
  const time = timeOf(Number(found[5]), found[6], found[7] ?? "", found[8]?.toLowerCase());
  return time === null ? null : `${date}T${time}`;
}

/** The same of a column that the user reads by an order: a year in front is plain. */
export function chosenDateOf(text, order) {
  return dateOf(text, order) ?? dateOf(text, "ymd");
}

/** "14:05" or "14:05:30"; `half` is "a" or "p" for the half of the day, if there is one. */
function timeOf(hour, minute, seconds, half) {
  if (half && (hour < 1 || hour > 12)) return null;
  const ofDay = half ? (hour % 12) + (half === "p" ? 12 : 0) : hour;
  if (ofDay > 23 || minute > "59" || seconds > ":59") return null;
  return `${String(ofDay).padStart(2, "0")}:${minute}${seconds}`;
}

function daysIn(year, month) {
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 && isLeap ? 29 : MONTH_LENGTHS[month - 1];
}
