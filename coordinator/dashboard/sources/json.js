/**
 * JSON, one object a line or an array of objects. It is sent as it is, and the service checks it;
 * only a geo point may be put into the objects, and objects that are spread over lines are put on
 * one, with the line feeds after them, so that the lines the service names are those of the file.
 */

import { parseJson } from "../api.js";
import { shown } from "./delimited.js";
import { ArrayCutter, innerArraysIn } from "./items_path.js";
import { findDegreesIn, withPlace } from "./places.js";

const SAMPLE_ITEMS = 500;
const PART_CHARS = 2 * 1024 * 1024;

/** A text, with its end unless that is in the next piece, or a brace outside of texts. */
const TOKEN = /"[^"\\]*(?:\\[^][^"\\]*)*("|\\?$)|[{}]/g;

/** The text of a file of JSON: its fields, and where its objects may get a place. */
export class JsonText {
  /** {name, kind, filled, example} of each field of the first objects. */
  columns = [];
  /** The fields of a latitude and a longitude, where there are such; else null. */
  degreeNames = null;
  /** Whether the items get a geo point of them; may be set by the user. */
  makesPlaces = false;
  /** The paths of arrays of objects, if the file seems to be one object around the items. */
  innerArrays = [];
  #texts;
  #itemsPath;
  #areSpread;

  /**
   * `texts()` yields the text of the file in pieces, `start` is its beginning; `itemsPath` leads to
   * the array of items, if they are within one object.
   */
  constructor(texts, start, itemsPath = null) {
    this.#texts = texts;
    this.#itemsPath = itemsPath;
    const text = itemsPath === null ? start : new ArrayCutter(itemsPath).read(start);
    const items = objectsIn(text);
    const [firstLine] = text.trimStart().split("\n", 1);
    this.#areSpread =
      !firstLine.startsWith("[") && objectsIn(firstLine).length === 0 && items.length > 0;
    if (itemsPath !== null || items.length < 2) this.innerArrays = innerArraysIn(start);
    this.columns = fieldsOf(items);
    this.degreeNames = findDegreesIn(items);
  }

  /** Whether the text is not sent as it is. */
  get isConverted() {
    return this.makesPlaces || this.#areSpread || this.#itemsPath !== null;
  }

  /** A blob of the text, with places, and each object on one line. */
  async convert() {
    const placed = (text) => (this.makesPlaces ? withPlace(text, this.degreeNames) : text);
    const edit = this.#areSpread ? (text) => onOneLine(placed(text)) : placed;
    const editor = new ObjectEditor(edit);
    const cutter = this.#itemsPath === null ? null : new ArrayCutter(this.#itemsPath);
    const parts = [];
    let part = "";
    for await (const text of this.#texts()) {
      part += editor.read(cutter === null ? text : cutter.read(text));
      if (part.length > PART_CHARS) {
        parts.push(new Blob([part])); // the browser keeps large blobs on disk
        part = "";
      }
    }
    return new Blob([...parts, part + editor.rest]);
  }
}

/**
 * Replaces the outermost objects of JSON text by what `edit(object text)` returns; what is between
 * them stays as it is. `facetd load` has the same rules.
 */
export class ObjectEditor {
  #edit;
  #text = "";
  #place = 0; // up to which the text is read
  #depth = 0;

  constructor(edit) {
    this.#edit = edit;
  }

  /** The next text, up to the last object that is whole with this piece. */
  read(piece) {
    const text = this.#text + piece;
    let made = "";
    let done = 0;
    let begin = 0;
    TOKEN.lastIndex = this.#place;
    this.#place = text.length;
    for (let token = TOKEN.exec(text); token !== null; token = TOKEN.exec(text)) {
      if (token[0] === "{") {
        if (this.#depth === 0) begin = token.index;
        this.#depth += 1;
      } else if (token[0] === "}") {
        if (this.#depth === 1) {
          made += text.slice(done, begin) + this.#edit(text.slice(begin, token.index + 1));
          done = token.index + 1;
        }
        this.#depth = Math.max(0, this.#depth - 1);
      } else if (token[1] !== '"') {
        this.#place = token.index;
        break;
      }
    }
    const kept = this.#depth > 0 ? begin : this.#place;
    this.#text = text.slice(kept);
    this.#place -= kept;
    return made + text.slice(done, kept);
  }

  /** What follows the last whole object. */
  get rest() {
    return this.#text;
  }
}

/** An object on one line, and line feeds as many as it had; what is not JSON as it is. */
function onOneLine(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return text.replaceAll(/[\r\n]/g, " ") + "\n".repeat(text.split("\n").length - 1);
}

/** The first objects that are whole in the beginning of JSON text, and that are JSON. */
function objectsIn(text, count = SAMPLE_ITEMS) {
  const found = [];
  const note = (part) => {
    try {
      if (found.length < count) found.push(parseJson(part));
    } catch {
      // The load will say what is wrong with it.
    }
    return part;
  };
  new ObjectEditor(note).read(text);
  return found;
}

/** The fields of some items, as columns: {name, kind, filled, example}. */
function fieldsOf(items) {
  const fields = new Map();
  for (const item of items) {
    for (const [name, value] of Object.entries(item)) {
      if (value === null) continue;
      const field = fields.get(name) ?? { name, kinds: new Set(), filled: 0, example: "" };
      fields.set(name, field);
      field.kinds.add(kindOf(value));
      field.filled += 1;
      field.example ||= shown(textOf(value));
    }
  }
  return [...fields.values()].map(({ kinds, ...field }) => ({
    ...field,
    kind: kinds.has("number")
      ? [...kinds].filter((kind) => kind !== "integer").join(", ")
      : [...kinds].join(", "),
  }));
}

function textOf(value) {
  if (typeof value !== "object") return String(value);
  try {
    return JSON.stringify(value, plain);
  } catch {
    return ""; // nested too deep for the browser; the service will say where
  }
}

const plain = (_key, value) => (typeof value === "bigint" ? String(value) : value);

function kindOf(value) {
  if (Array.isArray(value)) return "list";
  if (typeof value === "bigint") return "integer";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value === "object" ? "object" : typeof value === "string" ? "text" : typeof value;
}
