/** The hits as a table: a row an item, a column a field; what most items have comes first. */

import { fieldTitle } from "../format.js";
import { h } from "./dom.js";
import { linkedTitle, pinMark, storedFields, valueNodes } from "./item.js";

const COLUMNS_MAX = 12;
/** Values up to this long, such as dates, stay on one line. */
const SHORT_CHARS_MAX = 16;

/** @param {object[]} items as they came @param {object} page as of `createItem` */
export function createTable(items, page) {
  const columns = columnsOf(items, page.schema);
  return h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Items as a table" },
    h(
      "table",
      { class: "items-table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((field) => h("th", { scope: "col" }, fieldTitle(field))),
        ),
      ),
      h(
        "tbody",
        {},
        items.map((item) => row(item, columns, page)),
      ),
    ),
  );
}

/** The configured fields, else the title and then the fields that most items have. */
function columnsOf(items, schema) {
  if (schema.display.fields) return [schema.titleField, ...schema.display.fields];
  const counts = new Map();
  for (const item of items)
    for (const [field, value] of Object.entries(storedFields(item)))
      if (value !== null) counts.set(field, (counts.get(field) ?? 0) + 1);
  counts.delete(schema.titleField);
  counts.delete(schema.display.image);
  const fields = [...counts].sort((one, other) => other[1] - one[1]).map(([field]) => field);
  return [schema.titleField, ...fields.slice(0, COLUMNS_MAX - 1)];
}

function row(item, columns, page) {
  const { schema } = page;
  const stored = storedFields(item);
  const marks = item._highlight ?? {};
  return h(
    "tr",
    {},
    columns.map((field) =>
      field === schema.titleField
        ? h("th", { scope: "row", dir: "auto" }, linkedTitle(item, page), pinMark(item, page))
        : h(
            "td",
            { dir: "auto", class: isShort(stored[field]) ? "short" : null },
            Object.hasOwn(stored, field) ? valueNodes(stored[field], marks[field]) : null,
          ),
    ),
  );
}

function isShort(value) {
  return typeof value === "string" && value.length <= SHORT_CHARS_MAX;
}
