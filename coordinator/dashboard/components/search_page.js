/** The elements of the search page, and how a state and an answer are shown in them. */

import { plural } from "../format.js";
import * as states from "../state.js";
import { drawChips } from "./chips.js";
import { configureDialog } from "./configuration.js";
import { button, fill, h, icon, refill } from "./dom.js";
import { createFacet } from "./facet.js";
import { createItem, pinnedBy } from "./item.js";
import { createMap } from "./map.js";
import { createTable } from "./table.js";
import { createTree } from "./tree.js";
import { acceptDrops, loadDialog } from "./loader.js";
import { emptyState, remark, showError } from "./notice.js";
import { pager } from "./pager.js";
import { proposalDialog } from "./proposal.js";
import { scoreParts } from "./score.js";
import { createSearchControls } from "./search_controls.js";
import { createSuggestions } from "./suggestions.js";
import { drawTimings } from "./timings.js";

/** All nodes of a tree, those below others too. */
const nodesOf = (nodes = []) => nodes.flatMap((node) => [node, ...nodesOf(node.children)]);

/**
 * @param {object} page `apply(change)` changes the state, `type(text)` its query; `ask()` asks again,
 *   `reopen()` reloads the index; `getState()` is the newest state; `prepareBrush(facet)` and
 *   `moveBrush(facet, low, high)` tell of the brush of a histogram
 */
