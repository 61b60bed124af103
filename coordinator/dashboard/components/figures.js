/** Pieces that show facts: a number with its name, a state with its colour, a table that updates. */

import { fill, h } from "./dom.js";

const GOOD_STATES = new Set(["ready", "ok", "serving", "open", "up"]);

/** A number with its name, for a `dl` of class "tiles". */
export function tile(label, value, isBad = false) {
  return h("div", { class: isBad ? "tile bad" : "tile" }, h("dt", {}, label), h("dd", {}, value));
}

export function isGoodState(state) {
  return GOOD_STATES.has(state);
}

/** The word for a state, with a dot that is green only if all is well. */
export function stateBadge(state) {
  return h("span", { class: `state ${isGoodState(state) ? "good" : "warn"}` }, state);
}

/** A cell of `createTable` that is a number. */
export const number = (text) => ({ text, isNumber: true });

/** A table that is redrawn only where its rows differ, so that a selection or focus survives. */
export function createTable(title, columns) {
  const body = h("tbody");
  const nothing = h("p", { class: "muted", hidden: true });
  const scroll = h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": title },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => h("th", { scope: "col" }, column)),
        ),
      ),
      body,
    ),
  );
  const element = h("section", { class: "panel" }, h("h2", {}, title), scroll, nothing);

  function draw(rows, nothingText = "Nothing here yet.") {
    scroll.hidden = rows.length === 0;
    nothing.hidden = rows.length > 0;
    nothing.textContent = nothingText;
    rows.forEach((row, place) => {
      const line = body.children[place] ?? body.appendChild(h("tr"));
      const cells = row.cells.map((cell) =>
        cell.isNumber ? h("td", { class: "number" }, cell.text) : h("td", {}, cell),
      );
      if (
        cells.map((cell) => cell.textContent).join("\0") !==
        [...line.cells].map((cell) => cell.textContent).join("\0")
      )
        fill(line, cells);
    });
    while (body.children.length > rows.length) body.lastElementChild.remove();
  }

  return { element, draw };
}
