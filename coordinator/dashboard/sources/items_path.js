/**
 * Finds the array of items inside a JSON object, such as the response of another service. The text
 * around it is replaced by spaces, but line feeds stay; `facetd load --items` has the same rules.
 *
 *     {"took": 3, "data": {"items": [{"id": 1}, {"id": 2}]}}     data.items
 */

const NAMES_MAX = 10;

/** A text, with its end unless that is in the next piece, or what stands between values. */
const TOKEN = /"[^"\\]*(?:\\[^][^"\\]*)*("|\\?$)|[{}[\]:]/g;

const blank = (text) => text.replaceAll(/[^\n]/g, " ");

/** The names of the members that enclose a place of JSON text; null for an array. */
class Members {
  #names = [];
  #text = "";

  /** The names, joined by dots; null outside of objects, and within arrays. */
  get path() {
    return this.#names.length === 0 || this.#names.includes(null) ? null : this.#names.join(".");
  }

  /** Goes on after a token. */
  read(token) {
    if (token === "{" || token === "[") this.#names.push(token === "{" ? "" : null);
    else if (token === "}" || token === "]") this.#names.pop();
    else if (token !== ":") this.#text = token;
    else if (this.#names.length > 0) this.#names[this.#names.length - 1] = decoded(this.#text);
  }
}

function decoded(text) {
  try {
    return JSON.parse(text);
  } catch {
    return "";
  }
}

/** The paths of the first arrays of objects that are members, in the start of JSON text. */
export function innerArraysIn(start) {
  const found = new Set();
  const members = new Members();
  for (const token of start.matchAll(TOKEN)) {
    const { path } = members;
    if (token[0] === "[" && path && /^\s*\{/.test(start.slice(token.index + 1, token.index + 100)))
      found.add(path);
    if (found.size === NAMES_MAX) break;
    members.read(token[0]);
  }
  return [...found];
}

/** Leaves nothing of JSON text but the array at a path. */
export class ArrayCutter {
  #path;
  #members = new Members();
  #text = "";
  #depth = 0; // of arrays, once the one at the path has begun
  #isOver = false;

  constructor(path) {
    this.#path = path;
  }

  /** The next text, up to the last token that is whole with this piece. */
  read(piece) {
    const text = this.#text + piece;
    let made = "";
    let done = 0;
    let end = text.length;
    for (const token of this.#isOver ? [] : text.matchAll(TOKEN)) {
      if (token[0][0] === '"' && token[1] !== '"') {
        end = token.index;
        break;
      }
      if (this.#depth > 0) {
        this.#depth += (token[0] === "[") - (token[0] === "]");
        if (this.#depth === 0) {
          made += text.slice(done, token.index + 1);
          done = token.index + 1;
          this.#isOver = true;
          break;
        }
      } else if (token[0] === "[" && this.#members.path === this.#path) {
        made += blank(text.slice(done, token.index));
        done = token.index;
        this.#depth = 1;
      } else this.#members.read(token[0]);
    }
    this.#text = text.slice(end);
    const rest = text.slice(done, end);
    return made + (this.#depth > 0 ? rest : blank(rest));
  }
}
