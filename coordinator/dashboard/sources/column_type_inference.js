/**
 * Kinds of cells: the type of a column's texts. Pure functions; the same rules as `facetd load`.
 *
 *     "1", "-7", "12"          integer     not "007": a leading zero means a code
 *     "1.5", "2e3", "7"        number
 *     "true", "False"          boolean     where the user says so, also "yes", "N", "1"
 *     '["a","b"]', '{"x":1}'   json        in every cell
 *     "1,5", "1.299,00"        number 1,5  decimal commas: only where the user says so
 *     "1,299.00", "1'299"      number 1,299.5  in groups, also by spaces: only where the user says so
 *     "€10.00", "10,00 €"      the same two: only where the user says so
 *     "9007199254740993", "1.5" text       whole numbers that a double would round, beside others
 *     "31.12.2024"             dmy, mdy, ymd   dates (see dates.js): only where the user says so
 *     anything else            text        the kind of a column holds for all of its cells
 *     "NA", "NULL", "-"        text        also beside numbers, unless the user says they are empty
 *     "on request"             text        the same, if few of many cells have no digit
 */

import { ORDERS, chosenDateOf, dateOf, isOtherDate } from "./dates.js";
import { ListSeparator } from "./list_separator.js";
import { amountOf } from "./prices.js";

export const COMMA_NUMBER = "number 1,5";
export const GROUPED_NUMBER = "number 1,299.5";
export const KINDS = [
  ...["text", "integer", "number", COMMA_NUMBER, GROUPED_NUMBER, "boolean", "json"],
  ...Object.keys(ORDERS),
];

/** What programs write for no value. It is text, unless the user says that it is empty. */
const NULL_TEXTS = new Set(
  ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "\\N", "None", "-"],
);

/** Distinct texts without a digit that, beside numbers or dates, may stand for no value. */
const ODD_TEXTS_MAX = 3;
/** Share of the cells that may have one of them. */
const ODD_SHARE_MAX = 0.1;

const INTEGER = /^-?(0|[1-9][0-9]{0,19})$/;
const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;
const COMMA_NUMBERS =
  /^-?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?$/;
