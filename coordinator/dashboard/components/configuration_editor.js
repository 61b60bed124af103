/**
 * The configuration of an index as a form of several parts and as JSON: views of one document. What the form
 * does not know stays in the document untouched.
 *
 * The service names the place of a mistake (`param: "aggregations.tags.size"`); the message appears
 * at the control whose `data-path` is that place, or in the JSON at the line of it.
 */

import { parseJson, toJson } from "../api.js";
import { indentJson } from "../format.js";
import { PARTS, createConfigurationForm } from "./configuration_form.js";
import { fill, h, uniqueId } from "./dom.js";

const JSON_TAB = "JSON";
const TABS = [...PARTS, JSON_TAB];

/** The views with their tabs. */
export function createConfigurationEditor(initialText, fields) {
  let document_ = parseJson(initialText);
  let shown = TABS[0];
  let form = null;
  const panelId = uniqueId("panel");
  const tabs = TABS.map((label) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        class: "tab",
        "aria-controls": panelId,
        onclick: () => switchTo(label),
      },
      label,
    ),
  );
  const area = h("textarea", {
    class: "code",
    rows: "18",
    spellcheck: "false",
    "aria-label": "Configuration as JSON",
  });
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
          const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
          if (!by) return;
          switchTo(TABS[(TABS.indexOf(shown) + by + TABS.length) % TABS.length]);
          tabs[TABS.indexOf(shown)].focus();
        },
      },
      tabs,
    ),
    panel,
    problem,
  );
  const isForm = () => shown !== JSON_TAB;
  // A browser says nothing of a mistake that is out of sight, and does not send the form either.
  element.addEventListener("invalid", (event) => switchTo(form.partOf(event.target)), true);
  area.value = indentJson(initialText);
  draw();

  function draw() {
    tabs.forEach((tab, place) => {
      const isActive = TABS[place] === shown;
      tab.setAttribute("aria-selected", String(isActive));
      tab.tabIndex = isActive ? 0 : -1;
    });
    if (isForm()) form ??= createConfigurationForm(document_, fields);
    form?.show(shown);
    fill(panel, isForm() ? form.element : area);
  }

  function switchTo(tab) {
    if (tab === shown) return;
    if (!isForm()) {
      const parsed = parse();
      if (!parsed) return;
      document_ = parsed;
      form = null;
    } else if (tab === JSON_TAB) {
      document_ = form.read();
      area.value = toJson(document_, 2);
    }
    shown = tab;
    clearErrors();
    draw();
  }

  function parse() {
    try {
      const parsed = parseJson(area.value);
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
    for (const control of element.querySelectorAll("[aria-invalid]"))
      control.removeAttribute("aria-invalid");
  }

  function showError(error) {
    if (isForm() && showAtField(error)) return;
    problem.textContent = error.param ? `${error.param}: ${error.message}` : error.message;
    if (isForm() || !error.param) return;
    const found = findPath(area.value, error.param);
    area.setAttribute("aria-invalid", "true");
    if (found) selectAt(...found);
  }

  function showAtField(error) {
    const controls = [...panel.querySelectorAll("[data-path]")].filter(
      (control) =>
        error.param &&
        (control.dataset.path === error.param ||
          error.param.startsWith(`${control.dataset.path}.`) ||
          error.param.startsWith(`${control.dataset.path}[`)),
    );
    const control = controls.sort(
      (one, other) => other.dataset.path.length - one.dataset.path.length,
    )[0];
    if (!control) return false;
    shown = form.partOf(control);
    draw();
    const id = uniqueId("error");
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-describedby", id);
    const message = h("span", { class: "field-error at-field", id, role: "alert" }, error.message);
    (control.closest(".facet-row") ?? control).after(message);
    control.focus();
    return true;
  }

  /** The document as far as it can be read, without a word about mistakes; null if it cannot. */
  function draft() {
    if (isForm()) return form.read();
    try {
      return parseJson(area.value);
    } catch {
      return null;
    }
  }

  return {
    element,
    draft,
    clearErrors,
    showError,
    /** The document as JSON text, or null (and a message) if there is none yet. */
    text: () => (isForm() ? toJson(form.read(), 2) : parse() && area.value),
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
