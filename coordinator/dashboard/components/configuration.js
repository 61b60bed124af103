/**
 * The configuration of an index as a form and as JSON: two views of one document. What the form
 * does not know stays in the document untouched.
 *
 * The service names the place of a mistake (`param: "aggregations.tags.size"`); the message appears
 * at the control whose `data-path` is that place, or in the JSON at the line of it.
 */

import { configurationText, configure, indexStats, toJson } from "../api.js";
import { indentJson } from "../format.js";
import { openDialog } from "./dialog.js";
import { button, fill, h, icon, uniqueId } from "./dom.js";
import { toast } from "./notice.js";

const NEW_CONFIGURATION = { aggregations: {}, searchable_fields: [] };
const ORDERS = [
  ["", "most items first"],
  ["term", "by name"],
];

/**
 * Opens the dialog that creates (`isNew`) or changes an index.
 *
 * @param {{name?: string, isNew?: boolean, suggestion?: object, onDone: (name: string) => void}} options
 */
export function configureDialog({ name = "", isNew = false, suggestion = NEW_CONFIGURATION, onDone }) {
  const nameInput = h("input", { type: "text", value: name, required: true, maxlength: "64", autocomplete: "off", spellcheck: "false", "data-path": "index", autofocus: name === "" });
  const place = h("div", { class: "configuration" }, h("p", { class: "muted", role: "status" }, "Reading…"));
  const submit = h("button", { type: "submit", class: "button primary", disabled: true }, isNew ? "Create index" : "Save");
  let editor = null;

  const start = async () => {
    const [text, fields] = await Promise.all([
      isNew ? toJson(suggestion) : configurationText(name),
      isNew ? [] : indexStats(name).then((stats) => stats.fields.map((field) => field.name)).catch(() => []),
    ]);
    editor = createEditor(text, fields.length > 0 ? fields : Object.keys(suggestion.aggregations ?? {}));
    fill(place, editor.element);
    submit.disabled = false;
  };

  const save = async (close) => {
    editor.clearErrors();
    nameError.textContent = "";
    const text = editor.text();
    if (text === null) return;
    submit.disabled = true;
    const wanted = isNew ? nameInput.value.trim() : name;
    try {
      const answer = await configure(wanted, text);
      close();
      const warnings = (answer.warnings ?? []).map((warning) => warning.message ?? warning);
      toast(warnings.length > 0 ? `Saved. ${warnings.join(" ")}` : isNew ? `Created ${wanted}` : `Saved the configuration of ${wanted}`);
      onDone?.(wanted);
    } catch (error) {
      if (isNew && (error.param === "index" || error.code === "invalid_index_name")) {
        nameError.textContent = error.message;
        nameInput.focus();
      } else editor.showError(error);
    }
    submit.disabled = false;
  };

  const nameErrorId = uniqueId("error");
  const nameError = h("span", { class: "field-error", id: nameErrorId, role: "alert" });
  nameInput.setAttribute("aria-describedby", nameErrorId);
  openDialog(
    isNew ? "Create an index" : `Configure ${name}`,
    (close) => [
      h(
        "form",
        {
          class: "dialog-body",
          onsubmit: (event) => {
            event.preventDefault();
            save(close);
          },
        },
        isNew && h("label", { class: "field" }, h("span", {}, "Name"), nameInput, nameError),
        place,
        h("div", { class: "dialog-actions" }, button("Cancel", { onclick: close }), submit),
      ),
    ],
    { kind: "wide" },
  );
  start().catch((error) => fill(place, h("p", { class: "field-error", role: "alert" }, error.message)));
}