/** "1,234" is more likely an integer in groups than a fraction. */
const COMMA_GROUPS = /^-?[1-9][0-9]{0,2}(,[0-9]{3})+$/;
const GROUPED = /^-?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?$/;
/** Numbers in groups that spaces or apostrophes divide: French, Polish, Swedish, Swiss ones. */
const MARKED = /^-?[1-9][0-9]{0,2}([ \u00a0\u2009\u202f'\u2019])[0-9]{3}(?:\1[0-9]{3})*([.,][0-9]+)?$/;
const WHOLE = /^-?[0-9]{16,}$/;
const SAFE_DIGITS = 15;
const INTEGER_MIN = -(2n ** 63n);
const INTEGER_MAX = 2n ** 64n - 1n;
const ID_MAX = 2n ** 63n - 1n;

function isBetween(text, least, greatest) {
  if (!INTEGER.test(text)) return false;
  if (text.length <= SAFE_DIGITS) return Number(text) >= Number(least);
  const integer = BigInt(text);
  return integer >= least && integer <= greatest;
}

/** "1 299,00" or "1'299,00" -> "1299,00"; any other text as it is. */
function withoutMarks(text) {
  const found = MARKED.exec(text);
  return found === null ? text : text.replaceAll(found[1], "");
}

/** Whether a number has groups of three; "110 001" may as well be a code, a town in India. */
function hasGroups(text) {
  const found = MARKED.exec(text);
  return text.includes(",") || (found !== null && (found[1] !== " " || Boolean(found[2])));
}

/** "1.299,00 €" -> "1299.00". */
function withPoint(text) {
  return withoutMarks(amountOf(text.trim())[1]).replaceAll(".", "").replace(",", ".");
}

/** "€1,299.00" -> "1299.00". */
function withoutGroups(text) {
  return withoutMarks(amountOf(text.trim())[1]).replaceAll(",", "");
}

/** Whether a number is whole, and a double would change its digits. */
function isRounded(text) {
  return WHOLE.test(text) && Number.isFinite(Number(text)) && BigInt(Number(text)) !== BigInt(text);
}

function isCommaNumber(text) {
  return COMMA_NUMBERS.test(withoutMarks(text)) && Number.isFinite(Number(withPoint(text)));
}

function isGroupedNumber(text) {
  const plain = withoutMarks(text);
  return (
    CHECKS.number(plain) || (GROUPED.test(plain) && Number.isFinite(Number(withoutGroups(plain))))
  );
}

const BOOLEAN = /^(true|false)$/i;
/** The texts of a column that the user reads as booleans, in lower case: true and false in turn. */
export const TRUTHS = ["true", "false", "yes", "no", "y", "n", "t", "f", "1", "0"];

/** Whether a (trimmed) cell is of a kind that the user has chosen. */
export const CHECKS = {
  integer: (text) => isBetween(text, INTEGER_MIN, INTEGER_MAX),
  number: (text) => NUMBER.test(text) && Number.isFinite(Number(text)),
  [COMMA_NUMBER]: (text) => isCommaNumber(amountOf(text)[1]),
  [GROUPED_NUMBER]: (text) => isGroupedNumber(amountOf(text)[1]),
  boolean: (text) => TRUTHS.includes(text.toLowerCase()),
  json: isJson,
  ...ofOrders((order) => (text) => chosenDateOf(text, order) !== null),
  text: () => true,
};

/** By each order of dates, what `make` makes of it. */
function ofOrders(make) {
  return Object.fromEntries(Object.keys(ORDERS).map((order) => [order, make(order)]));
}

/** Whether a (trimmed) cell is of a kind that is found without the user; narrowest first. */
const FOUND = {
  integer: CHECKS.integer,
  number: CHECKS.number,
  boolean: (text) => BOOLEAN.test(text),
  json: isJson,
};
const INSPECTED = Object.keys(FOUND);

function isJson(text) {
  if (text[0] !== "[" && text[0] !== "{") return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Finds the kind of one column, cell by cell. */
export class ColumnKind {
  filled = 0;
  example = "";
  canBeId = true;
  /** Whether all cells look like dates in other notations than ISO's. */
  hasOtherDates = false;
  /** Those of `ORDERS` that fit all cells. */
  dateOrders = [];
  #lists = new ListSeparator();
  #greatest = 0;
  #canHaveCommas = true;
  #hasComma = false;
  #hasPoint = false;
  #canHaveGroups = true;
  #hasGroups = false;
  #rounded = "";
  #currency = "";
  /** The kinds by which all cells are amounts of one currency. */
  #priceKinds = [];
  #possible = INSPECTED;
  #nulls = new Set();
  #numNulls = 0;
  /** How often texts without a digit are cells, as long as they are few; else null. */
  #odd = new Map();

  add(cell) {
    const text = cell.trim();
    if (!text) return;
    if (NULL_TEXTS.has(text)) this.#addNull(text);
    else if (this.#odd === null || /[0-9]/.test(text)) this.#addText(text);
    else if (this.#odd.has(text) || this.#odd.size < ODD_TEXTS_MAX) {
      this.example ||= text;
      this.#odd.set(text, (this.#odd.get(text) ?? 0) + 1);
    } else {
      this.#addOdd((odd) => this.#addText(odd));
      this.#addText(text);
    }
  }

  /** Decides, after the last cell, what those without a digit are. */
  #finish() {
    const odd = [...(this.#odd ?? [])];
    const numOdd = odd.reduce((sum, [, number]) => sum + number, 0);
    const areFew = numOdd <= ODD_SHARE_MAX * (this.filled - this.#numNulls + numOdd);
    const fits = odd.some(([text]) => this.#possible.some((kind) => FOUND[kind](text)));
    const areNulls = areFew && this.#hasForm && !fits;
    this.#addOdd((text) => (areNulls ? this.#addNull(text) : this.#addText(text)));
  }

  #addOdd(add) {
    const odd = this.#odd ?? [];
    this.#odd = null;
    for (const [text, number] of odd) for (let n = 0; n < number; n += 1) add(text);
  }

  #addText(text) {
    if (this.filled === this.#numNulls) {
      this.example ||= text;
      this.hasOtherDates = true;
      this.dateOrders = Object.keys(ORDERS);
      this.#currency = amountOf(text)[0];
      this.#priceKinds = this.#currency ? [GROUPED_NUMBER, COMMA_NUMBER] : [];
    }
    this.filled += 1;
    this.#lists.add(text);
    if (this.hasOtherDates) {
      this.hasOtherDates = isOtherDate(text);
      this.dateOrders = this.dateOrders.filter((order) => dateOf(text, order) !== null);
    }
    if (this.#possible.length > 0)
      this.#possible = this.#possible.filter((kind) => FOUND[kind](text));
    if (this.#priceKinds.length > 0) {
      const isSame = amountOf(text)[0] === this.#currency;
      this.#priceKinds = this.#priceKinds.filter((kind) => isSame && CHECKS[kind](text));
    }
    if (this.#isNumeric && this.#rounded === "" && isRounded(text)) this.#rounded = text;
    if (this.#isNumeric) this.#greatest = Math.max(this.#greatest, Math.abs(Number(text)));
    this.canBeId &&= isBetween(text, 0n, ID_MAX);
    this.#canHaveCommas &&= isCommaNumber(text);
    this.#hasComma ||= text.includes(",") && !COMMA_GROUPS.test(text);
    this.#hasPoint ||= text.includes(".");
    this.#canHaveGroups &&= isGroupedNumber(text) && !isRounded(withoutGroups(text));
    this.#hasGroups ||= hasGroups(text);
  }

  #addNull(text) {
    this.example ||= text;
    this.canBeId = false;
    this.filled += 1;
    this.#numNulls += 1;
    this.#nulls.add(text);
  }

  /** Texts such as NA by which the column is text, though the other cells are not; or none. */
  get nullTexts() {
    return this.#hasForm ? [...this.#nulls] : [];
  }

  /** Whether the cells that stand for a value are not mere texts. */
  get #hasForm() {
    const forms = [this.#possible.length > 0, this.hasCommas, this.hasGroups, this.price];
    return this.filled > this.#numNulls && (forms.some(Boolean) || this.hasOtherDates);
  }

  /** Whether all cells are numbers if commas are decimal commas, and only then. */
  get hasCommas() {
    return this.#canHaveCommas && this.#hasComma;
  }

  /** Whether all cells are numbers by decimal commas, too, and some in groups such as 1.200. */
  get hasPointGroups() {
    return this.#canHaveCommas && this.#hasPoint;
  }

  /** Whether all cells are numbers, some of them in groups of three. */
  get hasGroups() {
    return this.#canHaveGroups && this.#hasGroups;
  }

  /** A whole number that a double would change, if all cells are numbers; else "". */
  get roundedExample() {
    return this.#isNumeric && this.#possible[0] === "number" ? this.#rounded : "";
  }

  /** `{currency, kind}` that reads all cells as amounts of one currency, or null. */
  get price() {
    const [kind] = this.#priceKinds;
    return kind ? { currency: this.#currency, kind } : null;
  }

  /** The greatest absolute value of a column of numbers; null for any other. */
  get greatest() {
    return this.#isNumeric && this.kind !== "text" ? this.#greatest : null;
  }

  /** All that was found, as one object; asked for once, after the last cell. */
  get result() {
    this.#finish();
    const { kind, filled, example, canBeId, greatest, nullTexts } = this;
    const separator = kind === "text" ? this.#lists.found : "";
    const found = { kind, filled, example, canBeId, separator, greatest, nullTexts };
    const { hasCommas, hasPointGroups, hasGroups, hasOtherDates, dateOrders } = this;
    const { roundedExample, price } = this;
    const numbers = { hasCommas, hasPointGroups, hasGroups, roundedExample, price };
    const forms = { ...numbers, hasOtherDates, dateOrders };
    return this.#numNulls > 0 ? found : { ...found, ...forms };
  }

  get #isNumeric() {
    return this.filled > 0 && this.#possible.includes("number");
  }

  /** The narrowest kind that fits all cells, and keeps their digits. */
  get kind() {
    if (this.filled === 0 || this.#numNulls > 0 || this.roundedExample) return "text";
    return this.#possible[0] ?? "text";
  }
}

/** By kind: a cell that is not empty -> the JSON text of its value; digits stay as they are. */
export const WRITERS = {
  text: (cell) => JSON.stringify(cell),
  integer: (cell) => (cell.trim() === "-0" ? "0" : cell.trim()),
  number: (cell) => (INTEGER.test(cell.trim()) ? `${cell.trim()}.0` : cell.trim()),
  [COMMA_NUMBER]: (cell) => WRITERS.number(withPoint(cell)),
  [GROUPED_NUMBER]: (cell) => WRITERS.number(withoutGroups(cell)),
  boolean: (cell) => String(TRUTHS.indexOf(cell.trim().toLowerCase()) % 2 === 0),
  ...ofOrders((order) => (cell) => JSON.stringify(chosenDateOf(cell.trim(), order))),
  json: (cell) => cell.trim().replaceAll(/[\r\n]+/g, " "),
};

/** The writer of a column of lists: `a|b` -> ["a","b"]. */
export function listWriter(separator) {
  return (cell) => {
    const parts = cell.split(separator).map((part) => part.trim());
    return JSON.stringify(parts.filter(Boolean));
  };
}
