/**
 * Makes the examples of `/_docs` run in place: each page that only reads gets a request that can be
 * changed and sent, with the names of an index and a facet that are there.
 */

import { apiKey } from "./api.js";
import { fill, h } from "./components/dom.js";
import { indentJson, milliseconds } from "./format.js";
import { PREFIX } from "./paths.js";

const SHOWN_MAX = 20_000;
/** By route: what follows the path, and for POST the body; `{facet}` and `{id}` are filled in. */
const EXAMPLES = {
  "GET /{index}/search": { query: "?query=&per_page=2" },
  "POST /{index}/search": { body: { query: "", per_page: 2, facet_fields: ["{facet}"] } },
  "GET /{index}/facet": { query: "?name={facet}" },
  "POST /{index}/facet": { body: { name: "{facet}", per_page: 5 } },
  "POST /_search": { body: { searches: [{ index: "{index}", query: "", per_page: 1 }] } },
  "GET /{index}/items/{id}": {},
  "GET /{index}/proposal": {},
  "GET /{index}/configuration": { query: "?effective=true" },
  "GET /{index}/stats": {},
  "GET /{index}/status": {},
  "GET /{index}": {},
  "GET /_analytics": { query: "?days=7" },
  "GET /_indexes": {},
  "GET /_aliases": {},
  "GET /_loads": {},
  "GET /_stats": {},
  "GET /_health": {},
  "GET /_ready": {},
  "GET /_metrics": {},
  "GET /_keys": {},
  "GET /_snapshots": {},
};

function headers(hasBody) {
  return {
    ...(hasBody ? { "Content-Type": "application/json" } : {}),
    ...(apiKey.get() ? { "X-API-Key": apiKey.get() } : {}),
  };
}

async function read(path) {
  const response = await fetch(PREFIX + path, { headers: headers(false) });
  if (!response.ok) throw new Error(String(response.status));
  return response.json();
}

/** Names to fill in: of the first index, one of its facets, one of its items. */
async function findNames() {
  const names = { index: "films", facet: "genres", id: "1" };
  try {
    const { indexes } = await read("/_indexes");
    const [chosen] = indexes.filter((index) => index.facets.length > 0).concat(indexes);
    if (!chosen) return names;
    names.index = chosen.name;
    names.facet = chosen.facets[0] ?? names.facet;
    const { data } = await read(`/${encodeURIComponent(chosen.name)}/search?per_page=1`);
    names.id = String(data.items[0]?.id ?? names.id);
  } catch {
    // Without a key the examples keep the names of the demo.
  }
  return names;
}

function createExample(method, path, { query = "", body }, names) {
  const filled = (text) =>
    text.replaceAll(/\{(index|facet|id)\}/g, (_, name) => encodeURIComponent(names[name]));
  const address = h("input", {
    type: "text",
    "aria-label": `Address of ${method} ${path}`,
    value: filled(path + query),
    spellcheck: "false",
    autocomplete: "off",
  });
  const text = body && JSON.stringify(body, null, 2);
  const area =
    body &&
    h(
      "textarea",
      {
        rows: String(text.split("\n").length),
        spellcheck: "false",
        "aria-label": `Body of ${method} ${path}`,
      },
      text.replaceAll(/\{(index|facet)\}/g, (_, name) => JSON.stringify(names[name]).slice(1, -1)),
    );
  const status = h("p", { class: "muted", role: "status" });
  const output = h("pre", {
    tabindex: "0",
    hidden: true,
    "aria-label": `Answer of ${method} ${path}`,
  });
  const run = async () => {
    status.textContent = "…";
    const started = performance.now();
    try {
      const response = await fetch(PREFIX + address.value, {
        method,
        headers: headers(Boolean(area)),
        ...(area ? { body: area.value } : {}),
      });
      const answer = await response.text();
      const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
      const shown = isJson ? indentJson(answer) : answer;
      status.textContent = `${response.status} ${response.statusText} in ${milliseconds(performance.now() - started)}`;
      output.textContent = shown.length > SHOWN_MAX ? `${shown.slice(0, SHOWN_MAX)}\n…` : shown;
      output.hidden = false;
    } catch (error) {
      status.textContent = `The service cannot be reached: ${error.message}`;
    }
  };
  return h(
    "form",
    {
      class: "try",
      onsubmit: (event) => {
        event.preventDefault();
        run();
      },
    },
    h(
      "div",
      { class: "try-line" },
      h("code", {}, method),
      address,
      h("button", { type: "submit", class: "button primary" }, "Run"),
    ),
    area,
    status,
    output,
  );
}

/** The forms are made when they are opened: the page has dozens. */
function addExamples() {
  let names = null;
  for (const heading of document.querySelectorAll("section > h3")) {
    const method = heading.querySelector("b").textContent;
    const path = heading.lastChild.textContent.trim();
    const example = EXAMPLES[`${method} ${path}`];
    if (!example) continue;
    const place = h("div", {});
    const details = h(
      "details",
      {
        ontoggle: async () => {
          if (!details.open || place.hasChildNodes()) return;
          names ??= findNames();
          const form = createExample(method, path, example, await names);
          if (!place.hasChildNodes()) fill(place, form);
        },
      },
      h("summary", { "aria-label": `Try it: ${method} ${path}` }, "Try it"),
      place,
    );
    heading.nextElementSibling.after(details);
  }
}

addExamples();
