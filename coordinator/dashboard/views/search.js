/**
 * The search page of one index. One request per change of the state, which the URL carries whole:
 *
 *     control -> apply(change) -> state -> URL
 *                                   └────> ask() -> Latest -> draw(answer)
 */

import { STALE, Latest, asCurl, search } from "../api.js";
import { createFacet } from "../components/facet.js";
import { createItem } from "../components/item.js";
import { openDialog } from "../components/dialog.js";
import { button, fill, h, icon } from "../components/dom.js";
import { emptyState, errorNotice, remark, toast } from "../components/notice.js";
import { pager } from "../components/pager.js";
import { scoreParts } from "../components/score.js";
import { stackedBar } from "../components/chart.js";
import { configureDialog } from "../components/configuration.js";
import { loadDialog } from "../components/loader.js";
import { count, fieldTitle, milliseconds, plural } from "../format.js";
import { loadBins, loadSchema } from "../schema.js";
import { labelRange } from "../range_label.js";
import * as states from "../state.js";

const TYPING_DELAY_MS = 40;
const TYPING_PAUSE_MS = 1200; // a longer pause starts a new entry of the browser's history
const OPEN_FACETS = 6;
const RETRY_MS = 2000;

/** @param {{index: string, search: string, go: Function}} route */
export function searchView({ index, search: initialSearch, go }) {
  const element = h("div", { class: "search-page" });
  const schemaRequest = new Latest();
  const searchRequest = new Latest();
  let state = states.readState(initialSearch);
  let schema = null;
  let page = null;
  let lastTyped = 0;
  let timer = 0;
  let retryTimer = 0;

  // --- from control to state to URL ------------------------------------------------------------

  /** `change(state)` gives the next state; `replaces` re-writes the current entry of the history. */
  function apply(change, { replaces = false } = {}) {
    state = change(state);
    const url = location.pathname + states.writeState(state);
    if (url !== location.pathname + location.search) history[replaces ? "replaceState" : "pushState"](null, "", url);
    page.show();
    ask();
  }

  function type(text) {
    const isSameBurst = performance.now() - lastTyped < TYPING_PAUSE_MS;
    lastTyped = performance.now();
    state = { ...state, query: text, page: 1 };
    history[isSameBurst ? "replaceState" : "pushState"](null, "", location.pathname + states.writeState(state));
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING_DELAY_MS);
  }

  /** The browser went back or forward within this page. */
  function navigate(search) {
    state = states.readState(search);
    if (!page) return;
    page.show();
    ask();
  }

  // --- from state to answer ----------------------------------------------------------------------

  async function ask() {
    clearTimeout(timer);
    clearTimeout(retryTimer);
    const asked = state;
    const request = states.searchRequest(asked, schema, schema.facets.filter((facet) => facet.isOpen));
    page.setBusy(true);
    try {
      const found = await searchRequest.run((signal) => search(index, request, signal));
      if (found === STALE) return;
      page.setBusy(false);
      page.draw(asked, request, found);
    } catch (error) {
      page.setBusy(false);
      page.drawError(error);
      if (error.isTemporary) retryTimer = setTimeout(ask, (error.retryAfter ?? 0) * 1000 || RETRY_MS);
    }
  }

  async function open() {
    fill(element, h("p", { class: "loading", role: "status" }, `Opening ${index}…`));
    try {
      const opened = await schemaRequest.run(async (signal) => {
        const loaded = await loadSchema(index, signal);
        await loadBins(index, loaded.facets, signal);
        return loaded;
      });
      if (opened === STALE) return;
      schema = opened;
    } catch (error) {
      fill(element, openError(index, error, open, go));
      return;
    }
    schema.facets.forEach((facet, place) => {
      const choice = states.choiceOf(state, facet.field);
      facet.isOpen = place < OPEN_FACETS || choice !== states.choiceOf(states.EMPTY_STATE, facet.field);
    });
    page = createPage({ index, schema, apply, type, ask, reopen: open, getState: () => state });
    fill(element, page.element);
    page.show();
    if (!matchMedia("(pointer: coarse)").matches) page.focusSearch();
    ask();
  }

  open();
  return {
    element,
    title: index,
    navigate,
    focusSearch: () => page?.focusSearch(),
    turnPage: (by) => page?.turnPage(by),
    moveItem: (by) => page?.moveItem(by),
    close() {
      schemaRequest.cancel();
      searchRequest.cancel();
      clearTimeout(timer);
      clearTimeout(retryTimer);
    },
  };
}

