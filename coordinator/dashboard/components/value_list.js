/**
 * The values of one facet with counts and bars: search within, pages, and/or switch. A click takes
 * a value from off to selected to excluded to off. What is chosen stays on top, on every page.
 */

import { STALE, Latest, facetValues } from "../api.js";
import { count, plural } from "../format.js";
import {
  choiceOf,
  facetRequest,
  facetSize,
  joinOf,
  withChoice,
  withFacetView,
  withMark,
  withNextMark,
} from "../state.js";
import { button, fill, h, hiddenText, icon, reconcile, setVariables } from "./dom.js";

const MARK_TEXT = { selected: "selected", excluded: "excluded", off: "" };
const PRESSED = { selected: "true", excluded: "mixed", off: "false" };
const FIND_DELAY_MS = 120;

export function createValueList(facet, { index, schema, apply }) {
  const latest = new Latest();
  const list = h("ul", { class: "values", onkeydown: moveFocus });
  const find = h("input", {
    type: "search",
    class: "facet-find",
    hidden: true,
    placeholder: "Find a value",
    "aria-label": `Find a value of ${facet.title}`,
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => setTimeout(applyFind, FIND_DELAY_MS),
  });
  const joins = ["all", "any"].map((join) =>
    h(
      "button",
      {
        type: "button",
        title:
          join === "all"
            ? "Items must have all selected values"
            : "Items must have any selected value",
        onclick: () =>
          apply((state) =>
            withChoice(state, facet.field, {
              join: join === configuredJoin() ? null : join,
              page: 1,
            }),
          ),
      },
      join === "all" ? "and" : "or",
    ),
  );
  const join = h(
    "div",
    { class: "segments", role: "group", "aria-label": `Combine the values of ${facet.title}` },
    joins,
  );
  const remark = h("p", { class: "small muted", role: "status" });
  const position = h("span", { class: "small muted" });
  const previous = button(`Previous values of ${facet.title}`, {
    iconName: "left",
    isIconOnly: true,
    kind: "quiet",
    onclick: () => turn(-1),
  });
  const next = button(`More values of ${facet.title}`, {
    iconName: "right",
    isIconOnly: true,
    kind: "quiet",
    onclick: () => turn(+1),
  });
  const pages = h("div", { class: "facet-pages", hidden: true }, previous, position, next);
  const element = h("div", { class: "value-list" }, find, list, remark, pages);
  let current = null;

  const configuredJoin = () => (facet.isConjunctive ? "all" : "any");
  const turn = (by) =>
    apply((state) =>
      withFacetView(state, facet.field, { page: choiceOf(state, facet.field).page + by }),
    );

  function applyFind() {
    if (current && find.value.trim() !== choiceOf(current, facet.field).find) {
      apply((state) => withFacetView(state, facet.field, { find: find.value.trim(), page: 1 }), {
        replaces: true,
      });
    }
  }

  async function update(state, answer) {
    current = state;
    const choice = choiceOf(state, facet.field);
    if (document.activeElement !== find) find.value = choice.find;
    const active = joinOf(state, facet);
    joins.forEach((control, place) =>
      control.setAttribute("aria-pressed", String(["all", "any"][place] === active)),
    );
    if (!answer) return;
    const { buckets: first = [], cardinality = null } = answer.data.aggregations[facet.field] ?? {};
    if (choice.page === 1 && !choice.find) {
      latest.cancel();
      draw(state, first, first, null, cardinality);
      return;
    }
    try {
      const found = await latest.run((signal) =>
        facetValues(index, facetRequest(state, facet, schema), signal),
      );
      if (found !== STALE) draw(state, found.data.buckets, first, found.pagination.total);
    } catch (error) {
      remark.textContent = error.message;
    }
  }

  /** `total` of a page that was asked for by itself; `cardinality` of the first look, where known. */
  function draw(state, buckets, known, total, cardinality = null) {
    const { selected, excluded, page, find: wanted } = choiceOf(state, facet.field);
    const counts = new Map([...known, ...buckets].map((bucket) => [bucket.key, bucket.doc_count]));
    const chosen = [
      ...selected.map((key) => ({ key, mark: "selected", doc_count: counts.get(key) })),
      ...excluded.map((key) => ({ key, mark: "excluded", doc_count: null })),
    ].sort((one, other) => (other.doc_count ?? -1) - (one.doc_count ?? -1));
    const taken = new Set(chosen.map((row) => row.key));
    const size = facetSize(facet);
    const isFirstLook = total === null; // values without a hit are left to the pages behind
    const rest = buckets
      .filter((bucket) => !taken.has(bucket.key) && !(isFirstLook && bucket.doc_count === 0))
      .slice(0, size);
    const most = Math.max(
      1,
      ...rest.map((bucket) => bucket.doc_count),
      ...chosen.map((row) => row.doc_count ?? 0),
    );
    const rows = [...chosen, ...rest.map((bucket) => ({ ...bucket, mark: "off" }))];
    reconcile(
      list,
      rows,
      (row) => row.key,
      createRow,
      (line, row) => updateRow(line, row, most),
    );
    keepOneTabStop(list);

    if (rows.length > 0) remark.textContent = "";
    else remark.textContent = wanted ? "No value starts like this." : "No item here has a value.";
    const mayHaveMore = isFirstLook
      ? (cardinality ?? buckets.length + 1) > size && buckets.length >= size
      : page * size < total;
    pages.hidden = page === 1 && !mayHaveMore && total === null;
    previous.disabled = page <= 1;
    next.disabled = !mayHaveMore;
    const last = (page - 1) * size + buckets.length;
    if (total === null)
      position.textContent = !mayHaveMore
        ? ""
        : cardinality === null
          ? "more values"
          : `${count(rest.length)} of ${plural(cardinality, "value")}`;
    else
      position.textContent =
        total > size
          ? `${count(last - buckets.length + 1)}–${count(last)} of ${count(total)}`
          : plural(total, "value");
    find.hidden =
      page === 1 && !wanted && total === null && !mayHaveMore && document.activeElement !== find;
  }

  function createRow(row) {
    const key = row.key;
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "value",
          tabindex: "-1",
          onclick: () => apply((state) => withNextMark(state, facet.field, key)),
          onkeydown: (event) => {
            if (event.key !== "x" && event.key !== "Delete") return;
            event.preventDefault();
            const isExcluded = choiceOf(current, facet.field).excluded.includes(key);
            apply((state) => withMark(state, facet.field, key, isExcluded ? "off" : "excluded"));
          },
        },
        h("span", { class: "value-mark", "aria-hidden": "true" }),
        h("span", { class: "value-key", dir: "auto", title: key }, key),
        h("span", { class: "value-count" }),
        hiddenText(""),
      ),
    );
  }

  function updateRow(line, row, most) {
    const control = line.firstElementChild;
    const [markBox, , countText, spoken] = control.children;
    control.setAttribute("aria-pressed", PRESSED[row.mark]);
    control.classList.toggle("is-empty", row.doc_count === 0);
    setVariables(control, { "--share": `${((row.doc_count ?? 0) / most) * 100}%` });
    fill(
      markBox,
      row.mark === "selected" ? icon("check") : row.mark === "excluded" ? icon("minus") : null,
    );
    countText.textContent =
      row.mark === "excluded" ? "not" : row.doc_count === undefined ? "" : count(row.doc_count);
    spoken.textContent = ` ${row.doc_count === 1 ? "item" : "items"} ${MARK_TEXT[row.mark]}`;
  }

  /** Shows other counts of the values that are listed; they stay in their places. */
  function preview(buckets) {
    const counts = new Map(buckets.map((bucket) => [bucket.key, bucket.doc_count]));
    const most = Math.max(1, ...counts.values());
    for (const control of list.querySelectorAll(".value")) {
      const [, name, countText] = control.children;
      const number = counts.get(name.title);
      if (number === undefined || control.getAttribute("aria-pressed") === "mixed") continue;
      control.classList.toggle("is-empty", number === 0);
      setVariables(control, { "--share": `${(number / most) * 100}%` });
      countText.textContent = count(number);
    }
  }

  return { element, tools: join, update, preview };
}

/** Only one value of a list is in the tab order; the arrow keys move between them. */
function keepOneTabStop(list) {
  const controls = [...list.querySelectorAll(".value")];
  const active = controls.find((control) => control === document.activeElement) ?? controls[0];
  for (const control of controls) control.tabIndex = control === active ? 0 : -1;
}

function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (step === undefined) return;
  const controls = [...event.currentTarget.querySelectorAll(".value")];
  const at = controls.indexOf(document.activeElement);
  const target = controls[Math.max(0, Math.min(controls.length - 1, at + step))];
  event.preventDefault();
  target?.focus();
  keepOneTabStop(event.currentTarget);
}