export function createSearchPage({
  index,
  schema,
  apply,
  type,
  ask,
  reopen,
  getState,
  prepareBrush,
  moveBrush,
}) {
  let shown = null; // the newest answer with its request: {request, found}
  let pages = 1;

  const input = h("input", {
    type: "search",
    class: "search-input",
    placeholder: `Search ${plural(schema.items, "item")}`,
    "aria-label": `Search ${index}`,
    "aria-keyshortcuts": "/",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      type(input.value);
      suggestions.show(getState());
    },
    onkeydown: (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        moveItem(+1);
      } else if (event.key === "Enter") {
        suggestions.clear();
        ask();
      }
    },
  });
  const suggestions = createSuggestions({
    index,
    choose: (text) => {
      apply((state) => states.withQuery(state, text));
      input.focus();
    },
  });
  const total = h("p", { class: "total", role: "status" });
  const timing = h("details", { class: "popover timings", hidden: true });
  const chips = h("ul", { class: "chips", "aria-label": "What narrows the result" });
  const messages = h("div", { class: "messages" });
  const results = h("div", { class: "results" });
  const pagerPlace = h("div", { class: "pager-place" });
  const trees = schema.trees.map((tree) => createTree(tree, { apply, refresh }));
  const maps = schema.places ? [createMap(schema.places, { apply, refresh })] : [];
  const facets = schema.facets.map((facet) =>
    createFacet(facet, { index, schema, apply, refresh, prepareBrush, moveBrush }),
  );
  const facetsId = "facets";
  const filtersToggle = button("Filters", {
    iconName: "filter",
    kind: "filters-toggle",
    "aria-controls": facetsId,
    "aria-expanded": "false",
    onclick: () => {
      const isOpen = aside.classList.toggle("is-open");
      filtersToggle.setAttribute("aria-expanded", String(isOpen));
    },
  });
  const aside = h(
    "aside",
    { class: "facets", id: facetsId, "aria-label": "Facets" },
    maps.map((map) => map.element),
    trees.map((tree) => tree.element),
    facets.length > 0 ? facets.map((facet) => facet.element) : trees.length + maps.length === 0 && noFacets(),
  );
  const controls = createSearchControls({
    index,
    schema,
    apply,
    filtersToggle,
    getShown: () => shown,
    reopen,
  });

  const element = h(
    "div",
    { class: "search-layout" },
    h(
      "div",
      { class: "search-bar" },
      h("h1", { class: "index-name" }, index),
      h("div", { class: "search-field" }, icon("search"), input),
      controls.menu,
    ),
    aside,
    h(
      "section",
      { class: "hits", "aria-label": "Results" },
      h(
        "div",
        { class: "toolbar" },
        h("div", { class: "summary" }, total, timing),
        controls.element,
      ),
      suggestions.element,
      chips,
      messages,
      results,
      pagerPlace,
    ),
  );

  const load = (file) => loadDialog({ name: index, file, onDone: reopen });
  acceptDrops(element, load);

  function noFacets() {
    return h(
      "div",
      { class: "facet" },
      h(
        "p",
        { class: "muted" },
        "This index has no facets yet. Let facetd look at the items and propose some, or name them yourself.",
      ),
      schema.items > 0 &&
        button("Propose facets", {
          kind: "primary",
          onclick: () => proposalDialog(index, reopen),
        }),
      button("Configure facets", {
        iconName: "settings",
        onclick: () => configureDialog({ name: index, onDone: reopen }),
      }),
    );
  }

  /** A facet was opened or shown in another way. */
  function refresh() {
    [...maps, ...trees, ...facets].forEach((facet) => facet.update(getState(), null));
    ask();
  }

  /** An item was edited or deleted. */
  function changed() {
    ask();
    input.focus();
  }

  /** Shows what is chosen, before any answer. */
  function show() {
    const state = getState();
    if (document.activeElement !== input || input.value.trim() !== state.query.trim())
      input.value = state.query;
    controls.show(state);
    drawChips(chips, state, schema, apply);
    for (const facet of [...maps, ...trees, ...facets]) facet.update(state, null);
    const chosen = states.countChoices(state);
    filtersToggle.lastChild.textContent = chosen > 0 ? `Filters (${chosen})` : "Filters";
  }

  function setBusy(isBusy) {
    results.setAttribute("aria-busy", String(isBusy));
  }

  function draw(state, request, found) {
    const { answer } = found;
    shown = { request, found };
    pages = Math.max(1, Math.ceil(answer.pagination.total / state.perPage));
    total.textContent = plural(answer.pagination.total, "item");
    drawTimings(timing, found);
    refill(messages, remarksOn(answer));
    for (const facet of [...maps, ...trees, ...facets]) facet.update(state, answer);
    drawResults(state, answer);
    refill(
      pagerPlace,
      pager({
        page: state.page,
        pages,
        onPage: turnTo,
      }),
    );
  }

  /**
   * Shows the counts of a range that is still being moved, from the joint counts of an answer: sums
   * up to each edge of its bins. The hits follow when the range is applied.
   */
  function preview(answer, low, high) {
    const cube = answer.data.facet_cube;
    const isWhole = low <= 0 && high >= cube.edges.length - 1;
    const within = ({ counts }) => counts[high] - counts[low];
    const items = isWhole ? answer.pagination.total : cube.total[high] - cube.total[low];
    total.textContent = plural(items, "item");
    for (const { facet, preview: show } of [...maps, ...facets]) {
      if (!facet.isOpen || facet.field === cube.field) continue;
      const buckets =
        answer.data.aggregations[facet.field]?.buckets ?? answer.data.ranges?.[facet.field] ?? [];
      const rows = cube.facets[facet.field] ?? cube.ranges[facet.field];
      show(
        buckets.map((bucket, place) => ({
          key: bucket.key,
          doc_count: isWhole || !rows ? bucket.doc_count : within(rows[place]),
        })),
      );
    }
    for (const { tree, preview: show } of trees) {
      const rows = isWhole
        ? nodesOf(answer.data.trees?.[tree.field]).map((node) => [node.path, node.doc_count])
        : cube.trees[tree.field]?.map((row) => [row.path, within(row)]);
      show(new Map(rows));
    }
  }

  /** What the user should know about an answer: other words, words left out, shards that are away. */
  function remarksOn({ meta = {}, pagination }) {
    const remarks = [];
    const meant = meta.did_you_mean;
    if (typeof meant === "string" && meant !== "")
      remarks.push(
        remark(
          "Did you mean ",
          button(meant, {
            kind: "quiet link",
            onclick: () => apply((state) => states.withQuery(state, meant)),
          }),
        ),
      );
    const said = [];
    if (pagination.total > 0 && meta.match === "any")
      said.push("No item has all of these words; here are those that have some.");
    if (pagination.total > 0 && meta.match === "last")
      said.push("No item has all of these words; the last ones were left out.");
    else if (pagination.total > 0 && meta.dropped_words?.length > 0)
      said.push(`No item has all of these words; left out: ${meta.dropped_words.join(", ")}.`);
    if (meta.ignored_words?.length > 0) {
      const words = meta.ignored_words.join(", ");
      said.push(pagination.total > 0 ? `Found nowhere, so left out: ${words}.` : `In no item: ${words}.`);
    }
    if (meta.shards?.failed > 0)
      said.push(
        `${meta.shards.failed} of ${meta.shards.total} shards did not answer: hits and counts are incomplete.`,
      );
    if (said.length > 0) remarks.push(remark(said.join(" ")));
    return remarks;
  }

  function drawResults(state, answer) {
    const { items } = answer.data;
    const totals = items.map((item) => scoreParts(item).reduce((sum, part) => sum + part.value, 0));
    const context = {
      index,
      schema,
      state,
      scoreMax: Math.max(0, ...totals),
      pinnedBy: pinnedBy(schema.rules, answer.meta?.rules ?? []),
      changed,
    };
    if (items.length > 0)
      fill(
        results,
        state.view === "table"
          ? createTable(items, context)
          : items.map((item) => createItem(item, context)),
      );
    else fill(results, nothingFound(state, answer.pagination.total));
    results.classList.toggle("is-json", state.view === "json");
  }

  function nothingFound(state, hits) {
    if (hits > 0) {
      return emptyState(
        "search",
        "This page lies behind the last one",
        `There are ${plural(pages, "page")} of results.`,
        button("First page", { onclick: () => turnTo(1) }),
      );
    }
    if (schema.items === 0) {
      return emptyState(
        "upload",
        "This index is empty",
        "Load a CSV, TSV or JSON file. It is searchable as soon as it is loaded.",
        button("Load a file", {
          kind: "primary",
          iconName: "upload",
          onclick: () => load(),
        }),
      );
    }
    const actions = [];
    if (states.countChoices(state) > 0)
      actions.push(button("Remove all filters", { onclick: () => apply(states.withoutChoices) }));
    if (state.query)
      actions.push(
        button("Clear the search", {
          onclick: () => apply((old) => states.withQuery(old, "")),
        }),
      );
    return emptyState(
      "search",
      "No item matches",
      actions.length > 1 ? "Try fewer words or fewer filters." : "Try another word or filter.",
      ...actions,
    );
  }

  function drawError(error) {
    const partial = button("Show what the others have", {
      onclick: () => apply((state) => ({ ...state, allowsPartial: true })),
    });
    const actions = error.code === "shard_unavailable" ? [partial] : [];
    const isNew = showError(messages, error, { retry: ask, actions });
    if (isNew && error.isTemporary)
      messages.append(
        h(
          "p",
          { class: "small muted" },
          "Trying again by itself. Below is the last answer, if there was one.",
        ),
      );
  }

  function turnTo(number) {
    apply((state) => ({ ...state, page: number }));
    scrollTo({ top: 0 });
  }

  function turnPage(by) {
    const next = getState().page + by;
    if (next >= 1 && next <= pages) turnTo(next);
  }

  function moveItem(by) {
    const items = [...results.querySelectorAll(".item")];
    const at = items.findIndex((item) => item.contains(document.activeElement));
    const target = at + by;
    if (target < 0 && at >= 0) input.focus();
    else items[Math.min(Math.max(target, 0), items.length - 1)]?.focus();
  }

  return {
    element,
    show,
    draw,
    preview,
    drawError,
    setBusy,
    turnPage,
    moveItem,
    focusSearch: () => input.select(),
  };
}
