/**
 * Rows of delimited cells (RFC 4180), read piece by piece. A quote counts only at the start of a
 * cell, as in Python's strict csv reader, so that `facetd load` and this page agree on every file.
 * A first line `sep=;`, as for Excel, names the delimiter and is not a row.
 */

export const CELL_CHARS_MAX = 16 * 1024 * 1024;

const SEPARATOR = /^sep=.$/is;

/** The file cannot be read; the message says where, and what would be valid. */
export class SourceError extends Error {
  constructor(message, details = {}) {
    super(message);
    this.name = "SourceError";
    Object.assign(this, details);
  }
}

export class RowReader {
  #rest = "";
  #line = 1;
  #delimiter;
  #hasQuotes;

  /** Without `hasQuotes`, a quote belongs to the text of its cell wherever it is. */
  constructor(delimiter, hasQuotes = true) {
    this.#delimiter = delimiter;
    this.#hasQuotes = hasQuotes;
  }

  /** The line that the next row starts on. */
  get line() {
    return this.#line;
  }

  /**
   * The rows that are complete with this piece of text: [{line, cells}]; what has no text is none.
   * @throws {SourceError} a quoted cell is broken, or never ends; `isQuote` if that is why
   */
  read(piece, isLast = false) {
    const text = this.#rest + piece;
    const rows = [];
    let at = 0;
    let nextReturn = text.indexOf("\r");
    while (at < text.length) {
      if (nextReturn >= 0 && nextReturn < at) nextReturn = text.indexOf("\r", at);
      const lineFeed = text.indexOf("\n", at);
      let end = nextReturn >= 0 && (lineFeed < 0 || nextReturn < lineFeed) ? nextReturn : lineFeed;
      if (end < 0) {
        if (!isLast) break;
        end = text.length;
      }
      let cells;
      let next;
      let lines = 1;
      const line = text.slice(at, end);
      if (this.#hasQuotes && line.includes('"')) {
        const row = this.#quotedRow(text, at, isLast);
        if (row === null) break;
        [cells, next] = row;
        lines = countLines(text, at, next);
      } else {
        next = afterBreak(text, end);
        if (text[end] === "\r" && next === text.length && !isLast) break; // "\n" may follow
        cells = line === "" ? [] : line.split(this.#delimiter);
      }
      const isSeparator = this.#line === 1 && SEPARATOR.test(cells.join(this.#delimiter));
      const isEmpty = cells.every((cell) => cell.trim() === "");
      if (!isEmpty && !isSeparator) rows.push({ line: this.#line, cells });
      this.#line += lines;
      at = next;
    }
    this.#rest = text.slice(at);
    if (this.#rest.length > CELL_CHARS_MAX)
      throw new SourceError(
        `Line ${this.#line}: a cell has more than ${CELL_CHARS_MAX} characters; a quote may be missing`,
        { isQuote: this.#hasQuotes },
      );
    return rows;
  }

  /** A row with quotes: [cells, where the next begins], or null while its end is not there yet. */
  #quotedRow(text, start, isLast) {
    const cells = [];
    const delimiter = this.#delimiter;
    let at = start;
    for (;;) {
      let cell = "";
      if (text[at] === '"') {
        at += 1;
        for (;;) {
          const quote = text.indexOf('"', at);
          if (quote < 0 || (quote + 1 === text.length && !isLast)) {
            if (!isLast) return null;
            throw new SourceError(
              `Line ${this.#line}: a quoted cell that begins here never ends`,
              { isQuote: true },
            );
          }
          cell += text.slice(at, quote);
          at = quote + 1;
          if (text[at] !== '"') break;
          cell += '"';
          at += 1;
        }
        if (at < text.length && text[at] !== delimiter && !isBreak(text[at]))
          throw new SourceError(
            `Line ${this.#line}: ${shownDelimiter(delimiter)} is expected after a closing quote; ` +
              'a quote inside a quoted cell is written twice: ""',
            { isQuote: true },
          );
      } else {
        const from = at;
        while (at < text.length && text[at] !== delimiter && !isBreak(text[at])) at += 1;
        if (at === text.length && !isLast) return null;
        cell = text.slice(from, at);
      }
      cells.push(cell);
      if (text[at] === delimiter) {
        at += 1;
        continue;
      }
      const next = afterBreak(text, at);
      if (text[at] === "\r" && next === text.length && !isLast) return null;
      return [cells, next];
    }
  }
}

const isBreak = (character) => character === "\n" || character === "\r";

function afterBreak(text, at) {
  if (at >= text.length) return text.length;
  return at + (text[at] === "\r" && text[at + 1] === "\n" ? 2 : 1);
}

function countLines(text, from, to) {
  let lines = 0;
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 10 || (code === 13 && text.charCodeAt(at + 1) !== 10)) lines += 1;
  }
  return lines;
}

export function shownDelimiter(delimiter) {
  return delimiter === "\t" ? "a tab" : `a “${delimiter}”`;
}

const DELIMITERS = [",", ";", "\t", "|"];
const WIDTH_MAX = 20;

/** The delimiter that the file names, or that splits the first rows most evenly. */
export function findDelimiter(start, isWhole, hasQuotes = true) {
  const named = /^"?sep=(.)"?[\r\n]/is.exec(start);
  if (named !== null) return named[1];
  let best = ",";
  let bestScore = 0;
  for (const delimiter of DELIMITERS) {
    let rows;
    try {
      rows = new RowReader(delimiter, hasQuotes).read(start, isWhole);
    } catch {
      continue;
    }
    const width = rows[0]?.cells.length ?? 0;
    if (width < 2) continue;
    const even = rows.filter((row) => row.cells.length === width).length / rows.length;
    const score = even * Math.min(width, WIDTH_MAX);
    if (score > bestScore) [best, bestScore] = [delimiter, score];
  }
  return best;
}
