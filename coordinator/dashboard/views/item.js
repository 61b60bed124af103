/**
 * One item on a page of its own, with an address to share:
 *
 *     /dashboard/{index}?item=ID
 *
 * All fields whole, values of facets as links to the items that share them.
 */

import { getItem, parseJson, toJson } from "../api.js";
import { copyText } from "../components/clipboard.js";
import { button, fill, h } from "../components/dom.js";
import {
  deleteDialog,
  editItem,
  flatText,
  isPoint,
  picture,
  plainTitle,
  pointText,
} from "../components/item.js";
import { boxAround, pointMap } from "../components/map.js";
import { emptyState, errorNotice } from "../components/notice.js";
import { fieldTitle, indentJson, plainNumber } from "../format.js";
import { itemPath, searchPath } from "../paths.js";
import { loadSchema } from "../schema.js";
import { EMPTY_STATE, withChoice, writeState } from "../state.js";

const LONG_TEXT = 80;
const LIST_SHOWN = 200;

/** @param {{index: string, id: string, go: Function}} route */
export function itemView({ index, id, go }) {
  const controller = new AbortController();
  const place = h("div", { class: "item-page" });
  const element = h(
    "div",
    { class: "page" },
    h(
      "nav",
      { "aria-label": "Where this is" },
      h("a", { href: searchPath(index), class: "back-link" }, "← ", index),
    ),
    place,
  );

  async function open() {
    fill(place, h("p", { class: "loading", role: "status" }, "Reading…"));
    try {
      const [schema, { text }] = await Promise.all([
        loadSchema(index, controller.signal),
        getItem(index, id, controller.signal),
      ]);
      draw(schema, text);
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(
        place,
        h("h1", { class: "visually-hidden" }, `Item ${id}`),
        error.code === "item_not_found"
          ? emptyState(
              "search",
              `There is no item “${id}”`,
              `It may have been deleted, or have another id, in the index ${index}.`,
              button("All items", { onclick: () => go(searchPath(index)) }),
            )
          : errorNotice(error, { retry: open }),
      );
    }
  }

  function draw(schema, text) {
    const item = parseJson(text);
    const title = plainTitle(item, schema.titleField);
    document.title = `${title} · ${index} · facetd`;
    const page = { index, changed: open };
    const shown = Object.entries(item).filter(
      ([field, value]) =>
        field !== schema.titleField && field !== schema.display.image && value !== null,
    );
    const order = schema.display.fields ?? [];
    const rank = ([field]) => order.indexOf(field) + 1 || Infinity;
    shown.sort((one, other) => rank(one) - rank(other) || 0);
    const isProse = ([, value]) => typeof value === "string" && value.length > LONG_TEXT;
    fill(
      place,
      h(
        "header",
        { class: "page-head" },
        h("h1", { dir: "auto" }, title),
        h(
          "div",
          { class: "actions" },
          button("Copy link", { iconName: "copy", onclick: () => copyLink() }),
          button("Edit", { iconName: "edit", onclick: () => editItem(page, id) }),
          button("Delete", {
            iconName: "trash",
            onclick: () => deleteDialog({ index, changed: () => go(searchPath(index)) }, id, title),
          }),
        ),
      ),
      h(
        "div",
        { class: "item-columns" },
        picture(item[schema.display.image], title),
        h(
          "dl",
          { class: "item-facts" },
          [...shown.filter((entry) => !isProse(entry)), ...shown.filter(isProse)].map(
            ([field, value]) => fact(field, value, schema, isProse([field, value])),
          ),
        ),
      ),
      h(
        "details",
        { class: "panel" },
        h("summary", {}, "As JSON"),
        h(
          "pre",
          { class: "code", tabindex: "0", "aria-label": "The item as JSON" },
          indentJson(text),
        ),
      ),
    );
  }

  function fact(field, value, schema, isLong) {
    const facet = schema.facets.find((candidate) => candidate.field === field);
    return h(
      "div",
      { class: isLong ? "is-long" : undefined },
      h("dt", {}, facet?.title ?? fieldTitle(field)),
      h("dd", { dir: "auto" }, valueNodes(field, value, facet, schema)),
    );
  }

  function valueNodes(field, value, facet, schema) {
    if (!Array.isArray(value)) return valueNode(field, value, facet, schema);
    const rest = value.length - LIST_SHOWN;
    return h(
      "ul",
      { class: "tags" },
      value
        .slice(0, LIST_SHOWN)
        .map((one) => h("li", { class: "tag" }, valueNode(field, one, facet, schema))),
      rest > 0 && h("li", { class: "muted" }, `and ${rest} more`),
    );
  }

  function valueNode(field, value, facet, schema) {
    if (isPoint(value)) return pointNodes(field, value, schema);
    if (value !== null && typeof value === "object")
      return flatText(value) ?? h("code", { class: "code" }, toJson(value));
    const text = typeof value === "number" ? plainNumber(value) : String(value);
    if (facet) {
      const state = withChoice(EMPTY_STATE, field, { selected: [String(value)] });
      return h("a", { href: searchPath(index) + writeState(state) }, text);
    }
    if (/^https?:\/\//.test(text))
      return h("a", { href: text, rel: "noreferrer noopener", target: "_blank" }, text);
    return text;
  }

  /** A point as text; for the map of the index as a link to what is near, over a map around it. */
  function pointNodes(field, point, schema) {
    if (schema.places?.field !== field) return pointText(point);
    const state = withChoice(EMPTY_STATE, field, { box: boxAround(point) });
    return [
      h("a", { href: searchPath(index) + writeState(state) }, pointText(point)),
      pointMap(point),
    ];
  }

  async function copyLink() {
    const address = location.origin + itemPath(index, id);
    await copyText(address, { name: "Link", done: "The link is in the clipboard" });
  }

  open();
  return { element, title: `${id} · ${index}`, close: () => controller.abort() };
}
