/** A panel with a heading, what can be added, and a table of rows; for the page of the service. */

import { fill, h } from "./dom.js";

/**
 * `draw(rows)` shows rows, `say(text)` changes the text below the heading.
 *
 * @param {{title: string, text: string, columns: string[], action: Node, nothing: string}} options
 *   the last column holds the actions of a row and has no heading
 */
export function createSheet({ title, text, columns, action, nothing }) {
  const body = h("tbody");
  const none = h("p", { class: "muted", hidden: true }, nothing);
  const scroll = h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": title },
    h(
      "table",
      { class: "sheet" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => h("th", { scope: "col" }, column)),
          h("td", {}),
        ),
      ),
      body,
    ),
  );
  const problem = h("div", { class: "messages" });
  const about = h("p", { class: "small muted" }, text);
  const element = h(
    "section",
    { class: "panel" },
    h(
      "div",
      { class: "panel-head" },
      h("div", {}, h("h2", {}, title), about),
      action,
    ),
    problem,
    scroll,
    none,
  );

  /** `rows` are lists of cells; each cell is text or nodes, the first one heads its row. */
  function draw(rows) {
    scroll.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    fill(
      body,
      rows.map(([first, ...cells]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, first),
          cells.map((cell, place) => h("td", { "data-column": columns[place + 1] ?? "" }, cell)),
        ),
      ),
    );
  }

  const say = (now) => (about.textContent = now);
  return { element, draw, say, problem };
}
