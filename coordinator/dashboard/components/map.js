/**
 * A map of the places of an index: its cells as circles over the outline of the land, without any
 * tiles. It opens on all places; a closer view narrows the hits to what is in it.
 *
 * Drag to move, zoom by the buttons, a double click, a click on a circle, or the wheel with Ctrl; by
 * keys: arrows, + and -, 0 for all places. The circles follow when the view stands still.
 */

import { count, plural } from "../format.js";
import { LAND } from "../land.js";
import { WORLD } from "../map_home.js";
import { choiceOf, withChoice } from "../state.js";
import { button, h, reconcile, svg, uniqueId } from "./dom.js";
import { createToggle } from "./toggle.js";

const APPLY_DELAY_MS = 250;
const WIDTH_MIN = 0.1;
const STEP = 2;
const CLICK_STEP = 4;
const MOVE_SHARE = 0.25;
const DRAG_PX = 3;
/** Units of the drawing in a degree, see `LAND`. */
const UNITS = 2;
/** Degrees of longitude shown around a single point. */
const NEAR = 40;
/** Of a cell's width: radius of the largest and the smallest circle. */
const RADIUS_MAX = 0.48;
const RADIUS_MIN = 0.06;

/**
 * @param {object} places of the schema: {field, title, isOpen, home}
 * @param {{apply: Function, refresh: Function}} page
 */