/** The two views with their switch. */
function createEditor(initialText, fields) {
  let document_ = JSON.parse(initialText);
  let isForm = true;
  let form = null;
  const panelId = uniqueId("panel");
  const tabs = ["Form", "JSON"].map((label) =>
    h("button", { type: "button", role: "tab", class: "tab", "aria-controls": panelId, onclick: () => switchTo(label === "Form") }, label),
  );
  const area = h("textarea", { class: "code", rows: "18", spellcheck: "false", "aria-label": "Configuration as JSON" });
  const panel = h("div", { id: panelId, role: "tabpanel", class: "tab-panel" });
  const problem = h("p", { class: "field-error", role: "alert" });
  const element = h(
    "div",
    { class: "editor" },
    h(
      "div",
      {
        class: "tabs",
        role: "tablist",
        "aria-label": "View of the configuration",
        onkeydown: (event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          switchTo(!isForm);
          tabs[isForm ? 0 : 1].focus();
        },
      },
      tabs,
    ),
    panel,
    problem,
  );
  area.value = indentJson(initialText);
  draw();

  function draw() {
    tabs.forEach((tab, place) => {
      const isActive = (place === 0) === isForm;
      tab.setAttribute("aria-selected", String(isActive));
      tab.tabIndex = isActive ? 0 : -1;
    });
    if (isForm) form = createForm(document_, fields);
    fill(panel, isForm ? form.element : area);
  }

  function switchTo(toForm) {
    if (toForm === isForm) return;
    if (toForm) {
      const parsed = parse();
      if (!parsed) return;
      document_ = parsed;
    } else {
      document_ = form.read();
      area.value = toJson(document_, 2);
    }
    isForm = toForm;
    clearErrors();
    draw();
  }

  function parse() {
    try {
      const parsed = JSON.parse(area.value);
      if (parsed && typeof parsed === "object" && !Array.isArray(parsed)) return parsed;
      problem.textContent = "A configuration is a JSON object: { … }.";
    } catch (error) {
      problem.textContent = `This is not JSON: ${error.message}`;
      const position = Number(/position (\d+)/.exec(error.message)?.[1]);
      if (Number.isFinite(position)) selectAt(position, position + 1);
    }
    area.setAttribute("aria-invalid", "true");
    return null;
  }

  function selectAt(from, to) {
    area.focus();
    area.setSelectionRange(from, to);
    const line = area.value.slice(0, from).split("\n").length;
    area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / area.value.split("\n").length));
  }

  function clearErrors() {
    problem.textContent = "";
    area.removeAttribute("aria-invalid");
    for (const message of element.querySelectorAll(".at-field")) message.remove();
    for (const control of element.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  }

  function showError(error) {
    if (isForm && showAtField(error)) return;
    problem.textContent = error.param ? `${error.param}: ${error.message}` : error.message;
    if (isForm || !error.param) return;
    const found = findPath(area.value, error.param);
    area.setAttribute("aria-invalid", "true");
    if (found) selectAt(...found);
  }

  function showAtField(error) {
    const controls = [...panel.querySelectorAll("[data-path]")].filter(
      (control) => error.param && (control.dataset.path === error.param || error.param.startsWith(`${control.dataset.path}.`) || error.param.startsWith(`${control.dataset.path}[`)),
    );
    const control = controls.sort((one, other) => other.dataset.path.length - one.dataset.path.length)[0];
    if (!control) return false;
    const id = uniqueId("error");
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-describedby", id);
    const message = h("span", { class: "field-error at-field", id, role: "alert" }, error.message);
    (control.closest(".facet-row") ?? control).after(message);
    control.focus();
    return true;
  }

  return {
    element,
    clearErrors,
    showError,
    /** The document as JSON text, or null (and a message) if there is none yet. */
    text: () => (isForm ? toJson(form.read(), 2) : parse() && area.value),
  };
}

/** Where the last key of a dotted path stands in JSON text: [start, end], as far as it can be found. */
function findPath(text, path) {
  let at = 0;
  let found = null;
  for (const key of path.split(".")) {
    const next = text.indexOf(`"${key}"`, at);
    if (next < 0) break;
    found = [next, next + key.length + 2];
    at = found[1];
  }
  return found;
}

// --- form ----------------------------------------------------------------------------------------

