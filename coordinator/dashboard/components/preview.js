/**
 * What a configuration would change, before it is saved: the same query with the saved settings and
 * with those in the form. What a request cannot try is tried in a copy of the index.
 */

import { configure, copyIndex, listIndexes, toJson } from "../api.js";
import { fieldTitle } from "../format.js";
import { comparePath } from "../paths.js";
import { loadSchema } from "../schema.js";
import { createComparison } from "./comparison.js";
import { button, fill, h } from "./dom.js";
import { errorNotice } from "./notice.js";

const DELAY_MS = 200;
/** Settings that a search can name itself: setting -> parameter. */
const PARAMETERS = {
  match: "match",
  prefix: "prefix",
  typo: "typo",
  typo_lengths: "typo_lengths",
  searchable_fields: "search_fields",
  boost: "boost",
  rules: "rules",
};
const NOTHING = { boost: {}, rules: [] };
/** Settings that change what is found or counted, but only after a rebuild. */
const REBUILT = [
  "synonyms",
  "stop_words",
  "language",
  "field_languages",
  "aggregations",
  "field_typo_lengths",
  "infix",
  "ranking",
  "hierarchies",
  "nested",
  "geo_fields",
];

/**
 * @param {string} index
 * @param {{saved: object, draft: () => ?object, onLeave: Function}} options `draft()` is the document
 *   as the form has it now, or null; `onLeave()` is called before the page changes to a copy
 */
export function createPreview(index, { saved, draft, onLeave }) {
  let comparison = null;
  let timer = 0;
  const input = h("input", {
    type: "search",
    "aria-label": "Query to try",
    placeholder: "A query to try",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => update(),
    onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
  });
  const note = h("p", { class: "small muted", role: "status" });
  const copyButton = button("Try it in a copy", { onclick: () => tryInCopy(), hidden: true });
  const problem = h("div", { class: "messages" });
  const place = h("div", {});
  const element = h(
    "details",
    { class: "preview", ontoggle: () => element.open && open() },
    h("summary", {}, "Preview"),
    h(
      "div",
      { class: "preview-body" },
      input,
      place,
      h("div", { class: "preview-copy" }, note, copyButton),
      problem,
    ),
  );

  function overrides() {
    const document_ = draft();
    if (!document_) return {};
    return Object.fromEntries(
      Object.entries(PARAMETERS).flatMap(([setting, parameter]) => {
        const value = document_[setting] ?? (saved[setting] ? NOTHING[setting] : undefined);
        return value === undefined || isSame(value, saved[setting]) ? [] : [[parameter, value]];
      }),
    );
  }

  async function open() {
    if (!comparison) {
      try {
        const { titleField } = await loadSchema(index);
        comparison = createComparison([
          { title: "As it is", index, titleField, overrides: () => ({}) },
          { title: "As it would be", index, titleField, overrides },
        ]);
        fill(place, comparison.element);
      } catch (error) {
        fill(problem, errorNotice(error));
        return;
      }
    }
    update();
  }

  /** The form or the query has changed. */
  function update() {
    if (!element.open || !comparison) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      const document_ = draft();
      if (!document_) return;
      const rebuilt = REBUILT.filter((key) => !isSame(document_[key], saved[key]));
      note.textContent =
        rebuilt.length > 0
          ? `Not in this preview: ${rebuilt.map((key) => fieldTitle(key).toLowerCase()).join(", ")}. A copy of the index shows them.`
          : "";
      copyButton.hidden = rebuilt.length === 0;
      comparison.ask(input.value);
    }, DELAY_MS);
  }

  async function tryInCopy() {
    const document_ = draft();
    if (!document_) return;
    copyButton.disabled = true;
    fill(problem);
    try {
      const names = new Set((await listIndexes()).map((entry) => entry.name));
      let copy = `${index}-trial`;
      for (let number = 2; names.has(copy); number += 1) copy = `${index}-trial-${number}`;
      await copyIndex(index, copy);
      await configure(copy, toJson(document_));
      onLeave();
      history.pushState(null, "", comparePath(index, copy, input.value));
      dispatchEvent(new PopStateEvent("popstate"));
    } catch (error) {
      fill(problem, errorNotice(error));
      copyButton.disabled = false;
    }
  }

  return { element, update };
}

const isSame = (one, other) => toJson(one ?? null) === toJson(other ?? null);