export function createMap(places, { apply, refresh }) {
  const bodyId = uniqueId("map");
  const toggle = createToggle(places, bodyId, { refresh });
  const home = places.home ? viewOf(places.home) : WORLD;
  const circles = svg("g", { class: "map-cells" });
  const drawing = svg(
    "svg",
    { role: "img", preserveAspectRatio: "xMidYMid meet", "aria-label": places.title },
    svg("path", { class: "map-land", d: LAND }),
    circles,
  );
  const plot = h(
    "div",
    {
      class: "map-plot",
      role: "application",
      tabindex: "0",
      "aria-label": `${places.title}: arrow keys move it, plus and minus zoom, 0 shows all places`,
      onpointerdown: startDrag,
      onkeydown: onKey,
      onwheel: onWheel,
      ondblclick: (event) => zoomAt(STEP, pointAt(event)),
    },
    drawing,
  );
  const zoomIn = button("Zoom in", {
    iconName: "plus",
    isIconOnly: true,
    kind: "quiet",
    onclick: () => zoomAt(STEP, centre()),
  });
  const zoomOut = button("Zoom out", {
    iconName: "minus",
    isIconOnly: true,
    kind: "quiet",
    onclick: () => zoomAt(1 / STEP, centre()),
  });
  const whole = button("All places", { kind: "quiet small", onclick: () => look(home) });
  const body = h(
    "div",
    { class: "facet-body", id: bodyId },
    plot,
    h("div", { class: "map-controls" }, zoomIn, zoomOut, whole),
  );
  const element = h(
    "section",
    { class: "facet", "aria-label": places.title },
    h("div", { class: "facet-head" }, h("h2", {}, toggle)),
    body,
  );
  let view = home;
  let cells = [];
  let timer = 0;

  // --- what is in view ---------------------------------------------------------------------------

  const widthOf = ({ left, right }) => right - left;
  const isWhole = () => widthOf(view) >= widthOf(home);
  const centre = () => ({ lng: (view.left + view.right) / 2, lat: (view.top + view.bottom) / 2 });

  /** Shows a part of the world, twice as wide as high, and narrows the hits to it in a moment. */
  function look({ left, right, top, bottom }) {
    const width = Math.min(widthOf(home), Math.max(WIDTH_MIN, right - left));
    const within = (middle, half, low, high) =>
      Math.max(low + half, Math.min(high - half, middle));
    const lng = within((left + right) / 2, width / 2, home.left, home.right);
    const lat = within((top + bottom) / 2, width / 4, home.bottom, home.top);
    view = {
      left: lng - width / 2,
      right: lng + width / 2,
      top: lat + width / 4,
      bottom: lat - width / 4,
    };
    drawView();
    clearTimeout(timer);
    timer = setTimeout(commit, APPLY_DELAY_MS);
  }

  function commit() {
    timer = 0;
    const rounded = [view.top, view.right, view.bottom, view.left].map(
      (degrees) => Math.round(degrees * 1e4) / 1e4,
    );
    apply((state) => withChoice(state, places.field, { box: isWhole() ? null : rounded }));
  }

  /** Zooms by a factor; the point stays where it is. */
  function zoomAt(factor, { lng, lat }) {
    const part = (edge, fixed) => fixed + (edge - fixed) / factor;
    look({
      left: part(view.left, lng),
      right: part(view.right, lng),
      top: part(view.top, lat),
      bottom: part(view.bottom, lat),
    });
  }

  function move(east, north) {
    look({
      left: view.left + east,
      right: view.right + east,
      top: view.top + north,
      bottom: view.bottom + north,
    });
  }

  function pointAt(event) {
    const box = plot.getBoundingClientRect();
    return {
      lng: view.left + ((event.clientX - box.left) / box.width) * widthOf(view),
      lat: view.top - ((event.clientY - box.top) / box.height) * (view.top - view.bottom),
    };
  }

  // --- pointer, wheel and keys -------------------------------------------------------------------

  function startDrag(event) {
    if (event.button !== 0) return;
    const first = view;
    const cell = event.target.closest("circle");
    const scale = widthOf(first) / plot.getBoundingClientRect().width;
    let hasMoved = false;
    plot.setPointerCapture(event.pointerId);
    const drag = (moved) => {
      const [x, y] = [moved.clientX - event.clientX, moved.clientY - event.clientY];
      hasMoved ||= Math.hypot(x, y) > DRAG_PX;
      if (!hasMoved) return;
      view = first;
      move(-x * scale, y * scale);
    };
    const stop = (last) => {
      plot.removeEventListener("pointermove", drag);
      plot.removeEventListener("pointerup", stop);
      plot.removeEventListener("pointercancel", stop);
      if (!hasMoved && cell && last.type === "pointerup") {
        const [lng, lat] = [cell.cx, cell.cy].map((place) => place.baseVal.value / UNITS);
        look({
          left: lng - widthOf(view) / 2 / CLICK_STEP,
          right: lng + widthOf(view) / 2 / CLICK_STEP,
          top: -lat,
          bottom: -lat,
        });
      }
    };
    plot.addEventListener("pointermove", drag);
    plot.addEventListener("pointerup", stop);
    plot.addEventListener("pointercancel", stop);
  }

  /** Without Ctrl the wheel scrolls the page, as it does everywhere else. */
  function onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomAt(event.deltaY < 0 ? Math.SQRT2 : Math.SQRT1_2, pointAt(event));
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = MOVE_SHARE * widthOf(view);
    const act = {
      ArrowLeft: () => move(-step, 0),
      ArrowRight: () => move(step, 0),
      ArrowUp: () => move(0, step / 2),
      ArrowDown: () => move(0, -step / 2),
      "+": () => zoomAt(STEP, centre()),
      "=": () => zoomAt(STEP, centre()),
      "-": () => zoomAt(1 / STEP, centre()),
      0: () => look(home),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  // --- drawing -----------------------------------------------------------------------------------

  function drawView() {
    const { left, top, bottom } = view;
    const box = [left, -top, widthOf(view), top - bottom].map((degrees) => degrees * UNITS);
    drawing.setAttribute("viewBox", box.join(" "));
    zoomOut.disabled = isWhole();
    whole.hidden = isWhole();
  }

  function drawCells() {
    const most = Math.max(1, ...cells.map((cell) => cell.doc_count));
    reconcile(
      circles,
      cells.filter((cell) => cell.doc_count > 0),
      (cell) => cell.key,
      () => svg("circle", {}, svg("title")),
      (circle, cell) => {
        const share = Math.sqrt(cell.doc_count / most);
        const radius = cell.size * (RADIUS_MIN + (RADIUS_MAX - RADIUS_MIN) * share);
        circle.setAttribute("cx", cell.lng * UNITS);
        circle.setAttribute("cy", -cell.lat * UNITS);
        circle.setAttribute("r", radius * UNITS);
        circle.firstElementChild.textContent = plural(cell.doc_count, "item");
      },
    );
    const total = cells.reduce((sum, cell) => sum + cell.doc_count, 0);
    drawing.setAttribute("aria-label", `${places.title}: ${count(total)} places in view`);
  }

  function update(state, answer) {
    const { box } = choiceOf(state, places.field);
    toggle.setAttribute("aria-expanded", String(places.isOpen));
    body.hidden = !places.isOpen;
    if (!timer) {
      view = box ? viewOf(box) : home;
      drawView();
    }
    const found = answer?.data.ranges?.[places.field];
    if (!found) return;
    cells = squares(found);
    drawCells();
  }

  /** Shows other counts of the same cells: buckets with key and count. */
  function preview(buckets) {
    const counts = new Map(squares(buckets).map((cell) => [cell.key, cell.doc_count]));
    const shown = cells;
    cells = cells.map((cell) => ({ ...cell, doc_count: counts.get(cell.key) ?? 0 }));
    drawCells();
    cells = shown;
  }

  return { facet: places, element, update, preview };
}

const viewOf = ([top, right, bottom, left]) => ({ top, right, bottom, left });

/** What the map shows around a point: [top, right, bottom, left], within the world. */
export function boxAround({ lat, lng }) {
  const left = Math.max(WORLD.left, Math.min(WORLD.right - NEAR, lng - NEAR / 2));
  const bottom = Math.max(WORLD.bottom, Math.min(WORLD.top - NEAR / 2, lat - NEAR / 4));
  return [bottom + NEAR / 2, left + NEAR, bottom, left].map(
    (degrees) => Math.round(degrees * 1e4) / 1e4,
  );
}

/** A small map with one point on it. */
export function pointMap(point) {
  const [top, right, bottom, left] = boxAround(point);
  const box = [left, -top, right - left, top - bottom].map((degrees) => degrees * UNITS);
  return h(
    "div",
    { class: "map-plot map-of-point" },
    svg(
      "svg",
      { role: "img", "aria-label": "Where this is on the map", viewBox: box.join(" ") },
      svg("path", { class: "map-land", d: LAND }),
      svg(
        "g",
        { class: "map-cells" },
        svg("circle", {
          cx: point.lng * UNITS,
          cy: -point.lat * UNITS,
          r: (NEAR / 50) * UNITS,
        }),
      ),
    ),
  );
}

/** Cells are twice as wide as high: joins each with the one below it. */
function squares(buckets) {
  const joined = new Map();
  for (const bucket of buckets) {
    const [zoom, column, row] = bucket.key.split("/").map(Number);
    const key = `${zoom}/${column}/${row >> 1}`;
    const size = 360 / 2 ** zoom;
    const left = column * size - 180;
    const top = 90 - (row >> 1) * size;
    const square = joined.get(key) ?? { key, lng: left + size / 2, lat: top - size / 2, size };
    joined.set(key, { ...square, doc_count: (square.doc_count ?? 0) + bucket.doc_count });
  }
  return [...joined.values()];
}
