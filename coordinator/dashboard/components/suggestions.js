/** What the text in the search box may become: one row of buttons, shown while somebody types. */

import { STALE, Latest, suggest } from "../api.js";
import { filtersOf } from "../state.js";
import { button, fill, h } from "./dom.js";

const SHOWN = 6;

/** @param {{index: string, choose: (text: string) => void}} options */
export function createSuggestions({ index, choose }) {
  const latest = new Latest();
  const element = h("div", {
    class: "suggestions",
    role: "group",
    "aria-label": "Suggestions",
    hidden: true,
  });

  function clear() {
    latest.cancel();
    element.hidden = true;
    fill(element);
  }

  /** Suggestions are a convenience: without them the page works as before. */
  async function show(state) {
    const query = state.query.trim();
    if (!query) return clear();
    const request = { query, size: SHOWN, ...filtersOf(state) };
    const found = await latest.run((signal) => suggest(index, request, signal)).catch(() => null);
    if (found === STALE) return;
    const others = (found?.data.suggestions ?? []).filter(
      ({ text }) => text.toLowerCase() !== query.toLowerCase(),
    );
    element.hidden = others.length === 0;
    fill(
      element,
      others.map(({ text, count }) =>
        button(text, {
          kind: "quiet link",
          title: count === 1 ? "1 item" : `${count} items`,
          onclick: () => {
            clear();
            choose(text);
          },
        }),
      ),
    );
  }

  return { element, show, clear };
}