function createForm(original, fields) {
  const listId = uniqueId("fields");
  const rows = h("div", { class: "facet-rows" });
  const addRow = (field, options) => {
    const row = createFacetRow(field, options, listId, () => rows.classList.toggle("is-empty", rows.childElementCount === 0));
    rows.append(row);
    rows.classList.remove("is-empty");
    return row;
  };
  for (const [field, options] of Object.entries(original.aggregations ?? {})) addRow(field, options ?? {});
  rows.classList.toggle("is-empty", rows.childElementCount === 0);

  const list = (value) => (Array.isArray(value) ? value.join(", ") : (value ?? ""));
  const text = (key, placeholder) => h("input", { type: "text", value: list(original[key]), placeholder, "data-path": key, spellcheck: "false" });
  const searchable = text("searchable_fields", "all text; or: name^3, description");
  const stopWords = text("stop_words", "none");
  const language = text("language", "none");

  const element = h(
    "div",
    { class: "form" },
    h(
      "fieldset",
      {},
      h("legend", {}, "Facets"),
      h("p", { class: "small muted" }, "Fields whose values are counted and can be filtered by. Numbers and ISO dates become histograms."),
      h("datalist", { id: listId }, fields.map((field) => h("option", { value: field }))),
      rows,
      button("Add a facet", { iconName: "plus", onclick: () => addRow("", {}).querySelector("input").focus() }),
    ),
    h(
      "fieldset",
      {},
      h("legend", {}, "Text"),
      h("label", { class: "field" }, h("span", {}, "Searchable fields"), searchable, h("span", { class: "small muted" }, "With ^ and a number, a match in that field weighs more.")),
      h("div", { class: "field-pair" }, h("label", { class: "field" }, h("span", {}, "Language"), language, h("span", { class: "small muted" }, "For other forms of a word, such as english.")), h("label", { class: "field" }, h("span", {}, "Stop words"), stopWords, h("span", { class: "small muted" }, "Words that count for nothing."))),
    ),
    h("p", { class: "small muted" }, "Everything else, such as synonyms, is under JSON."),
  );

  /** The document with what the form says. */
  function read() {
    const result = { ...original, aggregations: {} };
    for (const row of rows.children) {
      if (!row.readFacet) continue;
      const [field, options] = row.readFacet();
      if (field) result.aggregations[field] = options;
    }
    put(result, "searchable_fields", splitList(searchable.value));
    put(result, "stop_words", splitList(stopWords.value));
    put(result, "language", language.value.trim());
    return result;
  }

  function put(result, key, value) {
    if (value.length > 0) result[key] = value;
    else if (original[key] === undefined || original[key]?.length > 0) delete result[key];
  }

  return { element, read };
}

function splitList(text) {
  return text.split(",").map((part) => part.trim()).filter(Boolean);
}

function createFacetRow(field, options, listId, onRemoved) {
  const path = (key) => `aggregations.${field}${key ? `.${key}` : ""}`;
  const control = (label, element) => h("label", { class: "field" }, h("span", {}, label), element);
  const name = h("input", { type: "text", value: field, list: listId, "data-path": path(""), spellcheck: "false", autocomplete: "off" });
  const title = h("input", { type: "text", value: options.title ?? "", "data-path": path("title") });
  const join = h("select", { "data-path": path("conjunction") }, h("option", { value: "all" }, "all selected"), h("option", { value: "any" }, "any selected"));
  join.value = options.conjunction === false ? "any" : "all";
  const size = h("input", { type: "number", min: "0", step: "1", value: options.size ?? "", placeholder: "10", "data-path": path("size") });
  const isKnownOrder = options.sort === undefined || ["count", "term", "key"].includes(options.sort);
  const order = h("select", { "data-path": path("sort"), disabled: !isKnownOrder }, ORDERS.map(([value, text]) => h("option", { value }, text)), !isKnownOrder && h("option", { value: "custom" }, "as in JSON"));
  order.value = !isKnownOrder ? "custom" : options.sort === "term" || options.sort === "key" ? "term" : "";
  const row = h(
    "div",
    { class: "facet-row" },
    control("Field", name),
    control("Title", title),
    control("Items must have", join),
    control("Values", size),
    control("Order", order),
    h(
      "button",
      {
        type: "button",
        class: "button quiet icon-only",
        "aria-label": `Remove the facet ${field}`,
        onclick: () => {
          row.remove();
          onRemoved();
        },
      },
      icon("trash"),
    ),
  );
  row.readFacet = () => {
    const result = { ...options };
    const put = (key, value, isUsual) => (isUsual ? delete result[key] : (result[key] = value));
    put("title", title.value.trim(), title.value.trim() === "");
    put("size", Number(size.value), size.value === "");
    if (options.conjunction !== undefined || join.value === "any") result.conjunction = join.value === "all";
    if (isKnownOrder && (options.sort === "key" ? "term" : (options.sort ?? "")) !== order.value) put("sort", order.value, order.value === "");
    return [name.value.trim(), result];
  };
  return row;
}
