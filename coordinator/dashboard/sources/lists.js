/**
 * Which character divides the cells of a column into the parts of lists; the same rule as `facetd
 * load`: parts recur in other cells.
 */

const SEPARATORS = ["|", ";"];
/** Distinct parts of a column's lists; a column with more is taken for a text. */
const PARTS_MAX = 2_000;
const PART_CHARS_MAX = 60;
/** How often a part must occur on average. */
const REPEATED_MIN = 2;

/** Finds the separator of one column, cell by cell. */
export class ListSeparator {
  #parts = new Map(SEPARATORS.map((separator) => [separator, new Map()]));

  add(text) {
    for (const [separator, parts] of this.#parts) {
      if (!text.includes(separator)) continue;
      for (const part of text.split(separator).map((one) => one.trim())) {
        parts.set(part, (parts.get(part) ?? 0) + 1);
        if (parts.size > PARTS_MAX || [...part].length > PART_CHARS_MAX)
          this.#parts.delete(separator);
      }
    }
  }

  /** The separator, or "" if the cells are no lists. */
  get found() {
    for (const [separator, parts] of this.#parts) {
      parts.delete("");
      const total = [...parts.values()].reduce((sum, count) => sum + count, 0);
      if (parts.size > 0 && total >= REPEATED_MIN * parts.size) return separator;
    }
    return "";
  }
}
