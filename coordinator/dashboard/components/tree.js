/**
 * A hierarchy of the configuration as a tree: branches open in place, and several may be chosen.
 * The service counts every branch without the choice itself, so the others stay to be chosen.
 */

import { count } from "../format.js";
import { choiceOf, withMark } from "../state.js";
import { button, fill, h, hiddenText, icon, setVariables, uniqueId } from "./dom.js";
import { createToggle } from "./toggle.js";

const SIZE_STEP = 5;

/**
 * @param {object} tree of the schema: {field, title, size, opened}
 * @param {{apply: Function, refresh: Function}} page `refresh()` asks again once a branch was opened
 */
export function createTree(tree, { apply, refresh }) {
  const bodyId = uniqueId("tree");
  const note = h("span", { class: "facet-note" });
  const toggle = createToggle(tree, bodyId, { refresh }, note);
  const place = h("div", { class: "facet-body tree", id: bodyId, onkeydown: moveFocus });
  const element = h(
    "section",
    { class: "facet", "aria-label": tree.title },
    h("div", { class: "facet-head" }, h("h2", {}, toggle)),
    place,
  );
  /** Opened branches that turned out to have nothing below them. */
  const leaves = new Set();

  function setOpen(path, isOpen) {
    if (isOpen) tree.opened.add(path);
    else tree.opened.delete(path);
    refresh();
  }

  function update(state, answer) {
    const { selected } = choiceOf(state, tree.field);
    toggle.setAttribute("aria-expanded", String(tree.isOpen));
    place.hidden = !tree.isOpen;
    note.textContent = selected.length > 0 ? `${selected.length} chosen` : "";
    const nodes = answer?.data.trees?.[tree.field];
    if (!nodes) return;
    const focused = focusedPath();
    fill(
      place,
      nodes.length > 0
        ? branch(nodes, new Set(selected), Math.max(1, ...nodes.map((node) => node.doc_count)))
        : h("p", { class: "small muted" }, "No item here has a value."),
    );
    const values = [...place.querySelectorAll(".value")];
    const active = values.find((value) => value.dataset.path === focused) ?? values[0];
    for (const value of values) value.tabIndex = value === active ? 0 : -1;
    if (focused !== undefined) active?.focus();
  }

  /** The node that has the focus; that of a button beside it, and the one before “More”. */
  function focusedPath() {
    const control = document.activeElement;
    if (!place.contains(control)) return undefined;
    const near = control.closest("li") ?? control;
    const own = near.querySelector(".value") ?? near.previousElementSibling?.querySelector(".value");
    return control.dataset.path ?? own?.dataset.path;
  }

  function branch(nodes, selected, most) {
    const rows = nodes.map((node) => nodeRow(node, selected, most));
    const more = button(`More of ${tree.title}`, {
      kind: "quiet small",
      onclick: () => {
        tree.size *= SIZE_STEP;
        refresh();
      },
    });
    return h("ul", { class: "values" }, rows, nodes.length >= tree.size && h("li", {}, more));
  }

  function nodeRow(node, selected, most) {
    const { path } = node;
    const children = node.children ?? [];
    const isSelected = selected.has(path);
    const isOpened = tree.opened.has(path) || children.length > 0;
    if (tree.opened.has(path) && children.length === 0) leaves.add(path);
    const opener = h(
      "button",
      {
        type: "button",
        class: "tree-opener",
        tabindex: "-1",
        "aria-expanded": String(isOpened),
        "aria-label": `${isOpened ? "Close" : "Open"} ${node.key}`,
        disabled: leaves.has(path),
        onclick: () => setOpen(path, !isOpened),
      },
      icon("right"),
    );
    const value = h(
      "button",
      {
        type: "button",
        class: "value",
        "data-path": path,
        "aria-pressed": String(isSelected),
        onclick: () =>
          apply((state) => withMark(state, tree.field, path, isSelected ? "off" : "selected")),
      },
      h("span", { class: "value-mark", "aria-hidden": "true" }, isSelected && icon("check")),
      h("span", { class: "value-key", dir: "auto", title: path }, node.key),
      h("span", { class: "value-count" }, count(node.doc_count)),
      hiddenText(` ${node.doc_count === 1 ? "item" : "items"}`),
    );
    setVariables(value, { "--share": `${(node.doc_count / most) * 100}%` });
    return h(
      "li",
      {},
      h("div", { class: "tree-row" }, opener, value),
      children.length > 0 && branch(children, selected, most),
    );
  }

  function moveFocus(event) {
    const values = [...place.querySelectorAll(".value")];
    const at = values.indexOf(document.activeElement);
    if (at < 0) return;
    const { path } = values[at].dataset;
    const opener = values[at].previousElementSibling;
    const isOpened = opener.getAttribute("aria-expanded") === "true";
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const target = values[Math.max(0, Math.min(values.length - 1, at + step))];
      values[at].tabIndex = -1;
      target.tabIndex = 0;
      target.focus();
    } else if (event.key === "ArrowRight" && !isOpened && !opener.disabled) setOpen(path, true);
    else if (event.key === "ArrowLeft" && isOpened) setOpen(path, false);
    else return;
    event.preventDefault();
  }

  /** Shows other counts of the nodes that are listed: a Map by path. */
  function preview(counts) {
    const most = Math.max(1, ...counts.values());
    for (const control of place.querySelectorAll(".value")) {
      const number = counts.get(control.dataset.path) ?? 0;
      control.querySelector(".value-count").textContent = count(number);
      setVariables(control, { "--share": `${(number / most) * 100}%` });
    }
  }

  return { tree, element, update, preview };
}
