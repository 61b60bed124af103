/**
 * Entry: the header, the routes, the keys of the keyboard, and the form for an API key.
 *
 *     /dashboard           indexes
 *     /dashboard/_health   health (no index may begin with "_")
 *     /dashboard/_service  API keys, aliases, snapshots
 *     /dashboard/{index}   search; with ?item=ID the page of one item,
 *                          with ?compare=OTHER two indexes side by side
 */

import { apiKey, onStarting, onUnauthorized, startProgress } from "./api.js";
import { openDialog } from "./components/dialog.js";
import { button, fill, h, setText, svg } from "./components/dom.js";
import { compareView } from "./views/compare.js";
import { healthView } from "./views/health.js";
import { HOME, PREFIX } from "./paths.js";
import { indicesView } from "./views/indices.js";
import { itemView } from "./views/item.js";
import { searchView } from "./views/search.js";
import { serviceView } from "./views/service.js";

const HEALTH = `${HOME}/_health`;
const SERVICE = `${HOME}/_service`;
const SHORTCUTS = [
  ["/", "Search"],
  ["↓  ↑  or  j  k", "Next and previous item"],
  ["Enter on an item", "Its own page"],
  ["[  ]", "Previous and next page"],
  ["Space on a facet value", "Select, then exclude, then neither"],
  ["x on a facet value", "Exclude at once"],
  ["← → on a range handle", "Move the end of the range"],
  ["g i   g s   g h", "Indexes, service, health"],
  ["?", "This list"],
];

const main = document.getElementById("main");
let view = null;
let shownPlace = null;

// --- routes --------------------------------------------------------------------------------------

function route() {
  const { pathname, search } = location;
  const place = placeOf(pathname, search);
  if (view?.navigate && place === shownPlace) {
    view.navigate(search);
    return;
  }
  view?.close();
  shownPlace = place;
  view = createView(pathname, search);
  fill(main, view.element);
  document.title = `${view.title} · facetd`;
  drawHeader();
}

/** What tells one view from another in an address; the rest is the state of that view. */
function placeOf(pathname, search) {
  const parameters = new URLSearchParams(search);
  const kind = ["item", "compare"].find((name) => parameters.has(name));
  return kind ? `${pathname}?${kind}=${parameters.get(kind)}` : pathname;
}

function createView(pathname, search) {
  if (pathname === HEALTH) return healthView();
  if (pathname === SERVICE) return serviceView();
  const name = decoded(pathname.slice(HOME.length).replace(/^\/|\/$/g, ""));
  if (!name) return indicesView({ go });
  const parameters = new URLSearchParams(search);
  const id = parameters.get("item");
  if (id !== null) return itemView({ index: name, id, go });
  const other = parameters.get("compare");
  if (other !== null)
    return compareView({ index: name, other, query: parameters.get("q") ?? "", go });
  return searchView({ index: name, search, go });
}

