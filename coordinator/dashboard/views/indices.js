/** The first page: which indexes there are, and everything that can be done with one. */

import { STALE, Latest, emptyIndex, listIndexes, removeIndex } from "../api.js";
import { configureDialog } from "../components/configuration.js";
import { confirmLoss } from "../components/dialog.js";
import { button, fill, h, reconcile, refill, setText } from "../components/dom.js";
import { stateBadge } from "../components/figures.js";
import { acceptDrops, loadDialog } from "../components/loader.js";
import { emptyState, showError, toast } from "../components/notice.js";
import { bytes, count, fieldTitle, plural } from "../format.js";
import { searchPath } from "../paths.js";

const REFRESH_MS = 4000;
const FACETS_SHOWN = 8;
const FILTER_FROM = 8;

export function indicesView({ go }) {
  const latest = new Latest();
  const summary = h("p", { class: "muted", role: "status" });
  const problem = h("div", { class: "messages" });
  const list = h("ul", { class: "index-list" });
  const empty = h("div", { hidden: true });
  const filter = h("input", {
    type: "search",
    placeholder: "Find an index",
    "aria-label": "Find an index",
    hidden: true,
    oninput: () => draw(),
  });
  let indexes = null;
  let timer = 0;

  const element = h(
    "div",
    { class: "page" },
    h(
      "header",
      { class: "page-head" },
      h("div", {}, h("h1", {}, "Indexes"), summary),
      h(
        "div",
        { class: "actions" },
        filter,
        button("Create index", { iconName: "plus", onclick: () => create() }),
        button("Load a file", { iconName: "upload", kind: "primary", onclick: () => loadNew() }),
      ),
    ),
    problem,
    list,
    empty,
  );
  acceptDrops(element, loadNew);

  async function refresh() {
    clearTimeout(timer);
    try {
      const found = await latest.run((signal) => listIndexes(signal));
      if (found === STALE) return;
      indexes = found;
      refill(problem);
      draw();
    } catch (error) {
      showError(problem, error, { retry: refresh });
      if (error.isRefused) return;
    }
    schedule();
  }

  function schedule() {
    timer = setTimeout(() => (document.hidden ? schedule() : refresh()), REFRESH_MS);
  }

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    const rows = indexes
      .filter((entry) => entry.name.toLowerCase().includes(wanted))
      .sort((one, other) => one.name.localeCompare(other.name));
    const items = indexes.reduce((sum, entry) => sum + entry.items, 0);
    const size = indexes.reduce((sum, entry) => sum + entry.bytes, 0);
    const isSome = indexes.length > 0;
    const counts = [plural(indexes.length, "index", "indexes"), plural(items, "item"), bytes(size)];
    setText(summary, isSome ? counts.join(" · ") : "");
    filter.hidden = indexes.length < FILTER_FROM && !wanted;
    reconcile(list, rows, (entry) => entry.name, createRow, updateRow);
    empty.hidden = rows.length > 0;
    if (indexes.length === 0 && !empty.hasChildNodes()) fill(empty, welcome());
    else if (indexes.length > 0)
      fill(
        empty,
        rows.length === 0 && h("p", { class: "muted" }, "No index has this in its name."),
      );
  }

  function welcome() {
    return emptyState(
      "layers",
      "No index yet",
      "Drop a CSV, TSV or JSON file here: facetd looks at its columns, loads it, and proposes facets.",
      button("Load a file", { kind: "primary", iconName: "upload", onclick: () => loadNew() }),
      button("Create index", { iconName: "plus", onclick: () => create() }),
    );
  }

  function createRow({ name }) {
    const href = searchPath(name);
    const metric = (label) => h("div", { class: "metric" }, h("dt", {}, label), h("dd", {}));
    const facets = h("ul", { class: "tags", "aria-label": "Facets" });
    const state = h("span");
    const metrics = h("dl", { class: "metrics" }, ["Items", "Size", "Shards"].map(metric));
    const action = (label, iconName, onclick) =>
      button(`${label} ${name}`, { iconName, isIconOnly: true, kind: "quiet", onclick });
    const row = h(
      "li",
      { class: "index-row" },
      h("div", { class: "index-main" }, h("h2", {}, h("a", { href }, name)), state, facets),
      metrics,
      h(
        "div",
        { class: "actions" },
        action("Load a file into", "upload", () => load(name)),
        action("Configure", "settings", () => configureDialog({ name, onDone: refresh })),
        action("Empty", "empty", () => emptyDialog(name)),
        action("Remove", "trash", () => removeDialog(name)),
      ),
    );
    acceptDrops(row, (file) => load(name, file));
    row.show = (entry) => {
      const values = metrics.querySelectorAll("dd");
      values[0].textContent = count(entry.items);
      values[1].textContent = bytes(entry.bytes);
      values[2].textContent = Array.isArray(entry.shards)
        ? count(entry.shards.length)
        : count(entry.shards);
      fill(state, stateBadge(entry.state));
      const names = entry.facets
        .slice(0, FACETS_SHOWN)
        .map((field) => h("li", { class: "tag" }, fieldTitle(field)));
      if (entry.facets.length > FACETS_SHOWN)
        names.push(h("li", { class: "muted" }, `+${entry.facets.length - FACETS_SHOWN}`));
      if (facets.dataset.shown !== entry.facets.join()) fill(facets, names);
      facets.dataset.shown = entry.facets.join();
      facets.hidden = names.length === 0;
    };
    return row;
  }

  function updateRow(row, entry) {
    row.show(entry);
  }

  function namesOf(entries) {
    return entries.map((entry) => entry.name);
  }

  // --- what can be done ------------------------------------------------------------------------

  function create() {
    configureDialog({
      isNew: true,
      onDone: (name) => go(searchPath(name)),
    });
  }

  /** A file of one's own, from the first look to a faceted page. */
  function loadNew(file = null) {
    loadDialog({
      file,
      taken: indexes === null ? listIndexes().then(namesOf, () => []) : namesOf(indexes),
      onDone: (name) => go(searchPath(name)),
    });
  }

  function load(name, file = null) {
    loadDialog({ name, file, onDone: refresh });
  }

  function emptyDialog(name) {
    confirmLoss({
      title: `Empty ${name}?`,
      text: "All its items will be gone; its configuration stays.",
      action: "Empty the index",
      mustType: name,
      act: async () => {
        await emptyIndex(name);
        toast(`${name} is empty now`);
        refresh();
      },
    });
  }

  function removeDialog(name) {
    confirmLoss({
      title: `Remove ${name}?`,
      text: "The index, its items and its configuration will be gone. This cannot be undone.",
      action: "Remove the index",
      mustType: name,
      act: async () => {
        await removeIndex(name);
        toast(`${name} is removed`);
        refresh();
      },
    });
  }

  refresh();
  return {
    element,
    title: "Indexes",
    focusSearch: () => !filter.hidden && filter.focus(),
    close() {
      latest.cancel();
      clearTimeout(timer);
    },
  };
}
