/** What narrows the result, as chips that a click removes. */

import { fieldTitle } from "../format.js";
import { labelRange } from "../range_label.js";
import * as states from "../state.js";
import { button, h, icon, refill } from "./dom.js";

/** Shows all choices of a state in the list `chips`; `apply(change)` changes the state. */
export function drawChips(chips, state, schema, apply) {
  const entries = Object.entries(state.choices)
    .flatMap(([field, choice]) => descriptions(field, choice, schema))
    .map(({ text, isExcluded, change }) => chip(text, isExcluded, () => apply(change)));
  const clearAll = button("Clear all", {
    kind: "quiet",
    onclick: () => apply(states.withoutChoices),
  });
  refill(chips, entries, entries.length > 1 && h("li", {}, clearAll));
  chips.hidden = entries.length === 0;
}

function descriptions(field, choice, schema) {
  const known = [...schema.trees, ...schema.facets, ...(schema.places ? [schema.places] : [])];
  const facet = known.find((candidate) => candidate.field === field);
  const title = facet?.title ?? fieldTitle(field);
  const found = [...choice.selected, ...choice.excluded].map((key) => {
    const isExcluded = choice.excluded.includes(key);
    const text = `${title}: ${isExcluded ? "not " : ""}${key}`;
    return { text, isExcluded, change: (state) => states.withMark(state, field, key, "off") };
  });
  if (states.hasRange(choice)) {
    const change = (state) => states.withChoice(state, field, { low: null, high: null });
    found.push({ text: `${title}: ${labelRange(choice, facet)}`, isExcluded: false, change });
  }
  if (choice.box) {
    const change = (state) => states.withChoice(state, field, { box: null });
    found.push({ text: `${title}: what is in view`, isExcluded: false, change });
  }
  return found;
}

function chip(text, isExcluded, onclick) {
  const kind = isExcluded ? "chip is-excluded" : "chip";
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: kind, "aria-label": `Remove ${text}`, onclick },
      h("span", {}, text),
      icon("close"),
    ),
  );
}
