/**
 * The same query asked twice, side by side: what moved, what is new, what is gone.
 *
 *     before                after
 *     1  Sea                1  Sand   ▲ 1
 *     2  Sand               2  Sea    ▼ 1
 *     3  Snow   gone        3  Silt   new
 */

import { STALE, Latest, search } from "../api.js";
import { count, milliseconds, plural } from "../format.js";
import { itemPath } from "../paths.js";
import { fill, h } from "./dom.js";
import { plainTitle } from "./item.js";
import { errorNotice } from "./notice.js";

const HITS = 20;

/**
 * @param {{title: string, index: string, titleField: string, overrides: () => object}[]} sides two
 *   of them; `titleField` heads an item, `overrides` are parameters of the search beyond the query
 */
export function createComparison(sides) {
  const latest = new Latest();
  const problem = h("div", { class: "messages" });
  const verdict = h("p", { class: "muted", role: "status" });
  const columns = sides.map((side) => {
    const total = h("span", { class: "small muted" });
    const list = h("ol", { class: "compared" });
    return {
      total,
      list,
      element: h("section", { class: "compared-side" }, h("h2", {}, side.title, " ", total), list),
    };
  });
  const element = h(
    "div",
    { class: "comparison" },
    problem,
    verdict,
    h(
      "div",
      { class: "compared-sides" },
      columns.map((column) => column.element),
    ),
  );

  /** Asks both sides; only the newest answers are shown. */
  async function ask(query) {
    try {
      const found = await latest.run((signal) =>
        Promise.all(
          sides.map(({ index, overrides }) =>
            search(index, { query, per_page: HITS, facet_fields: [], ...overrides() }, signal),
          ),
        ),
      );
      if (found === STALE) return;
      fill(problem);
      draw(found);
    } catch (error) {
      fill(problem, errorNotice(error));
    }
  }

  function draw(found) {
    const ranks = found.map(
      ({ answer }) => new Map(answer.data.items.map((item, place) => [String(item.id), place])),
    );
    found.forEach(({ answer }, side) => {
      const { total, list } = columns[side];
      const other = ranks[1 - side];
      total.textContent = `${plural(answer.pagination.total, "item")} in ${milliseconds((answer.meta?.took_us ?? 0) / 1000)}`;
      fill(
        list,
        answer.data.items.map((item, place) =>
          h(
            "li",
            {},
            h(
              "a",
              { href: itemPath(sides[side].index, item.id), dir: "auto" },
              plainTitle(item, sides[side].titleField),
            ),
            change(side, place, other.get(String(item.id))),
          ),
        ),
      );
    });
    const [before, after] = ranks;
    const same = [...before].filter(([id, place]) => after.get(id) === place).length;
    const most = Math.max(before.size, after.size);
    verdict.textContent = verdictOf(same, most);
  }

  return { element, ask, close: () => latest.cancel() };
}

function verdictOf(same, most) {
  if (most === 0) return "Neither finds anything.";
  if (same === most)
    return most === 1 ? "Both find the same item." : `The first ${count(most)} hits are the same.`;
  return `${count(same)} of the first ${plural(most, "hit")} ${same === 1 ? "is" : "are"} in the same place.`;
}

/** What happened to an item between the two sides; said on the right, and on the left if it is gone. */
function change(side, place, otherPlace) {
  if (otherPlace === undefined)
    return side === 0
      ? h("span", { class: "change is-gone" }, "gone")
      : h("span", { class: "change is-new" }, "new");
  if (side === 0 || otherPlace === place) return null;
  const by = otherPlace - place;
  return h(
    "span",
    { class: by > 0 ? "change is-up" : "change is-down" },
    by > 0 ? `▲ ${by}` : `▼ ${-by}`,
  );
}
