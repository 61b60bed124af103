/** Loading a file into an index: choose or drop it, watch it go, read what was rejected. */

import { loadFile } from "../api.js";
import { bytes, count, percent, plural } from "../format.js";
import { openDialog } from "./dialog.js";
import { button, fill, h, icon, setVariables } from "./dom.js";
import { tile } from "./figures.js";
import { errorNotice } from "./notice.js";

const REJECTED_SHOWN = 200;

/** @param {{name: string, file?: File, onDone: () => void}} options */
export function loadDialog({ name, file = null, onDone }) {
  const controller = new AbortController();
  const place = h("div", { class: "dialog-body" });
  const skips = h("input", { type: "checkbox" });
  let hasLoaded = false;

  const dialog = openDialog(`Load a file into ${name}`, () => [place], {
    onClose: () => {
      controller.abort();
      if (hasLoaded) onDone();
    },
  });
  if (file) start(file);
  else choose();

  function choose() {
    const input = h("input", {
      type: "file",
      class: "visually-hidden",
      accept: ".json,.ndjson,.jsonl,.txt,.gz",
      onchange: () => input.files[0] && start(input.files[0]),
    });
    const zone = h(
      "label",
      { class: "drop-zone" },
      icon("upload"),
      h("span", {}, h("strong", {}, "Drop a file here"), " or choose one"),
      h("span", { class: "small muted" }, "One JSON object a line, or a JSON array; .gz as it is"),
      input,
    );
    acceptDrops(zone, start);
    fill(
      place,
      zone,
      h(
        "label",
        { class: "check" },
        skips,
        h(
          "span",
          {},
          "Leave out lines that are not valid, and list them. Without this, one bad line refuses the whole file.",
        ),
      ),
    );
    input.focus();
  }

  async function start(chosen) {
    const bar = h(
      "div",
      {
        class: "progress",
        role: "progressbar",
        "aria-label": `Loading ${chosen.name}`,
        "aria-valuemin": "0",
        "aria-valuemax": "100",
      },
      h("span", {}),
    );
    const phase = h("p", { role: "status" }, "Starting…");
    fill(
      place,
      h(
        "p",
        {},
        h("strong", {}, chosen.name),
        h("span", { class: "muted" }, ` · ${bytes(chosen.size)}`),
      ),
      bar,
      phase,
      h("div", { class: "dialog-actions" }, button("Cancel", { onclick: () => dialog.close() })),
    );
    const started = performance.now();
    try {
      const result = await loadFile(name, chosen, {
        skipsErrors: skips.checked,
        signal: controller.signal,
        onProgress: (sent, total) => {
          const isSent = sent >= total;
          bar.classList.toggle("is-waiting", isSent);
          setVariables(bar, { "--share": `${(sent / total) * 100}%` });
          if (isSent) bar.removeAttribute("aria-valuenow");
          else bar.setAttribute("aria-valuenow", String(Math.round((sent / total) * 100)));
          phase.textContent = isSent
            ? "All sent. The service is checking and indexing…"
            : `Sent ${bytes(sent)} of ${bytes(total)} (${percent(sent, total)})`;
        },
      });
      hasLoaded = true;
      showResult(result, (performance.now() - started) / 1000);
    } catch (error) {
      if (error.name !== "AbortError") showFailure(error);
    }
  }

  function showResult(result, seconds) {
    const { created = 0, updated = 0, rejected = 0, errors = [] } = result;
    const rate = count(Math.round((created + updated) / Math.max(seconds, 0.001)));
    fill(
      place,
      h(
        "dl",
        { class: "tiles", role: "status" },
        tile("Added", count(created)),
        tile("Replaced", count(updated)),
        tile("Rejected", count(rejected), rejected > 0),
        tile("Time", `${seconds.toFixed(1)} s`),
      ),
      h(
        "p",
        { class: "muted" },
        `${plural(created + updated, "item")} on disk and searchable, ${rate} a second.`,
      ),
      rejected > 0 && rejectedTable(errors, rejected),
      h(
        "div",
        { class: "dialog-actions" },
        button("Load another", { onclick: choose }),
        button("Done", { kind: "primary", onclick: () => dialog.close(), autofocus: true }),
      ),
    );
  }

  function showFailure(error) {
    fill(
      place,
      errorNotice(error),
      error.errors.length > 0 && rejectedTable(error.errors, error.errors.length),
      h("p", { class: "muted" }, "Nothing was changed."),
      h("div", { class: "dialog-actions" }, button("Choose another file", { onclick: choose })),
    );
  }
}

function rejectedTable(errors, rejected) {
  const rows = errors
    .slice(0, REJECTED_SHOWN)
    .map((error) =>
      h(
        "tr",
        {},
        h("td", { class: "number" }, count(error.line ?? error.index)),
        h("td", {}, error.id === null || error.id === undefined ? "" : String(error.id)),
        h("td", {}, error.message),
      ),
    );
  const head = ["Line", "Id", "What is wrong"].map((text) => h("th", { scope: "col" }, text));
  return h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Rejected lines" },
    h(
      "table",
      {},
      h(
        "caption",
        {},
        `Rejected lines${rejected > rows.length ? `: the first ${count(rows.length)} of ${count(rejected)}` : ""}`,
      ),
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows),
    ),
  );
}

/** Makes an element take a dropped file. */
export function acceptDrops(element, onFile) {
  const hasFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  element.addEventListener("dragover", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    event.stopPropagation();
    element.classList.add("is-over");
  });
  element.addEventListener("dragleave", (event) => {
    if (!element.contains(event.relatedTarget)) element.classList.remove("is-over");
  });
  element.addEventListener("drop", (event) => {
    element.classList.remove("is-over");
    if (!hasFile(event)) return;
    event.preventDefault();
    event.stopPropagation();
    const [file] = event.dataTransfer.files;
    if (file) onFile(file);
  });
}
