/**
 * Loading a file: choose or drop it, see its columns, watch it go, read what was rejected, and take
 * the facets that the service proposes.
 *
 *     choose ─▶ inspect ─▶ review ─▶ send ─▶ result and proposal
 */

import {
  effectiveConfiguration,
  indexExists,
  indexStats,
  loadItems,
  loadProgress,
  mergeConfiguration,
  removeIndex,
} from "../api.js";
import { bytes, count, duration, milliseconds, percent, plural } from "../format.js";
import { COLUMN_KINDS } from "../sources/delimited.js";
import { ACCEPTED, indexNameOf, makeBody, readSource } from "../sources/file.js";
import { columnNotes, placeChoice } from "./column_notes.js";
import { openDialog } from "./dialog.js";
import { button, fill, h, icon, setText, setVariables, uniqueId } from "./dom.js";
import { tile } from "./figures.js";
import { errorNotice, toast } from "./notice.js";
import { proposalForm } from "./proposal.js";

const REJECTED_SHOWN = 200;
const NAMED_MAX = 5;
const PROGRESS_MS = 250;
const LATIN = "windows-1252";

/**
 * @param {object} options
 * @param {?string} options.name of the index; null: a new one, whose name the user may choose
 * @param {?File} options.file
 * @param {string[] | Promise<string[]>} options.taken names of the indexes that exist
 * @param {(name: string, isNew: boolean) => void} options.onDone called once something was loaded
 */
