/**
 * CSV and TSV, read twice as by `facetd load`: first to find the kinds of the columns, then to make
 * items of the rows.
 *
 *     id;name;tags                        {"id":1,"name":"Sea","tags":["a","b"]}
 *     1;Sea;a|b            ─────────▶
 *     2;"Land; dry";                      {"id":2,"name":"Land; dry"}
 */

import { plural } from "../format.js";
import { CHECKS, ColumnKind, KINDS, TRUTHS, WRITERS, listWriter } from "./column_type_inference.js";
import { ORDERS } from "./dates.js";
import { FIELD, findDegrees, placeOf } from "./places.js";
import { amountOf } from "./prices.js";
import { RowReader, SourceError, findDelimiter, shownDelimiter } from "./rows.js";

/** Name of a first column that has none: the one in which pandas and R number the rows. */
const ROW_FIELD = "row";
const BAD_SHOWN = 200;
const PART_CHARS = 2 * 1024 * 1024;
const SEPARATORS = ["|", ";", ","];

const LABELS = Object.fromEntries(
  Object.entries(ORDERS).map(([order, example]) => [order, `date ${example}`]),
);

/** What a column may be read as: [value, label]. */
export const COLUMN_KINDS = [
  ...KINDS.map((kind) => [kind, LABELS[kind] ?? kind]),
  ...SEPARATORS.map((separator) => [`list ${separator}`, `list a${separator}b`]),
];

/** A file of delimited cells, inspected: its columns, and the rows that cannot become items. */
export class Table {
  /** {name, kind, filled, …}: a name and what `ColumnKind` finds; `kind` may be set by the user. */
  columns = [];
  /** Place in `columns` of the column that holds the ids, or -1; may be set by the user. */
  idColumn = -1;
  numRows = 0;
  /** Places in `columns` of a latitude and a longitude, where there are such; else null. */
  degrees = null;
  /** Whether the items get a geo point of them; may be set by the user. */
  makesPlaces = false;
  /** Whether the header seems to be a row. */
  seemsHeadless = false;
  /** Whether any row has as many cells as the header. */
  someFit = false;
  /** Names of columns that were numbered, because others before have the same. */
  numberedNames = [];
  /** Cells of a row, with those of columns that have no name, and the places of those that have one. */
  #width = 0;
  #named = [];
  #texts;
  #delimiter;
  #hasHeader;
  #hasQuotes;
  #nulls;

  /**
   * `texts()` yields the text of the file in pieces, from the start at each call. Without a header
   * the columns are numbered; without quotes, these are text like any other character; `nulls` are
   * the texts of cells that are read as empty.
   */
  constructor(
    texts,
    start,
    { isTabbed, isWhole, hasHeader = true, hasQuotes = true, nulls = [] },
  ) {
    this.#texts = texts;
    this.#hasHeader = hasHeader;
    this.#hasQuotes = hasQuotes;
    this.#nulls = new Set(nulls);
    this.#delimiter = isTabbed ? "\t" : findDelimiter(start, isWhole, hasQuotes);
  }

  /** The names of those two columns, or null. */
  get degreeNames() {
    return this.degrees?.map((place) => this.columns[place].name) ?? null;
  }

  /**
   * Reads the whole file.
   * @throws {SourceError} it is broken, has no rows, or its header does not name the columns
   *   (`isHeader`)
   */
  async inspect() {
    let found = null;
    for await (const rows of this.#rows()) {
      for (const { line, cells } of rows) {
        if (found === null) {
          const names = this.#hasHeader ? headerOf(cells) : cells.map(numbered);
          this.#width = names.length;
          this.#named = [...names.keys()].filter((place) => names[place] !== "");
          this.columns = this.#named.map((place) => ({ name: names[place] }));
          found = this.columns.map(() => new ColumnKind());
          if (this.#hasHeader) {
            const header = cells.map((cell) => cell.trim());
            this.numberedNames = names.filter((name, place) => header[place] && name !== header[place]);
            continue;
          }
        }
        this.numRows += 1;
        const whole = this.#cellsOf(cells);
        if (whole.length !== this.#width) continue;
        this.someFit = true;
        const row = this.#namedOf(whole);
        for (let place = 0; place < found.length; place += 1) found[place].add(row[place]);
      }
    }
    if (found === null)
      throw new SourceError(
        `The file is empty; ${this.#hasHeader ? "its first line must name the columns" : "it has no row"}.`,
      );
    if (this.numRows === 0)
      throw new SourceError(
        `The file names ${plural(found.length, "column")} but has no rows: there is nothing to load.`,
      );
    this.columns = this.columns.map(({ name }, place) => ({ name, ...found[place].result }));
    this.seemsHeadless = this.#hasHeader && isLikeARow(this.columns);
    this.degrees = findDegrees(this.columns);
    const named = this.columns.filter(({ name }) => name.toLowerCase() === "id");
    if (named.length === 1) this.idColumn = this.columns.indexOf(named[0]);
  }

  /**
   * Makes items, one per line: {blob, lines, numBad, bad}. `lines[n]` is the line of the file that
   * the n-th item came from; `bad` lists the first rows that cannot become items.
   */
  async convert() {
    const parts = [];
    const lines = [];
    const bad = [];
    let numBad = 0;
    let part = "";
    let isHeader = this.#hasHeader;
    const currencies = new Map();
    const writers = this.#writers();
    for await (const rows of this.#rows()) {
      for (const { line, cells: all } of rows) {
        if (isHeader) {
          isHeader = false;
          continue;
        }
        const whole = this.#cellsOf(all);
        const isWhole = whole.length === this.#width;
        const cells = isWhole ? this.#namedOf(whole) : [];
        const message = isWhole
          ? this.#faultOf(cells, currencies)
          : this.#wrongWidth(whole.length);
        if (message !== null) {
          numBad += 1;
          if (bad.length < BAD_SHOWN) bad.push({ line, message });
          continue;
        }
        const members = [];
        for (const { place, prefix, write } of writers)
          if (cells[place].trim() !== "") members.push(prefix + write(cells[place]));
        const point = this.#placeOf(cells);
        if (point !== null) members.push(point);
        part += `{${members.join(",")}}\n`;
        lines.push(line);
      }
      if (part.length > PART_CHARS) {
        parts.push(new Blob([part])); // the browser keeps large blobs on disk
        part = "";
      }
    }
    parts.push(part);
    return { blob: new Blob(parts), lines, numBad, bad };
  }

  #writers() {
    return this.columns.flatMap(({ name, kind, canBeId }, place) => {
      const isId = place === this.idColumn;
      const separator = kind.startsWith("list ") ? kind.slice(5) : null;
      const write =
        isId && !canBeId
          ? WRITERS.text
          : separator !== null
            ? listWriter(separator)
            : WRITERS[kind];
      const names = !isId ? [name] : name.toLowerCase() === "id" ? ["id"] : ["id", name];
      return names.map((member) => ({ place, prefix: `${JSON.stringify(member)}:`, write }));
    });
  }

