/**
 * A histogram of one numeric or date facet with a range brush: drag across it, move its two
 * handles (by mouse or arrow keys), or type the ends.
 *
 * The counts leave out the facet's own range, so the bars stay while the range moves over them. A
 * range is a pair of bin edges as far as it was brushed, or any two values if typed. While a brush
 * moves, all other facets show what they will have, without a request.
 */

import { shiftDay, shiftWhole } from "../bins.js";
import { compact, count, plainNumber } from "../format.js";
import { boundOf, choiceOf, withChoice } from "../state.js";
import { button, h, setVariables, svg } from "./dom.js";

const PLOT_HEIGHT = 64;
const BIN_WIDTH = 10;
const KEY_DELAY_MS = 250;

export function createHistogram(facet, { apply, prepareBrush, moveBrush }) {
  const bins = facet.bins;
  const hasYears = facet.isDate && bins.every((bin) => bin.from.endsWith("-01-01"));
  const width = bins.length * BIN_WIDTH;
  const bars = bins.map((bin, place) =>
    svg(
      "rect",
      {
        class: "bar",
        x: place * BIN_WIDTH + 0.75,
        width: BIN_WIDTH - 1.5,
        y: PLOT_HEIGHT,
        height: 0,
        rx: 1,
      },
      svg("title"),
    ),
  );
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${PLOT_HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": facet.title,
    },
    bars,
  );
  const brush = h("div", { class: "brush", "aria-hidden": "true" });
  const handles = ["low", "high"].map(createHandle);
  const prepare = () => prepareBrush(facet);
  const plot = h(
    "div",
    { class: "plot", onpointerdown: startBrush, onpointerenter: prepare, onfocusin: prepare },
    drawing,
    brush,
    handles,
  );
  const inputs = ["low", "high"].map(createInput);
  const clear = button(`Clear the range of ${facet.title}`, {
    iconName: "close",
    isIconOnly: true,
    kind: "quiet",
    onclick: () => commit(0, bins.length),
  });
  const element = h(
    "div",
    { class: "histogram" },
    plot,
    h(
      "div",
      { class: "axis", "aria-hidden": "true" },
      h("span", {}, labelOf(bins[0].from)),
      facet.isLogarithmic && h("span", {}, "log scale"),
      h("span", {}, labelOf(endOf(bins.at(-1).to))),
    ),
    h(
      "div",
      { class: "range-inputs" },
      inputs[0],
      h("span", { class: "muted" }, "to"),
      inputs[1],
      clear,
    ),
  );
  /** Ends of the brush as bin edges: 0 … bins.length. */
  let low = 0;
  let high = bins.length;
  /** Whether the brush has moved and is not applied yet: until then no answer moves it. */
  let isMoving = false;
  let applied = null; // the choice that the newest state has of this facet
  let keyTimer = 0;

  // --- values and edges --------------------------------------------------------------------

  function labelOf(value) {
    if (facet.isDate) return hasYears ? String(Number(value.slice(0, 4))) : value;
    return value >= 10000 || value <= -10000 ? compact(value) : plainNumber(value);
  }

  /** The last value inside an open end, where that can be said: 2000 (exclusive) -> 1999. */
  function endOf(edge) {
    if (facet.isDate) return shiftDay(edge, -1);
    return facet.isWhole ? shiftWhole(edge, -1) : edge;
  }

  const edgeValue = (edge) => (edge < bins.length ? bins[edge].from : bins.at(-1).to);

  /** The bin edge nearest to a value, for drawing ranges that were typed. */
  function edgeOf(value, fallback) {
    if (value === null) return fallback;
    const place = bins.findIndex((bin) => value < bin.to);
    if (place < 0) return bins.length;
    if (facet.isDate || value <= bins[place].from)
      return value <= bins[place].from ? place : place + 0.5;
    const [from, to] = [Number(bins[place].from), Number(bins[place].to)];
    return from < to ? place + Math.max(0, Number(value) - from) / (to - from) : place;
  }

  function commit(from, to) {
    isMoving = false;
    clearTimeout(keyTimer);
    const change = {
      low: from <= 0 ? null : edgeValue(Math.round(from)),
      high: to >= bins.length ? null : edgeValue(Math.round(to)),
    };
    apply((state) => withChoice(state, facet.field, change));
  }

  // --- typing --------------------------------------------------------------------------------

  function createInput(end) {
    return h("input", {
      type: facet.isDate ? "date" : "number",
      step: facet.isWhole ? "1" : "any",
      "aria-label": `${facet.title} ${end === "low" ? "from" : "to"}`,
      onchange: (event) => {
        const { value } = event.target;
        apply((state) =>
          withChoice(state, facet.field, { [end]: value === "" ? null : endBound(end, value) }),
        );
      },
    });
  }

  function endBound(end, text) {
    if (facet.isDate) return end === "low" ? text : shiftDay(text, 1);
    return end === "high" && facet.isWhole ? shiftWhole(boundOf(text), 1) : boundOf(text);
  }

  // --- handles -------------------------------------------------------------------------------

  function createHandle(end) {
    return h("div", {
      class: `handle ${end}`,
      role: "slider",
      tabindex: "0",
      "aria-label": `${facet.title}, ${end === "low" ? "lower" : "upper"} end`,
      "aria-valuemin": "0",
      "aria-valuemax": String(bins.length),
      onkeydown: (event) => {
        const step = {
          ArrowLeft: -1,
          ArrowDown: -1,
          ArrowRight: 1,
          ArrowUp: 1,
          PageDown: -5,
          PageUp: 5,
          Home: -Infinity,
          End: Infinity,
        }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        if (end === "low") low = Math.max(0, Math.min(Math.ceil(high) - 1, Math.round(low) + step));
        else high = Math.min(bins.length, Math.max(Math.floor(low) + 1, Math.round(high) + step));
        isMoving = true;
        drawBrush();
        tellOthers();
        clearTimeout(keyTimer);
        keyTimer = setTimeout(() => commit(low, high), KEY_DELAY_MS);
      },
    });
  }

  function drawBrush() {
    setVariables(plot, {
      "--low": `${(low / bins.length) * 100}%`,
      "--high": `${(high / bins.length) * 100}%`,
    });
    const isWhole = low <= 0 && high >= bins.length;
    plot.classList.toggle("is-brushed", !isWhole);
    bars.forEach((bar, place) =>
      bar.classList.toggle("is-outside", place + 1 <= low || place >= high),
    );
    const values = [
      labelOf(edgeValue(Math.floor(low))),
      labelOf(endOf(edgeValue(Math.ceil(high)))),
    ];
    handles.forEach((handle, place) => {
      handle.setAttribute("aria-valuenow", String([low, high][place]));
      handle.setAttribute("aria-valuetext", values[place]);
    });
  }

  /** Tells the other facets which bins the brush stands on, as `commit` will round its ends. */
  function tellOthers() {
    moveBrush(facet, Math.max(0, Math.round(low)), Math.min(bins.length, Math.round(high)));
  }

  // --- dragging ------------------------------------------------------------------------------

  function startBrush(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    prepare();
    const box = plot.getBoundingClientRect();
    const edgeAt = (x) =>
      Math.max(0, Math.min(bins.length, ((x - box.left) / box.width) * bins.length));
    const end = handles.indexOf(event.target);
    const start = edgeAt(event.clientX);
    const fixed = end === 0 ? high : end === 1 ? low : null;
    let hasMoved = false;
    plot.setPointerCapture(event.pointerId);

    const move = (moved) => {
      const at = edgeAt(moved.clientX);
      hasMoved ||= Math.abs(moved.clientX - event.clientX) > 3;
      const anchor = fixed ?? start;
      const span = [Math.min(anchor, at), Math.max(anchor, at)];
      low = fixed === null || end === 0 ? Math.floor(span[0]) : span[0];
      high = fixed === null || end === 1 ? Math.ceil(span[1]) : span[1];
      if (high <= low) high = low + 1;
      isMoving = true;
      drawBrush();
      tellOthers();
    };
    const release = () => {
      plot.removeEventListener("pointermove", move);
      plot.removeEventListener("pointerup", stop);
      plot.removeEventListener("pointercancel", cancel);
    };
    const stop = (last) => {
      release();
      move(last);
      if (hasMoved || end < 0) commit(low, Math.min(high, bins.length));
      else restore();
      if (end >= 0) handles[end].focus();
    };
    /** The finger scrolls the page: it never meant the brush. */
    const cancel = () => {
      release();
      restore();
    };
    plot.addEventListener("pointermove", move);
    plot.addEventListener("pointerup", stop);
    plot.addEventListener("pointercancel", cancel);
  }

  /** Puts the brush back to the range that is applied. */
  function restore() {
    isMoving = false;
    placeBrush(applied);
    tellOthers();
  }

  // --- answers -------------------------------------------------------------------------------

  function placeBrush(choice) {
    low = edgeOf(choice.low, 0);
    high = edgeOf(choice.high, bins.length);
    if (high <= low) high = Math.min(bins.length, low + 0.5);
    drawBrush();
  }

  function update(state, answer) {
    const choice = (applied = choiceOf(state, facet.field));
    if (!isMoving) placeBrush(choice);
    const shown = [choice.low, choice.high === null ? null : endOf(choice.high)];
    inputs.forEach((input, place) => {
      if (document.activeElement !== input) input.value = shown[place] ?? "";
      input.placeholder = labelOf(place === 0 ? bins[0].from : endOf(bins.at(-1).to));
    });
    clear.hidden = choice.low === null && choice.high === null;
    const counts = answer?.data.ranges?.[facet.field];
    if (counts) drawBars(counts.map((range) => range.doc_count));
  }

  function drawBars(counts) {
    const most = Math.max(1, ...counts);
    bars.forEach((bar, place) => {
      const height = counts[place] > 0 ? Math.max(2, (counts[place] / most) * PLOT_HEIGHT) : 0;
      bar.setAttribute("y", String(PLOT_HEIGHT - height));
      bar.setAttribute("height", String(height));
      const { from, to } = bins[place];
      const span =
        labelOf(from) === labelOf(endOf(to))
          ? labelOf(from)
          : `${labelOf(from)} – ${labelOf(endOf(to))}`;
      bar.firstElementChild.textContent = `${span}: ${count(counts[place])}`;
    });
    const total = counts.reduce((sum, number) => sum + number, 0);
    drawing.setAttribute(
      "aria-label",
      `${facet.title}: ${count(total)} items between ${labelOf(bins[0].from)} and ${labelOf(endOf(bins.at(-1).to))}`,
    );
  }

  const preview = (buckets) => drawBars(buckets.map((bucket) => bucket.doc_count));

  return { element, update, preview };
}
