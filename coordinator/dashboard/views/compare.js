/**
 * Two indexes, or an index and a copy of it with another configuration, asked the same:
 *
 *     /dashboard/{index}?compare=OTHER&q=…
 */

import {
  configurationText,
  configure,
  effectiveConfiguration,
  listIndexes,
  removeIndex,
  toJson,
} from "../api.js";
import { createComparison } from "../components/comparison.js";
import { confirmLoss } from "../components/dialog.js";
import { button, fill, h } from "../components/dom.js";
import { errorNotice, toast } from "../components/notice.js";
import { comparePath, searchPath } from "../paths.js";
import { loadSchema } from "../schema.js";

const TYPING_DELAY_MS = 60;

/** @param {{index: string, other: string, query: string, go: Function}} route */
export function compareView({ index, other, query, go }) {
  const controller = new AbortController();
  let comparison = null;
  let timer = 0;
  const input = h("input", {
    type: "search",
    value: query,
    class: "search-input",
    "aria-label": "Query for both",
    placeholder: "A query for both",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        history.replaceState(null, "", comparePath(index, other, input.value));
        comparison?.ask(input.value);
      }, TYPING_DELAY_MS);
    },
  });
  const rival = h("select", {
    "aria-label": "Compare with",
    onchange: () => go(comparePath(index, rival.value, input.value)),
  });
  const place = h("div", {});
  const differences = h("section", { class: "panel" });
  const element = h(
    "div",
    { class: "page" },
    h(
      "header",
      { class: "page-head" },
      h("h1", {}, h("a", { href: searchPath(index), class: "item-link" }, index), " and ", rival),
      other &&
        h(
          "div",
          { class: "actions" },
          button(`Configure ${index} like ${other}`, { onclick: () => takeOver() }),
          button(`Remove ${other}`, { iconName: "trash", onclick: () => removeOther() }),
        ),
    ),
    input,
    place,
    differences,
  );

  async function open() {
    try {
      const indexes = await listIndexes(controller.signal);
      const names = indexes.map((entry) => entry.name).filter((name) => name !== index);
      fill(
        rival,
        !names.includes(other) && h("option", { value: other }, other || "choose an index"),
        names.sort().map((name) => h("option", { value: name }, name)),
      );
      rival.value = other;
      if (!other) {
        fill(differences, h("p", { class: "muted" }, "Choose an index to compare with."));
        return;
      }
      const sides = [index, other];
      const [schemas, [mine, theirs]] = await Promise.all([
        Promise.all(sides.map((name) => loadSchema(name, controller.signal))),
        Promise.all(sides.map((name) => effectiveConfiguration(name, controller.signal))),
      ]);
      comparison = createComparison(
        sides.map((name, side) => {
          const { titleField } = schemas[side];
          return { title: name, index: name, titleField, overrides: () => ({}) };
        }),
      );
      fill(place, comparison.element);
      drawDifferences(mine, theirs);
      comparison.ask(input.value);
    } catch (error) {
      if (error.name !== "AbortError") fill(place, errorNotice(error, { retry: open }));
    }
  }

  function takeOver() {
    confirmLoss({
      title: `Configure ${index} like ${other}?`,
      text: `The configuration of ${index} is replaced by that of ${other}; its items stay.`,
      action: "Replace the configuration",
      act: async () => {
        await configure(index, await configurationText(other));
        toast(`${index} is configured like ${other}`);
        open();
      },
    });
  }

  function removeOther() {
    confirmLoss({
      title: `Remove ${other}?`,
      text: "The index, its items and its configuration will be gone. This cannot be undone.",
      action: "Remove the index",
      mustType: other,
      act: async () => {
        await removeIndex(other);
        go(searchPath(index));
      },
    });
  }

  function drawDifferences(mine, theirs) {
    const found = [...differencesOf(mine, theirs)];
    const cell = (text, column) =>
      h(
        "td",
        { "data-column": column },
        text === undefined ? "–" : h("code", { class: "code" }, text),
      );
    fill(
      differences,
      h("h2", {}, "Differences of the configurations"),
      found.length === 0
        ? h("p", { class: "muted" }, "None: both are configured alike.")
        : h(
            "div",
            { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Differences" },
            h(
              "table",
              { class: "settings" },
              h(
                "thead",
                {},
                h(
                  "tr",
                  {},
                  ["Setting", index, other].map((text) => h("th", { scope: "col" }, text)),
                ),
              ),
              h(
                "tbody",
                {},
                found.map(([path, one, two]) =>
                  h(
                    "tr",
                    {},
                    h("th", { scope: "row" }, path),
                    cell(one, index),
                    cell(two, other),
                  ),
                ),
              ),
            ),
          ),
    );
  }

  open();
  return {
    element,
    title: `${index} and ${other || "another"}`,
    focusSearch: () => input.select(),
    close() {
      controller.abort();
      comparison?.close();
      clearTimeout(timer);
    },
  };
}

/**
 * Yields what differs in two documents: a path, and the JSON texts of both (undefined: has none).
 * What only one of them has is a single value, however deep.
 */
function* differencesOf(mine, theirs, prefix = "") {
  for (const key of new Set([...Object.keys(mine), ...Object.keys(theirs)])) {
    const path = `${prefix}${key}`;
    const [one, two] = [mine[key], theirs[key]];
    if (isFilled(one) && isFilled(two)) yield* differencesOf(one, two, `${path}.`);
    else if (toJson(one) !== toJson(two)) yield [path, toJson(one), toJson(two)];
  }
}

function isFilled(value) {
  return (
    value !== null &&
    typeof value === "object" &&
    !Array.isArray(value) &&
    Object.keys(value).length > 0
  );
}
