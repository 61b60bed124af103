/**
 * Which character divides the cells of a column into the parts of lists; the same rule as `facetd
 * load`: parts recur in other cells, there alone or not, and are no HTML.
 */

const SEPARATORS = ["|", ";"];
/** Distinct parts of a column's lists, and distinct cells without a separator; the first ones decide. */
const PARTS_MAX = 2_000;
const PART_CHARS_MAX = 60;
/** How often a part must occur on average. */
const REPEATED_MIN = 1.5;
const ENTITY = /&#?[0-9A-Za-z]+;/;

/** Finds the separator of one column, cell by cell. */
export class ListSeparator {
  #parts = new Map(SEPARATORS.map((separator) => [separator, new Map()]));
  #whole = new Map();

  add(text) {
    let isWhole = true;
    for (const [separator, parts] of this.#parts) {
      if (!text.includes(separator)) continue;
      isWhole = false;
      const found = text.split(separator).map((one) => one.trim());
      const isHtml = separator === ";" && ENTITY.test(text);
      if (isHtml || found.some((part) => [...part].length > PART_CHARS_MAX))
        this.#parts.delete(separator);
      else if (parts.size < PARTS_MAX) for (const part of found) count(parts, part);
    }
    if (isWhole && (this.#whole.has(text) || this.#whole.size < PARTS_MAX))
      count(this.#whole, text);
  }

  /** The separator, or "" if the cells are not lists. */
  get found() {
    for (const [separator, parts] of this.#parts) {
      parts.delete("");
      const total = [...parts].reduce(
        (sum, [part, count]) => sum + count + (this.#whole.get(part) ?? 0),
        0,
      );
      if (parts.size > 0 && total >= REPEATED_MIN * parts.size) return separator;
    }
    return "";
  }
}

function count(counts, key) {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