function openError(index, error, retry, go) {
  if (error.code === "index_not_found") {
    return emptyState(
      "search",
      `There is no index “${index}”`,
      "It may have been removed, or never created. Create it with a configuration, or choose another.",
      button("Create it", { kind: "primary", onclick: () => configureDialog({ name: index, isNew: true, onDone: retry }) }),
      button("All indices", { onclick: () => go("/dashboard") }),
    );
  }
  return errorNotice(error, { retry });
}

/** The elements of the page, and how an answer is shown in them. */
function createPage({ index, schema, apply, type, ask, reopen, getState }) {
  let shown = null; // the newest answer with its request: {request, found}
  let pages = 1;

  const input = h("input", {
    type: "search",
    class: "search-input",
    placeholder: `Search ${plural(schema.items, "item")}`,
    "aria-label": `Search ${index}`,
    "aria-keyshortcuts": "/",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    oninput: () => type(input.value),
    onkeydown: (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        moveItem(+1);
      } else if (event.key === "Enter") ask();
    },
  });
  const total = h("p", { class: "total", role: "status" });
  const timing = h("details", { class: "popover timings", hidden: true });
  const chips = h("ul", { class: "chips", "aria-label": "What narrows the result" });
  const messages = h("div", { class: "messages" });
  const results = h("div", { class: "results" });
  const pagerPlace = h("div", { class: "pager-place" });
  const facets = schema.facets.map((facet) => createFacet(facet, { index, apply, refresh }));
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
    facets.length > 0 ? facets.map((facet) => facet.element) : noFacets(),
  );
  const controls = createControls({ index, schema, apply, getState, getShown: () => shown, reopen, changed });

  const element = h(
    "div",
    { class: "search-layout" },
    h(
      "div",
      { class: "search-bar" },
      h("h1", { class: "index-name" }, index),
      h("div", { class: "search-field" }, icon("search"), input),
      filtersToggle,
      controls.menu,
    ),
    aside,
    h(
      "section",
      { class: "hits", "aria-label": "Results" },
      h("div", { class: "toolbar" }, h("div", { class: "summary" }, total, timing), controls.element),
      chips,
      messages,
      results,
      pagerPlace,
    ),
  );

  function noFacets() {
    return h(
      "div",
      { class: "facet" },
      h("p", { class: "muted" }, "This index has no facets yet. Name fields under “aggregations” to count and filter by their values."),
      button("Configure facets", { iconName: "settings", onclick: () => configureDialog({ name: index, onDone: reopen }) }),
    );
  }

  /** A facet was opened or shown in another way. */
  function refresh() {
    facets.forEach((facet) => facet.update(getState(), null));
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
    if (document.activeElement !== input || input.value.trim() !== state.query.trim()) input.value = state.query;
    controls.show(state);
    drawChips(state);
    for (const facet of facets) facet.update(state, null);
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
    fill(messages, warningsOf(answer.meta, schema));
    for (const facet of facets) facet.update(state, answer);
    drawResults(state, answer);
    fill(
      pagerPlace,
      pager({
        page: state.page,
        pages,
        onPage: turnTo,
      }),
    );
  }

  function drawResults(state, answer) {
    const { items } = answer.data;
    const totals = items.map((item) => scoreParts(item).reduce((sum, part) => sum + part.value, 0));
    const context = { index, schema, state, scoreMax: Math.max(0, ...totals), changed };
    if (items.length > 0) fill(results, items.map((item) => createItem(item, context)));
    else fill(results, nothingFound(state, answer.pagination.total));
    results.classList.toggle("is-json", state.view === "json");
  }

  function nothingFound(state, hits) {
    if (hits > 0) {
      return emptyState("search", "This page lies behind the last one", `There are ${plural(pages, "page")} of results.`, button("First page", { onclick: () => turnTo(1) }));
    }
    if (schema.items === 0) {
      return emptyState(
        "upload",
        "This index is empty",
        "Load a file with one JSON object a line, or a JSON array. It is searchable as soon as it is loaded.",
        button("Load a file", { kind: "primary", iconName: "upload", onclick: () => loadDialog({ name: index, onDone: reopen }) }),
      );
    }
    const actions = [];
    if (states.countChoices(state) > 0) actions.push(button("Remove all filters", { onclick: () => apply(states.withoutChoices) }));
    if (state.query) actions.push(button("Clear the search", { onclick: () => apply((old) => ({ ...old, query: "", page: 1 })) }));
    return emptyState("search", "No item matches", actions.length > 1 ? "Try fewer words or fewer filters." : "Try another word or filter.", ...actions);
  }

  function drawError(error) {
    const partial = button("Show what the others have", { onclick: () => apply((state) => ({ ...state, allowsPartial: true })) });
    fill(messages, errorNotice(error, { retry: ask, actions: error.code === "shard_unavailable" ? [partial] : [] }));
    if (error.isTemporary) messages.append(h("p", { class: "small muted" }, "Trying again by itself. Below is the last answer, if there was one."));
  }

  function drawChips(state) {
    const entries = Object.entries(state.choices).flatMap(([field, choice]) => chipsOf(field, choice));
    fill(
      chips,
      entries,
      entries.length > 1 && h("li", {}, button("Clear all", { kind: "quiet", onclick: () => apply(states.withoutChoices) })),
    );
    chips.hidden = entries.length === 0;
  }

  function chipsOf(field, choice) {
    const facet = schema.facets.find((candidate) => candidate.field === field);
    const title = facet?.title ?? fieldTitle(field);
    const values = (keys, isExcluded) =>
      keys.map((key) => chip(`${title}: ${isExcluded ? "not " : ""}${key}`, isExcluded, (state) => states.withMark(state, field, key, "off")));
    const chips = [...values(choice.selected, false), ...values(choice.excluded, true)];
    if (states.hasRange(choice)) {
      chips.push(chip(`${title}: ${labelRange(choice, facet)}`, false, (state) => states.withChoice(state, field, { low: null, high: null })));
    }
    return chips;
  }

  function chip(text, isExcluded, change) {
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: `chip ${isExcluded ? "is-excluded" : ""}`.trim(), "aria-label": `Remove ${text}`, onclick: () => apply(change) },
        h("span", {}, text),
        icon("close"),
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

  return { element, show, draw, drawError, setBusy, turnPage, moveItem, focusSearch: () => input.select() };
}

