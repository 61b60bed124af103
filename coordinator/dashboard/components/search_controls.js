/** What stands above the hits: sort, page size, view, explanation, curl; and the menu of the index. */

import { asCurl } from "../api.js";
import { fieldTitle } from "../format.js";
import { comparePath } from "../paths.js";
import * as states from "../state.js";
import { copyText } from "./clipboard.js";
import { configureDialog } from "./configuration.js";
import { button, fill, h, icon, uniqueId } from "./dom.js";
import { loadDialog } from "./loader.js";

const VIEW_TITLES = { table: "Table", json: "JSON" };

/**
 * Sort, page size, view, explanation, and the menu of the index. They are one row; on phones and
 * tablets, what is needed less often is behind its last button.
 */
export function createSearchControls({ index, schema, apply, filtersToggle, getShown, reopen }) {
  const option = (value, text) => h("option", { value }, text);
  const sort = h(
    "select",
    {
      "aria-label": "Sort by",
      onchange: () =>
        apply((state) => ({
          ...state,
          page: 1,
          sort: sort.value && `${sort.value}:${states.splitSort(state.sort)[1]}`,
        })),
    },
    option("", "Best match"),
    schema.sortFields.map((field) => option(field, fieldTitle(field))),
  );
  const direction = button("Reverse the order", {
    iconName: "up",
    isIconOnly: true,
    onclick: () =>
      apply((state) => {
        const [field, order] = states.splitSort(state.sort);
        const sort = order === "asc" ? `${field}:desc` : field && `${field}:asc`;
        return { ...state, page: 1, sort };
      }),
  });
  const perPage = h(
    "select",
    {
      "aria-label": "Items on a page",
      onchange: () => apply((state) => ({ ...state, page: 1, perPage: Number(perPage.value) })),
    },
    states.PER_PAGE_CHOICES.map((size) => option(String(size), `${size} a page`)),
  );
  const views = ["table", "json"].map((view) => ({
    view,
    control: button(VIEW_TITLES[view], {
      "aria-pressed": "false",
      onclick: () => apply((state) => ({ ...state, view: state.view === view ? "cards" : view })),
    }),
  }));
  const explain = button("Explain", {
    "aria-pressed": "false",
    title: "Show how the score of each item comes about",
    onclick: () => apply((state) => ({ ...state, explains: !state.explains })),
  });
  const curl = button("Copy as curl", {
    iconName: "copy",
    onclick: () => copyCurl(index, getShown()?.request),
  });
  const menu = h(
    "div",
    { class: "index-actions" },
    button("Load a file", {
      iconName: "upload",
      isIconOnly: true,
      onclick: () => loadDialog({ name: index, onDone: reopen }),
    }),
    button("Configure", {
      iconName: "settings",
      isIconOnly: true,
      onclick: () => configureDialog({ name: index, onDone: reopen }),
    }),
  );

  function show(state) {
    const [field, order] = states.splitSort(state.sort);
    if (field && !schema.sortFields.includes(field)) sort.append(option(field, fieldTitle(field)));
    sort.value = field;
    sort.firstElementChild.textContent = state.query.trim() ? "Best match" : "As loaded";
    fill(direction, icon(order === "asc" ? "up" : "down"));
    direction.disabled = field === "" && state.query.trim() !== "";
    direction.setAttribute(
      "aria-label",
      order === "asc" ? "Ascending; switch to descending" : "Descending; switch to ascending",
    );
    if (!states.PER_PAGE_CHOICES.includes(state.perPage))
      perPage.append(option(String(state.perPage), `${state.perPage} a page`));
    perPage.value = String(state.perPage);
    for (const { view, control } of views)
      control.setAttribute("aria-pressed", String(state.view === view));
    compare.href = comparePath(index, "", state.query);
    explain.setAttribute("aria-pressed", String(state.explains));
  }

  const compare = h(
    "a",
    { class: "button", href: comparePath(index, ""), title: "Ask another index the same" },
    "Compare",
  );
  const moreId = uniqueId("more");
  const more = h(
    "div",
    { class: "more-controls", id: moreId },
    perPage,
    views.map(({ control }) => control),
    explain,
    compare,
    curl,
  );
  const moreToggle = button("More controls", {
    iconName: "more",
    isIconOnly: true,
    kind: "more-toggle",
    "aria-expanded": "false",
    "aria-controls": moreId,
    onclick: () => {
      const isOpen = more.classList.toggle("is-open");
      moreToggle.setAttribute("aria-expanded", String(isOpen));
    },
  });
  const element = h(
    "div",
    { class: "controls" },
    filtersToggle,
    h("div", { class: "joined" }, sort, direction),
    moreToggle,
    more,
  );
  return { element, menu, show };
}

async function copyCurl(index, request) {
  if (!request) return;
  const { highlight, ...plain } = request; // the marks are private characters, of no use in a terminal
  const text = asCurl(
    index,
    highlight ? { ...plain, highlight: { fields: highlight.fields } } : plain,
  );
  await copyText(text, { name: "Command", done: "The command is in the clipboard" });
}
