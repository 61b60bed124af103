/**
 * One facet of the search page: its heading, and below it either the list of values or, for
 * numbers and dates, a histogram.
 */

import { button, fill, h, uniqueId } from "./dom.js";
import { createHistogram } from "./histogram.js";
import { createToggle } from "./toggle.js";
import { createValueList } from "./value_list.js";
import { choiceOf, hasRange } from "../state.js";

/**
 * @param {object} facet one entry of the schema; `isHistogram` and `isOpen` may change
 * @param {{index: string, apply: Function, refresh: Function, prepareBrush: Function, moveBrush:
 *   Function}} page `apply(change)` changes the state; `refresh()` asks again, after an open facet or
 *   a switch of its display; the others tell of a brush
 */
export function createFacet(facet, page) {
  const bodyId = uniqueId("facet");
  const note = h("span", { class: "facet-note" });
  const toggle = createToggle(facet, bodyId, page, note);
  const display = h("div", { class: "facet-display" });
  const body = h("div", { class: "facet-body", id: bodyId });
  const element = h(
    "section",
    { class: "facet", "aria-label": facet.title },
    h("div", { class: "facet-head" }, h("h2", {}, toggle), display),
    body,
  );
  let shown = null;
  let isShownHistogram = null;

  function build() {
    shown = facet.isHistogram ? createHistogram(facet, page) : createValueList(facet, page);
    isShownHistogram = facet.isHistogram;
    fill(body, shown.element);
    fill(
      display,
      shown.tools,
      facet.canBeHistogram &&
        button(
          facet.isHistogram ? `${facet.title}: show as list` : `${facet.title}: show as histogram`,
          {
            iconName: facet.isHistogram ? "filter" : "pulse",
            isIconOnly: true,
            kind: "quiet",
            onclick: () => {
              facet.isHistogram = !facet.isHistogram;
              page.refresh();
            },
          },
        ),
    );
  }

  /** Shows what the newest answer says about this facet; the answer is null before the first one. */
  function update(state, answer) {
    if (isShownHistogram !== facet.isHistogram) build();
    toggle.setAttribute("aria-expanded", String(facet.isOpen));
    body.hidden = !facet.isOpen;
    display.hidden = !facet.isOpen;
    const choice = choiceOf(state, facet.field);
    const chosen = choice.selected.length + choice.excluded.length + (hasRange(choice) ? 1 : 0);
    note.textContent = chosen > 0 ? `${chosen} chosen` : "";
    if (facet.isOpen) shown.update(state, answer);
  }

  /** Shows counts that the next answer will have: [{key, doc_count}] of its values or bins. */
  function preview(buckets) {
    shown?.preview(buckets);
  }

  return { facet, element, update, preview };
}
