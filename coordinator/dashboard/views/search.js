/**
 * The search page of one index. One request per change of the state, which the URL carries whole:
 *
 *     control -> apply(change) -> state -> URL
 *                                   └────> ask() -> Latest -> draw(answer)
 */

import { STALE, Latest, search, toJson } from "../api.js";
import { configureDialog } from "../components/configuration.js";
import { button, fill, h } from "../components/dom.js";
import { emptyState, errorNotice } from "../components/notice.js";
import { createSearchPage } from "../components/search_page.js";
import { HOME } from "../paths.js";
import { loadBins, loadBounds, loadSchema } from "../schema.js";
import * as states from "../state.js";

const TYPING_DELAY_MS = 40;
const TYPING_PAUSE_MS = 1200; // a longer pause starts a new entry of the browser's history
const OPEN_LISTS = 6;
const OPEN_HISTOGRAMS = 4;
const RETRY_MS = 2000;

/** @param {{index: string, search: string, go: Function}} route */
export function searchView({ index, search: initialSearch, go }) {
  const element = h("div", { class: "search-page" });
  const schemaRequest = new Latest();
  const searchRequest = new Latest();
  const cubeRequest = new Latest();
  let state = states.readState(initialSearch);
  let schema = null;
  let page = null;
  let lastTyped = 0;
  let timer = 0;
  let retryTimer = 0;
  let isClosed = false;
  let prepared = null; // joint counts: {key of the request, answer once it is there}

  // --- from control to state to URL ------------------------------------------------------------

  /** `change(state)` gives the next state; `replaces` re-writes the current entry of the history. */
  function apply(change, { replaces = false } = {}) {
    if (isClosed) return; // a timer of a control: the address is that of another page by now
    state = change(state);
    const url = location.pathname + states.writeState(state);
    if (url !== location.pathname + location.search)
      history[replaces ? "replaceState" : "pushState"](null, "", url);
    page.show();
    ask();
  }

  function type(text) {
    const isSameBurst = performance.now() - lastTyped < TYPING_PAUSE_MS;
    lastTyped = performance.now();
    state = states.withQuery(state, text);
    history[isSameBurst ? "replaceState" : "pushState"](
      null,
      "",
      location.pathname + states.writeState(state),
    );
    page.show();
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING_DELAY_MS);
  }

  /** The browser went back or forward within this page. */
  function navigate(parameters) {
    state = states.readState(parameters);
    if (!page) return;
    page.show();
    ask();
  }

  // --- from state to answer ----------------------------------------------------------------------

  async function ask() {
    clearTimeout(timer);
    clearTimeout(retryTimer);
    const asked = state;
    const request = states.searchRequest(
      asked,
      schema,
      schema.facets.filter((facet) => facet.isOpen),
    );
    page.setBusy(true);
    try {
      const found = await searchRequest.run((signal) => search(index, request, signal));
      if (found === STALE) return;
      page.setBusy(false);
      if (prepared) prepared.last = null;
      page.draw(asked, request, found);
    } catch (error) {
      page.setBusy(false);
      page.drawError(error);
      if (error.isTemporary)
        retryTimer = setTimeout(ask, (error.retryAfter ?? 0) * 1000 || RETRY_MS);
    }
  }

  // --- brushes -----------------------------------------------------------------------------------

  /** Fetches the joint counts of a histogram with all other facets, before its brush moves. */
  async function prepareBrush(facet) {
    if (facet.isDate) return;
    const open = schema.facets.filter((other) => other.isOpen);
    const request = states.cubeRequest(state, schema, open, facet);
    const key = toJson(request);
    if (prepared?.key === key) return;
    const mine = (prepared = { key, field: facet.field, answer: null, last: null });
    try {
      const found = await cubeRequest.run((signal) => search(index, request, signal));
      if (found === STALE || prepared !== mine) return;
      mine.answer = found.answer;
      if (mine.last) page.preview(mine.answer, ...mine.last);
    } catch {
      if (prepared === mine) prepared = null; // the counts follow when the brush is released
    }
  }

  /** The brush of a histogram stands on the bins from `low` to below `high`, not yet applied. */
  function moveBrush(facet, low, high) {
    if (prepared?.field !== facet.field) return;
    prepared.last = [low, high];
    if (prepared.answer) page.preview(prepared.answer, low, high);
  }

  /** Opens the first facets and those that the URL says something about; the others cost nothing. */
  function openFirst(facets) {
    const openByKind = { true: OPEN_HISTOGRAMS, false: OPEN_LISTS };
    for (const facet of facets) {
      facet.isOpen = openByKind[facet.isHistogram] > 0 || Object.hasOwn(state.choices, facet.field);
      openByKind[facet.isHistogram] -= 1;
    }
  }

  async function open() {
    fill(element, h("p", { class: "loading", role: "status" }, `Opening ${index}…`));
    try {
      const opened = await schemaRequest.run(async (signal) => {
        const loaded = await loadSchema(index, signal);
        await Promise.all([
          loadBins(index, loaded.facets, signal),
          loadBounds(index, loaded.places, signal),
        ]);
        return loaded;
      });
      if (opened === STALE) return;
      schema = opened;
    } catch (error) {
      fill(
        element,
        h("h1", { class: "visually-hidden" }, index),
        openError(index, error, open, go),
      );
      return;
    }
    openFirst(schema.facets);
    page = createSearchPage({
      index,
      schema,
      apply,
      type,
      ask,
      reopen: open,
      prepareBrush,
      moveBrush,
      getState: () => state,
    });
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
      isClosed = true;
      schemaRequest.cancel();
      searchRequest.cancel();
      cubeRequest.cancel();
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
      button("Create it", {
        kind: "primary",
        onclick: () => configureDialog({ name: index, isNew: true, onDone: retry }),
      }),
      button("All indexes", { onclick: () => go(HOME) }),
    );
  }
  return errorNotice(error, { retry });
}