/** Sort, page size, view, explanation, and the menu of the index. */
function createControls({ index, schema, apply, getState, getShown, reopen }) {
  const option = (value, text) => h("option", { value }, text);
  const sort = h(
    "select",
    { "aria-label": "Sort by", onchange: () => apply((state) => ({ ...state, page: 1, sort: sort.value && `${sort.value}:${states.splitSort(state.sort)[1]}` })) },
    option("", "Best match"),
    schema.sortFields.map((field) => option(field, fieldTitle(field))),
  );
  const direction = button("Reverse the order", {
    iconName: "up",
    isIconOnly: true,
    onclick: () =>
      apply((state) => {
        const [field, order] = states.splitSort(state.sort);
        return { ...state, page: 1, sort: `${field}:${order === "asc" ? "desc" : "asc"}` };
      }),
  });
  const perPage = h(
    "select",
    { "aria-label": "Items on a page", onchange: () => apply((state) => ({ ...state, page: 1, perPage: Number(perPage.value) })) },
    states.PER_PAGE_CHOICES.map((size) => option(String(size), `${size} a page`)),
  );
  const json = button("JSON", { "aria-pressed": "false", onclick: () => apply((state) => ({ ...state, view: state.view === "json" ? "cards" : "json" })) });
  const explain = button("Explain", {
    "aria-pressed": "false",
    title: "Show how the score of each item comes about",
    onclick: () => apply((state) => ({ ...state, explains: !state.explains })),
  });
  const curl = button("Copy as curl", { iconName: "copy", onclick: () => copyCurl(index, getShown()?.request) });
  const menu = h(
    "div",
    { class: "index-actions" },
    button("Load a file", { iconName: "upload", isIconOnly: true, onclick: () => loadDialog({ name: index, onDone: reopen }) }),
    button("Configure", { iconName: "settings", isIconOnly: true, onclick: () => configureDialog({ name: index, onDone: reopen }) }),
  );

  function show(state) {
    const [field, order] = states.splitSort(state.sort);
    if (field && !schema.sortFields.includes(field)) sort.append(option(field, fieldTitle(field)));
    sort.value = field;
    sort.firstElementChild.textContent = state.query.trim() ? "Best match" : "Order of loading";
    fill(direction, icon(order === "asc" ? "up" : "down"));
    direction.disabled = field === "";
    direction.setAttribute("aria-label", order === "asc" ? "Ascending; switch to descending" : "Descending; switch to ascending");
    if (!states.PER_PAGE_CHOICES.includes(state.perPage)) perPage.append(option(String(state.perPage), `${state.perPage} a page`));
    perPage.value = String(state.perPage);
    json.setAttribute("aria-pressed", String(state.view === "json"));
    explain.setAttribute("aria-pressed", String(state.explains));
  }

  const element = h("div", { class: "controls" }, h("div", { class: "joined" }, sort, direction), perPage, json, explain, curl);
  return { element, menu, show };
}