  /** The member `_geo` of a row, or null. */
  #placeOf(cells) {
    if (!this.makesPlaces || this.degrees === null) return null;
    const point = placeOf(...this.degrees.map((place) => cells[place]));
    return point === null ? null : `"${FIELD}":${point}`;
  }

  #wrongWidth(length) {
    const first = this.#hasHeader ? "header" : "first line";
    return (
      `${plural(length, "cell")}, and the ${first} has ${this.#width}; quote a cell that has ` +
      `${shownDelimiter(this.#delimiter)} or a line break in it`
    );
  }

  /** Why a row cannot become an item, or null; `currencies` has that of each column of amounts. */
  #faultOf(cells, currencies) {
    if (this.idColumn >= 0 && cells[this.idColumn].trim() === "")
      return `${this.columns[this.idColumn].name} is empty, and it is to be the id`;
    for (let place = 0; place < this.columns.length; place += 1) {
      const { kind } = this.columns[place];
      const text = cells[place].trim();
      if (!text || !CHECKS[kind]) continue;
      if (!CHECKS[kind](text))
        return `“${shown(text)}” is not ${wantedBy(kind)}`;
      const currency = kind.startsWith("number ") ? amountOf(text)[0] : "";
      const first = currencies.get(place) ?? currency;
      if (currency) currencies.set(place, first);
      if (currency && currency !== first)
        return `“${shown(text)}” is an amount of ${currency}, and the first is of ${first}; a number has no currency`;
    }
    return null;
  }

  /** A row without the empty cells after those that have a name, and without nulls. */
  #cellsOf(all) {
    const nulls = this.#nulls;
    const width = this.#width;
    const cells = nulls.size > 0 ? all.map((cell) => (nulls.has(cell.trim()) ? "" : cell)) : all;
    const hasRest = cells.length > width && cells.slice(width).every((cell) => cell === "");
    return hasRest ? cells.slice(0, width) : cells;
  }

  /** The cells of the columns that have a name; those of others have no text. */
  #namedOf(row) {
    if (this.#named.length === this.#width) return row;
    const stray = row.findIndex(
      (cell, place) => cell.trim() !== "" && !this.#named.includes(place),
    );
    if (stray >= 0)
      throw new SourceError(
        `Column ${stray + 1} has no name, and a cell with “${shown(row[stray])}”; the first line must name the columns.`,
        { isHeader: true },
      );
    return this.#named.map((place) => row[place]);
  }

  async *#rows() {
    const reader = new RowReader(this.#delimiter, this.#hasQuotes);
    for await (const text of this.#texts(() => reader.line)) yield reader.read(text);
    yield reader.read("", true);
  }
}

/** A value as an example: on one line, of limited length. */
export function shown(text, length = 40) {
  const line = text.split(/\s+/).join(" ");
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`;
}

/** What a cell of a kind must be. */
function wantedBy(kind) {
  if (kind in ORDERS) return `a date such as ${ORDERS[kind]}`;
  return `of type ${kind}${kind === "boolean" ? `, which is one of ${TRUTHS.join(", ")}` : ""}`;
}

const numbered = (_, place) => `column${place + 1}`;

/**
 * Whether a header seems to be a row: a name has digits where the cells have them. Years in turn,
 * as names of columns of numbers, are a header.
 */
function isLikeARow(columns) {
  const shapeOf = (text) => text.replaceAll(/[0-9]+/g, "0");
  const names = columns
    .filter(({ name, example }) => /[0-9]/.test(name) && shapeOf(name) === shapeOf(example.trim()))
    .map(({ name }) => name);
  const numbers = names.filter((name) => /^[0-9]+$/.test(name)).map(Number);
  const areInTurn =
    numbers.length > 1 && numbers.every((number, i) => i === 0 || number === numbers[i - 1] + 1);
  return names.length > 0 && !areInTurn;
}

/** The names of the columns; "" for one that has none. Of the same names all but the first are numbered. */
function headerOf(cells) {
  const names = cells.map((cell) => cell.trim());
  while (names.at(-1) === "") names.pop();
  if (names[0] === "" && !names.includes(ROW_FIELD)) names[0] = ROW_FIELD;
  const taken = new Set(names);
  const found = new Set();
  return names.map((name) => {
    let one = name;
    for (let number = 2; name && found.has(name) && taken.has(one); number += 1)
      one = `${name}_${number}`;
    taken.add(one);
    found.add(name);
    return one;
  });
}
