/** The form of a configuration: facets as rows, and the settings of the text. */

import { rankingSection, ruleSection, synonymSection } from "./configuration_sections.js";
import { button, h, icon, uniqueId } from "./dom.js";

/** The parts of the form, each a tab. */
export const PARTS = ["Facets", "Search", "Synonyms", "Rules", "Ranking"];

const ORDERS = [
  ["", "most items first"],
  ["term", "by name"],
];

/** `read()` gives the document with what the form says. */
export function createConfigurationForm(original, fields) {
  const listId = uniqueId("fields");
  const rows = h("div", { class: "facet-rows" });
  const addRow = (field, options) => {
    const row = createFacetRow(field, options, listId, () =>
      rows.classList.toggle("is-empty", rows.childElementCount === 0),
    );
    rows.append(row);
    rows.classList.remove("is-empty");
    return row;
  };
  for (const [field, options] of Object.entries(original.aggregations ?? {}))
    addRow(field, options ?? {});
  rows.classList.toggle("is-empty", rows.childElementCount === 0);

  const list = (value) => (Array.isArray(value) ? value.join(", ") : (value ?? ""));
  const text = (key, placeholder) =>
    h("input", {
      type: "text",
      value: list(original[key]),
      placeholder,
      "data-path": key,
      spellcheck: "false",
    });
  const searchable = text("searchable_fields", "all text; or: name^3, description");
  const stopWords = text("stop_words", "none");
  const language = text("language", "none");

  const sections = [
    synonymSection(original.synonyms),
    ruleSection(original.rules),
    rankingSection(original, fields),
  ];
  const parts = [
    h(
      "fieldset",
      {},
      h("legend", {}, "Facets"),
      h(
        "p",
        { class: "small muted" },
        "Fields whose values are counted and can be filtered by. Numbers and ISO dates become histograms.",
      ),
      h(
        "datalist",
        { id: listId },
        fields.map((field) => h("option", { value: field })),
      ),
      rows,
      button("Add a facet", {
        iconName: "plus",
        onclick: () => addRow("", {}).querySelector("input").focus(),
      }),
    ),
    h(
      "fieldset",
      {},
      h("legend", {}, "Search"),
      h(
        "label",
        { class: "field" },
        h("span", {}, "Searchable fields"),
        searchable,
        h(
          "span",
          { class: "small muted" },
          "With ^ and a number, a match in that field weighs more.",
        ),
      ),
      h(
        "div",
        { class: "field-pair" },
        h(
          "label",
          { class: "field" },
          h("span", {}, "Language"),
          language,
          h("span", { class: "small muted" }, "For other forms of a word, such as english."),
        ),
        h(
          "label",
          { class: "field" },
          h("span", {}, "Stop words"),
          stopWords,
          h("span", { class: "small muted" }, "Words that count for nothing."),
        ),
      ),
    ),
    ...sections.map((section) => section.element),
  ];
  const element = h("div", { class: "form" }, parts);

  /** Shows one part; the others keep what was typed. */
  function show(part) {
    parts.forEach((one, place) => (one.hidden = PARTS[place] !== part));
  }

  /** The part that a control is in. */
  const partOf = (control) => PARTS[parts.findIndex((one) => one.contains(control))];

  /** The document with what the form says. */
  function read() {
    const result = { ...original, aggregations: {} };
    for (const row of rows.children) {
      if (!row.readFacet) continue;
      const [field, options] = row.readFacet();
      if (field) result.aggregations[field] = options;
    }
    putChanged(result, searchable, splitList);
    putChanged(result, stopWords, splitList);
    putChanged(result, language, (text) => text.trim());
    for (const section of sections) section.write(result);
    return result;
  }

  /** What nobody touched stays as it is, whatever form it has. */
  function putChanged(result, input, parse) {
    const key = input.dataset.path;
    if (input.value === list(original[key])) return;
    const value = parse(input.value);
    if (value.length > 0) result[key] = value;
    else delete result[key];
  }

  return { element, read, show, partOf };
}

function splitList(text) {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

function createFacetRow(field, options, listId, onRemoved) {
  const path = (key) => `aggregations.${field}${key ? `.${key}` : ""}`;
  const control = (label, element) => h("label", { class: "field" }, h("span", {}, label), element);
  const name = h("input", {
    type: "text",
    value: field,
    list: listId,
    "data-path": path(""),
    spellcheck: "false",
    autocomplete: "off",
  });
  const title = h("input", {
    type: "text",
    value: options.title ?? "",
    "data-path": path("title"),
  });
  const join = h(
    "select",
    { "data-path": path("conjunction") },
    h("option", { value: "all" }, "all selected"),
    h("option", { value: "any" }, "any selected"),
  );
  join.value = options.conjunction === false ? "any" : "all";
  const size = h("input", {
    type: "number",
    min: "0",
    step: "1",
    value: options.size ?? "",
    placeholder: "10",
    "data-path": path("size"),
  });
  const isKnownOrder =
    options.sort === undefined || ["count", "term", "key"].includes(options.sort);
  const order = h(
    "select",
    { "data-path": path("sort"), disabled: !isKnownOrder },
    ORDERS.map(([value, text]) => h("option", { value }, text)),
    !isKnownOrder && h("option", { value: "custom" }, "as in JSON"),
  );
  order.value = !isKnownOrder
    ? "custom"
    : options.sort === "term" || options.sort === "key"
      ? "term"
      : "";
  const row = h(
    "div",
    { class: "facet-row" },
    control("Field", name),
    control("Title", title),
    control("Items must have", join),
    control("Values", size),
    control("Order", order),
    h(
      "button",
      {
        type: "button",
        class: "button quiet icon-only",
        "aria-label": `Remove the facet ${field}`,
        onclick: () => {
          row.remove();
          onRemoved();
        },
      },
      icon("trash"),
    ),
  );
  row.readFacet = () => {
    const result = { ...options };
    const put = (key, value, isUsual) => (isUsual ? delete result[key] : (result[key] = value));
    put("title", title.value.trim(), title.value.trim() === "");
    put("size", Number(size.value), size.value === "");
    if (options.conjunction !== undefined || join.value === "any")
      result.conjunction = join.value === "all";
    if (isKnownOrder && (options.sort === "key" ? "term" : (options.sort ?? "")) !== order.value)
      put("sort", order.value, order.value === "");
    return [name.value.trim(), result];
  };
  return row;
}