/** The name in a path; as it is where somebody has typed a % into the address. */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function go(url) {
  history.pushState(null, "", url);
  route();
  scrollTo({ top: 0 });
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

addEventListener("popstate", () => {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  route();
});

/** Links within the dashboard change the page without reloading it. */
document.addEventListener("click", (event) => {
  const link = event.target.closest?.(`a[href^='${HOME}']`);
  if (
    !link ||
    event.defaultPrevented ||
    event.button !== 0 ||
    event.ctrlKey ||
    event.metaKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  event.preventDefault();
  const url = new URL(link.href);
  if (placeOf(url.pathname, url.search) === shownPlace && view?.navigate) shownPlace = null;
  go(url.pathname + url.search);
});

/** A file dropped outside its target must not replace the page. */
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());

// --- start ---------------------------------------------------------------------------------------

const POLL_MS = 500;
let isWaiting = false;

/** A bar over what the shards have done; when they serve, the page is reloaded. */
async function waitForStart() {
  if (isWaiting) return;
  isWaiting = true;
  const text = h("p", {});
  const bar = h("progress", { max: 1, "aria-label": "Start of the service" });
  document.body.prepend(h("div", { class: "starting", role: "status" }, text, bar));
  for (;;) {
    const state = await startProgress();
    if (!state) break;
    setText(text, state.message.replace(/; try again shortly$/, ""));
    if (state.progress?.share) bar.value = state.progress.share;
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
  location.reload();
}

onStarting(waitForStart);

// --- header --------------------------------------------------------------------------------------

function drawHeader() {
  const link = (href, text) =>
    h("a", { href, "aria-current": href === location.pathname ? "page" : undefined }, text);
  fill(
    document.getElementById("top"),
    h(
      "a",
      { href: HOME, class: "brand", "aria-label": "facetd, all indexes" },
      gem(),
      h("span", {}, "facetd"),
    ),
    h(
      "nav",
      { "aria-label": "Main" },
      link(HOME, "Indexes"),
      link(SERVICE, "Service"),
      link(HEALTH, "Health"),
      h("a", { href: `${PREFIX}/_docs` }, "API"),
    ),
    button("Keyboard shortcuts", {
      iconName: "keyboard",
      isIconOnly: true,
      kind: "quiet shortcuts",
      onclick: showShortcuts,
    }),
  );
}

function gem() {
  return svg(
    "svg",
    { class: "gem", viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("path", { class: "gem-left", d: "M12 1 3 6.5v11L12 23z" }),
    svg("path", { class: "gem-top", d: "M12 1l9 5.5-9 5.5z" }),
    svg("path", { class: "gem-right", d: "M21 6.5v11L12 23V12z" }),
  );
}

// --- keyboard ------------------------------------------------------------------------------------

let isAfterG = false;

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input:not([type=checkbox]), textarea, select");
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    isTyping ||
    document.querySelector("dialog[open]")
  )
    return;
  const isOnItem = event.target.closest?.(".item") !== null;
  const wasAfterG = isAfterG;
  isAfterG = event.key === "g";
  const action = {
    "/": () => view.focusSearch?.(),
    "?": showShortcuts,
    "[": () => view.turnPage?.(-1),
    "]": () => view.turnPage?.(+1),
    j: () => view.moveItem?.(+1),
    k: () => view.moveItem?.(-1),
    ArrowDown: isOnItem && event.target.matches(".item") ? () => view.moveItem(+1) : null,
    Enter: event.target.matches(".item") ? () => event.target.querySelector("h2 a")?.click() : null,
    ArrowUp: isOnItem && event.target.matches(".item") ? () => view.moveItem(-1) : null,
    i: wasAfterG ? () => go(HOME) : null,
    s: wasAfterG ? () => go(SERVICE) : null,
    h: wasAfterG ? () => go(HEALTH) : null,
  }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

function showShortcuts() {
  const rows = SHORTCUTS.map(([keys, text]) =>
    h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)),
  );
  openDialog("Keyboard", () => [
    h("div", { class: "dialog-body" }, h("dl", { class: "shortcut-list" }, rows)),
  ]);
}

// --- API key -------------------------------------------------------------------------------------

let keyRequest = null;

/** One form for however many requests were refused at once. */
onUnauthorized((message) => {
  keyRequest ??= new Promise((resolve) => askForKey(message, resolve)).finally(
    () => (keyRequest = null),
  );
  return keyRequest;
});

function askForKey(message, resolve) {
  const isWrong = apiKey.get() !== "";
  let isEntered = false;
  const input = h("input", {
    type: "password",
    autocomplete: "off",
    required: true,
    autofocus: true,
  });
  openDialog(
    "This service needs a key",
    (close) => [
      h(
        "form",
        {
          class: "dialog-body",
          onsubmit: (event) => {
            event.preventDefault();
            apiKey.set(input.value.trim());
            isEntered = true;
            close();
          },
        },
        h("p", { class: isWrong ? "field-error" : "muted" }, message),
        h(
          "label",
          { class: "field" },
          h("span", {}, "API key"),
          input,
          h("span", { class: "small muted" }, "Kept in this browser tab until you close it."),
        ),
        h(
          "div",
          { class: "dialog-actions" },
          h("button", { type: "submit", class: "button primary" }, "Use this key"),
        ),
      ),
    ],
    { onClose: () => resolve(isEntered) },
  );
}

// A relative address would be resolved again after each `pushState`, and the tab lose its icon.
const tabIcon = document.querySelector("link[rel=icon]");
tabIcon.href = tabIcon.href;

route();