export function loadDialog({ name = null, file = null, taken = [], onDone }) {
  const controller = new AbortController();
  const place = h("div", { class: "dialog-body" });
  const isFixed = name !== null;
  let loaded = null;

  const dialog = openDialog(isFixed ? `Load a file into ${name}` : "Load a file", () => [place], {
    kind: "wide",
    onClose: () => {
      controller.abort();
      if (loaded) onDone(loaded.name, loaded.isNew);
    },
  });
  const close = () => dialog.close();
  if (file) inspect(file);
  else choose();

  function choose() {
    const input = h("input", {
      type: "file",
      class: "visually-hidden",
      // A phone offers only types that it knows; it has no word for lines of JSON.
      accept: matchMedia("(pointer: coarse)").matches ? undefined : ACCEPTED,
      onchange: () => input.files[0] && inspect(input.files[0]),
    });
    const zone = h(
      "label",
      { class: "drop-zone" },
      icon("upload"),
      h("span", {}, h("strong", {}, "Drop a file here"), " or choose one"),
      h(
        "span",
        { class: "small muted" },
        "CSV, TSV or JSON (an array, or one object a line), also as .gz",
      ),
      input,
    );
    acceptDrops(zone, inspect);
    fill(place, zone);
    input.focus();
  }

  // --- before sending ------------------------------------------------------------------------------

  async function inspect(chosen, options = {}) {
    const bar = progressBar(`Reading ${chosen.name}`);
    fill(
      place,
      heading(chosen),
      bar.element,
      h("p", { class: "muted", role: "status" }, "Looking at it…"),
    );
    const reading = { onRead: bar.show };
    try {
      const looked = readSource(chosen, options, (share) => reading.onRead(share));
      const [source, names] = await Promise.all([looked, taken]);
      if (dialog.open) review(source, names, options, reading);
    } catch (error) {
      const again = (label, change) =>
        button(label, { onclick: () => inspect(chosen, { ...options, ...change }) });
      const actions = [];
      if (error.isEncoding)
        actions.push(again("Read it as Western European (Windows-1252)", { encoding: LATIN }));
      if (error.isHeader) actions.push(again("Read the first line as a row", { hasHeader: false }));
      if (error.isQuote) actions.push(again("Read all quotes as text", { hasQuotes: false }));
      fill(
        place,
        heading(chosen),
        errorNotice({ message: error.message }, { actions }),
        h("p", { class: "muted" }, "Nothing was changed."),
        h("div", { class: "dialog-actions" }, button("Choose another file", { onclick: choose })),
      );
    }
  }

  function heading(chosen, ...facts) {
    return h(
      "p",
      {},
      h("strong", {}, chosen.name),
      h("span", { class: "muted" }, [` · ${bytes(chosen.size)}`, ...facts].join(" · ")),
    );
  }

  /** `reading.onRead` is told how much was read, when the file is read again. */
  function review(source, names, options, reading) {
    const { table, json, columns, numRows, format } = source;
    const geoPoint = placeChoice(table ?? json);
    const nameInput = h("input", {
      type: "text",
      value: name ?? indexNameOf(source.file.name),
      required: true,
      maxlength: "64",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => tellTaken(),
    });
    const nameNote = h("span", { class: "small muted", role: "status" });
    const tellTaken = () => {
      const isTaken = names.includes(nameInput.value.trim());
      nameNote.textContent = isTaken
        ? "There is an index of this name: the items are added, or replace those of the same id."
        : "A new index.";
      geoPoint?.setNew(!isFixed && !isTaken);
    };
    tellTaken();
    const skips = h("input", { type: "checkbox" });
    const problem = h("div", { class: "messages" });
    const submit = h("button", { type: "submit", class: "button primary" }, "Load");
    const unit = table ? "row" : "line";
    const facts = [format];
    if (numRows !== null) facts.push(plural(numRows, "row"));
    if (columns.length > 0) facts.push(plural(columns.length, table ? "column" : "field"));

    const choices =
      table && new Map(columns.map((column) => [column, kindChoice(column, () => notes.refresh())]));
    const notes =
      table &&
      columnNotes(table, (column, kind) => {
        column.kind = choices.get(column).value = kind;
        notes.refresh();
      });

    const start = async () => {
      submit.disabled = true;
      submit.textContent = "Reading…";
      reading.onRead = (share) => (submit.textContent = `Reading… ${percent(share, 1)}`);
      try {
        const made = await makeBody(source);
        if (!dialog.open) return;
        if (made.numBad > 0 && !skips.checked) {
          fill(
            problem,
            errorNotice({
              message: `${plural(made.numBad, "row")} of the file cannot become ${made.numBad === 1 ? "an item; nothing was sent. Mend it, or leave it" : "items; nothing was sent. Mend them, or leave them"} out with the box above.`,
            }),
            rejectedTable(made.bad, made.numBad),
          );
          submit.disabled = false;
          submit.textContent = "Load";
          return;
        }
        const target = isFixed ? name : nameInput.value.trim();
        const isNew = !isFixed && !(await indexExists(target));
        await send(source, made, { target, isNew, skipsErrors: skips.checked });
      } catch (error) {
        fill(problem, errorNotice({ message: error.message }));
        submit.disabled = false;
        submit.textContent = "Load";
      }
    };
    fill(
      place,
      h(
        "form",
        {
          class: "review",
          onsubmit: (event) => {
            event.preventDefault();
            start();
          },
        },
        heading(source.file, ...facts),
        !isFixed &&
          h("label", { class: "field" }, h("span", {}, "Into the index"), nameInput, nameNote),
        table && headerChoice(table, options, (change) => inspect(source.file, change)),
        columns.length > 0 && columnTable(source, choices),
        table && numberedNote(table),
        table && nullChoice(table, options, (change) => inspect(source.file, change)),
        json && itemsChoice(json, options, (change) => inspect(source.file, change)),
        notes?.elements,
        geoPoint?.element,
        table && idChoice(table),
        h(
          "label",
          { class: "check" },
          skips,
          h(
            "span",
            {},
            `Leave out ${unit}s that are not valid, and list them. Without this, one bad ${unit} refuses the whole file.`,
          ),
        ),
        problem,
        h("div", { class: "dialog-actions" }, button("Cancel", { onclick: close }), submit),
      ),
    );
    submit.focus();
  }

  // --- sending -------------------------------------------------------------------------------------

  async function send(source, made, { target, isNew, skipsErrors }) {
    const bar = progressBar(`Loading ${source.file.name}`);
    const phase = h("span", { role: "status" }, "Starting…");
    const amount = h("span", {}); // not read out at every step
    const leave = button("Cancel", { onclick: close });
    fill(
      place,
      heading(source.file),
      bar.element,
      h("p", {}, phase, amount),
      h("div", { class: "dialog-actions" }, leave),
    );
    const show = (share, doing, howMuch = "") => {
      bar.show(share);
      setText(phase, doing);
      amount.textContent = howMuch;
    };
    const requestId = `load-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    const started = performance.now();
    let timer = 0;
    let isOver = false;
    let isStoring = false; // from then on the service goes on by itself
    const watch = async () => {
      try {
        const load = await loadProgress(requestId, controller.signal);
        if (load?.state === "storing" && !isOver) {
          isStoring = true;
          setText(leave, "Close, and let it go on");
          show(
            load.items_stored / Math.max(1, load.items_read),
            "Stored",
            ` ${count(load.items_stored)} of ${plural(load.items_read, "item")}`,
          );
        }
      } catch {
        // The load itself tells what is wrong; progress is a courtesy.
      }
      if (!isOver) timer = setTimeout(watch, PROGRESS_MS);
    };
    try {
      if (isNew) await mergeConfiguration(target, {});
      const result = await loadItems(target, made.body, {
        compression: made.compression,
        skipsErrors,
        requestId,
        signal: controller.signal,
        onProgress: (sent, total) => {
          if (sent < total)
            show(sent / total, "Sent", ` ${bytes(sent)} of ${bytes(total)} (${percent(sent, total)})`);
          else if (!timer) {
            show(0, "All sent. The service is checking…");
            timer = setTimeout(watch, PROGRESS_MS);
          }
        },
      });
      loaded = { name: target, isNew };
      await showResult(source, made, result, (performance.now() - started) / 1000);
    } catch (error) {
      if (isNew && !isStoring) await removeIfEmpty(target);
      if (error.name !== "AbortError") showFailure(error, made);
    } finally {
      isOver = true;
      clearTimeout(timer);
    }
  }

  async function showResult(source, made, result, seconds) {
    const { created = 0, updated = 0, errors = [] } = result;
    const rejected = (result.rejected ?? 0) + made.numBad;
    const listed = [...made.bad, ...placed(errors, made.lines)];
    const rate = count(Math.round((created + updated) / Math.max(seconds, 0.001)));
    const after = h("div", { class: "after-load" });
    fill(
      place,
      h(
        "dl",
        { class: "tiles" },
        tile("Added", count(created)),
        tile("Replaced", count(updated)),
        tile("Rejected", count(rejected), rejected > 0),
        tile("Time", seconds < 60 ? milliseconds(seconds * 1000) : duration(seconds)),
      ),
      h(
        "p",
        { class: "muted", role: "status" },
        `${plural(created + updated, "item")} on disk and searchable, ${rate} a second.`,
      ),
      rejected > 0 && rejectedTable(listed, rejected),
      after,
    );
    const finish = () =>
      h(
        "div",
        { class: "dialog-actions" },
        button("Load another", { onclick: choose }),
        button(loaded.isNew ? "Open the index" : "Done", {
          kind: "primary",
          onclick: close,
          autofocus: true,
        }),
      );
    let form = null;
    try {
      if (await hasNoFacets(loaded.name))
        form = await proposalForm(loaded.name, {
          skipLabel: "Not now",
          onSkipped: close,
          onApplied: close,
        });
    } catch {
      // A key that may only write sees no proposal.
    }
    if (!dialog.open) return;
    fill(after, form ?? finish());
    after.querySelector("[autofocus]").focus();
  }

  function showFailure(error, made) {
    const errors = placed(error.errors ?? [], made.lines);
    fill(
      place,
      errorNotice(error),
      errors.length > 0 && rejectedTable(errors, error.rejected),
      h("p", { class: "muted" }, outcomeOf(error)),
      h("div", { class: "dialog-actions" }, button("Choose another file", { onclick: choose })),
    );
  }
}

/** What a load that failed has left in the index. */
function outcomeOf({ code, status, stored }) {
  const isFromProxy = code === "unexpected_answer" && status >= 500;
  if (code === "connection_lost" || isFromProxy)
    return "Whether anything was stored is not known: look at the index. A second load replaces items of the same id, and adds those without one again.";
  if (!stored) return "Nothing was changed.";
  const those = `${plural(stored, "item")} of the file ${stored === 1 ? "is" : "are"} stored.`;
  if (code === "partly_stored") return those;
  return `${those} Load the file again when the cause is mended: items of the same id are replaced.`;
}

async function hasNoFacets(index) {
  const { aggregations } = await effectiveConfiguration(index);
  return Object.keys(aggregations ?? {}).length === 0;
}

/** Removes the index that was made for a load, unless some of the load is in it. */
async function removeIfEmpty(index) {
  try {
    const { items } = await indexStats(index);
    if (items === 0) await removeIndex(index);
  } catch {
    // The error that ended the load is the one to show.
  }
}

/** The service counts the lines that were sent; the user has the file. */
function placed(errors, lines) {
  if (!lines) return errors;
  return errors.map((error) => ({
    ...error,
    line: lines[(error.line ?? 0) - 1] ?? error.line,
    message: error.message.replace(/^(line|item) \d+, byte \d+: /, ""),
  }));
}

/** @returns {{element: Node, show: (share: number) => void}} */
function progressBar(label) {
  const element = h(
    "div",
    {
      class: "progress",
      role: "progressbar",
      "aria-label": label,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
    },
    h("span", {}),
  );
  const show = (share) => {
    setVariables(element, { "--share": `${share * 100}%` });
    element.setAttribute("aria-valuenow", String(Math.round(share * 100)));
  };
  return { element, show };
}

// --- columns -------------------------------------------------------------------------------------

function columnTable({ columns, numRows }, choices) {
  const rows = columns.map((column) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, column.name),
      h("td", {}, choices?.get(column) ?? column.kind),
      h(
        "td",
        { class: "muted" },
        h("span", { class: "example", dir: "auto" }, column.example || "–"),
        numRows !== null &&
          column.filled < numRows &&
          h("span", { class: "small" }, ` in ${percent(column.filled, numRows)}`),
      ),
    ),
  );
  const head = [choices ? "Column" : "Field", "Kind", "For example"];
  return h(
    "div",
    { class: "table-scroll columns", tabindex: "0", role: "region", "aria-label": "Columns" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

/** Whether the first line names the columns, and quotes enclose cells: with `onChanged`, read again. */
function headerChoice(table, options, onChanged) {
  const { hasHeader = true, hasQuotes = true } = options;
  const choice = (name, isChecked, text) =>
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        checked: isChecked,
        onchange: (event) => onChanged({ ...options, [name]: event.target.checked }),
      }),
      h("span", {}, text),
    );
  const doubt = doubtOfHeader(table, hasHeader);
  return [
    choice("hasHeader", hasHeader, `The first line names the columns.${doubt}`),
    !hasQuotes && choice("hasQuotes", hasQuotes, "Quotes enclose cells."),
  ];
}

function doubtOfHeader({ seemsHeadless, someFit }, hasHeader) {
  if (seemsHeadless) return " It seems to be a row like the others.";
  if (someFit || !hasHeader) return "";
  return " No row fits it: if the columns are named in a later line, remove those above it.";
}

/** Which columns were numbered, as others have the same name. */
function numberedNote({ numberedNames: names }) {
  if (names.length === 0) return null;
  const listed = names.slice(0, NAMED_MAX).join(", ") + (names.length > NAMED_MAX ? " …" : "");
  const text = `The header has names more than once. The repeated columns are called ${listed}.`;
  return h("p", { class: "muted" }, text);
}

/** Which array has the items, if the file is one object: with `onChanged`, read again. */
function itemsChoice({ innerArrays }, options, onChanged) {
  const { itemsPath = null } = options;
  if (innerArrays.length === 0) return null;
  const choices = innerArrays.slice(0, NAMED_MAX).map((path) =>
    button(`Load the objects in ${path}`, {
      "aria-pressed": String(path === itemsPath),
      onclick: () => onChanged({ ...options, itemsPath: path === itemsPath ? null : path }),
    }),
  );
  return h(
    "div",
    { class: "column-note" },
    h("p", {}, "The whole file is one object. It is loaded as one item, unless the items are within it:"),
    choices,
  );
}

/** Cells such as NA, where the others are numbers: with `onChanged`, read again. */
function nullChoice({ columns }, options, onChanged) {
  const { nulls = [] } = options;
  const found = columns.filter(({ nullTexts }) => nullTexts.length > 0);
  const texts = [...new Set(found.flatMap(({ nullTexts }) => nullTexts))];
  const names = found.slice(0, NAMED_MAX).map(({ name }) => name);
  const note = (text, label, change, isPressed) =>
    h(
      "div",
      { class: "column-note" },
      h("p", {}, text),
      button(label, {
        "aria-pressed": String(isPressed),
        onclick: () => onChanged({ ...options, nulls: change }),
      }),
    );
  const more = found.length > NAMED_MAX ? " …" : "";
  return [
    texts.length > 0 &&
      note(
        `${names.join(", ")}${more}: text because of cells such as ${texts[0]}.`,
        "Read them as empty",
        [...nulls, ...texts],
        false,
      ),
    nulls.length > 0 && note(`Read as empty: ${nulls.join(", ")}.`, "Read them as empty", [], true),
  ];
}

function kindChoice(column, onChanged) {
  const select = h(
    "select",
    {
      "aria-label": `Kind of ${column.name}`,
      onchange: () => {
        column.kind = select.value;
        onChanged();
      },
    },
    COLUMN_KINDS.map(([value, label]) => h("option", { value }, label)),
  );
  select.value = column.kind;
  return select;
}

function idChoice(table) {
  const id = uniqueId("ids");
  const select = h(
    "select",
    { id, onchange: () => (table.idColumn = Number(select.value)) },
    h("option", { value: "-1" }, "no column: every row is a new item"),
    table.columns.map(({ name }, place) => h("option", { value: String(place) }, name)),
  );
  select.value = String(table.idColumn);
  return h("p", { class: "id-choice" }, h("label", { for: id }, "Ids come from "), select);
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
    const [file, ...others] = event.dataTransfer.files;
    if (file) onFile(file);
    if (others.length > 0) {
      const names = others.slice(0, NAMED_MAX).map(({ name }) => name);
      const more = others.length > NAMED_MAX ? " …" : "";
      toast(`One file at a time: ${file.name} is read. Drop ${names.join(", ")}${more} afterwards.`, {
        stays: true,
      });
    }
  });
}