async function copyCurl(index, request) {
  if (!request) return;
  const { highlight, ...plain } = request; // the marks are private characters, of no use in a terminal
  const text = asCurl(index, highlight ? { ...plain, highlight: { fields: highlight.fields } } : plain);
  try {
    await navigator.clipboard.writeText(text);
    toast("The command is in the clipboard");
  } catch {
    const area = h("textarea", { class: "code", rows: "10", readonly: true, autofocus: true, "aria-label": "Command" }, text);
    openDialog("Copy this command", () => [h("div", { class: "dialog-body" }, area)], { kind: "wide" });
    area.select();
  }
}

function drawTimings(timing, { answer, phases, roundTripMs }) {
  const whole = phases.find((phase) => phase.name === "total");
  const parts = phases
    .filter((phase) => phase.name !== "total")
    .map((phase) => ({ label: phase.name, value: phase.ms, text: milliseconds(phase.ms) }));
  const sum = parts.reduce((total, part) => total + part.value, 0);
  const rest = (whole?.ms ?? sum) - sum;
  if (rest > 0) parts.push({ label: "rest", value: rest, text: milliseconds(rest) });
  const took = whole?.ms ?? (answer.meta?.took_us ?? 0) / 1000;
  timing.hidden = false;
  fill(
    timing,
    h("summary", {}, `in ${milliseconds(took)}`),
    h(
      "div",
      { class: "popover-body" },
      h("h2", {}, "Where the time went"),
      stackedBar(parts, Math.max(took, sum), "Phases"),
      h("p", { class: "small muted" }, `${milliseconds(roundTripMs)} from request to answer as seen by this browser.`),
    ),
  );
}

function warningsOf(meta, schema) {
  const warnings = [];
  if (meta?.ignored_words?.length > 0) {
    warnings.push(remark(`Found nowhere, so left out: ${meta.ignored_words.join(", ")}.`));
  }
  if (meta?.shards?.failed?.length > 0 || meta?.shards?.failed > 0) {
    const failed = meta.shards.failed.length ?? meta.shards.failed;
    warnings.push(remark(`${failed} of ${meta.shards.total} shards did not answer: hits and counts are incomplete.`));
  }
  return warnings;
}
