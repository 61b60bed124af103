/** Small charts as SVG: a live line with its axes, bars by day, and a stacked bar with its legend. */

import { h, setVariables, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 56;
/** Where the value axis has labels and lines, as shares of its end; the topmost first. */
const TICKS = [1, 0.5, 0];

/**
 * A live line chart of one or two series.
 *
 * @param {string} title what is charted
 * @param {(value: number) => string} format how a value reads
 */
export function lineChart(title, format, seriesNames = [title]) {
  const lines = seriesNames.map((_, position) => svg("path", { class: `line series-${position}` }));
  const area = svg("path", { class: "area" });
  const values = seriesNames.map((name, position) =>
    h(
      "span",
      { class: "chart-value" },
      h("b", {}, "–"),
      seriesNames.length > 1 && h("span", { class: `chart-name series-${position}` }, name),
    ),
  );
  const ticks = TICKS.map(() => h("span", {}));
  const times = ["start", "middle", "end"].map(() => h("span", {}));
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": title,
    },
    TICKS.map((share) =>
      svg("line", {
        class: "grid",
        x1: 0,
        x2: WIDTH,
        y1: HEIGHT * (1 - share),
        y2: HEIGHT * (1 - share),
      }),
    ),
    area,
    lines,
  );
  const element = h(
    "section",
    { class: "chart" },
    h("h2", {}, title),
    h("p", { class: "chart-values" }, values),
    h(
      "div",
      { class: "chart-frame", "aria-hidden": "true" },
      h("div", { class: "chart-ticks" }, ticks),
      h("div", { class: "chart-plot" }, drawing),
      h("div", { class: "chart-times" }, times),
    ),
  );

  /**
   * Draws the points: one array a series, oldest first, of at most `capacity` values; null is a gap.
   * `timeOf(share)` names the moment at a share of the width: 0 is the oldest, 1 is now.
   */
  function update(series, capacity, timeOf) {
    const most = roundUp(Math.max(...series.flat(), 0));
    ticks.forEach((tick, place) => (tick.textContent = format(TICKS[place] * most)));
    times.forEach((time, place) => (time.textContent = timeOf(place / 2)));
    const drawn = series.map((points) => runsOf(points, capacity, most));
    drawn.forEach((runs, position) => {
      lines[position].setAttribute("d", runs.map((run) => `M${run.join("L")}`).join(""));
    });
    area.setAttribute("d", drawn[0].map(closedRun).join(""));
    const latest = series.map((points) =>
      Number.isFinite(points.at(-1)) ? format(points.at(-1)) : "–",
    );
    latest.forEach((text, position) => (values[position].firstElementChild.textContent = text));
    const spoken = seriesNames.map((name, position) => `${name} ${latest[position]}`).join(", ");
    drawing.setAttribute("aria-label", `${title}: ${spoken}`);
  }

  return { element, update };
}

/** The next round number: its half is a short number too. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.9999) * power;
}

/**
 * Bars by day, of which a part is marked.
 *
 * @param {{label: string, value: number, part: number}[]} bars
 * @param {(bar: object) => string} describe what a bar says when it is pointed at
 */
export function dayBars(title, bars, format, describe) {
  const most = roundUp(Math.max(...bars.map((bar) => bar.value), 0));
  const step = WIDTH / Math.max(bars.length, 7);
  const rect = (name, x, height) =>
    svg("rect", { class: name, x: x + step * 0.1, width: step * 0.8, y: HEIGHT - height, height });
  return h(
    "section",
    { class: "chart" },
    h("h2", {}, title),
    h(
      "div",
      { class: "chart-frame" },
      h(
        "div",
        { class: "chart-ticks", "aria-hidden": "true" },
        TICKS.map((share) => h("span", {}, format(share * most))),
      ),
      h(
        "div",
        { class: "chart-plot" },
        svg(
          "svg",
          {
            viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
            preserveAspectRatio: "none",
            role: "img",
            "aria-label": `${title}: ${bars.map(describe).join("; ") || "none"}`,
          },
          bars.map((bar, place) =>
            svg(
              "g",
              {},
              svg("title", {}, describe(bar)),
              rect("bar", place * step, (bar.value / most) * HEIGHT),
              rect("bar is-bad", place * step, (bar.part / most) * HEIGHT),
            ),
          ),
        ),
      ),
      h(
        "div",
        { class: "chart-times", "aria-hidden": "true" },
        h("span", {}, bars[0]?.label ?? ""),
        h("span", {}, bars.length > 1 ? bars.at(-1).label : ""),
      ),
    ),
  );
}

/** The unbroken runs of a series as lists of "x,y"; the newest value stands at the right edge. */
function runsOf(points, capacity, max) {
  const runs = [];
  points.forEach((value, place) => {
    if (value === null) return;
    const x = WIDTH - ((points.length - 1 - place) * WIDTH) / (capacity - 1);
    const y = HEIGHT - (value / max) * HEIGHT;
    if (place === 0 || points[place - 1] === null) runs.push([]);
    runs.at(-1).push(`${x.toFixed(1)},${y.toFixed(1)}`);
  });
  return runs;
}

function closedRun(run) {
  const xOf = (point) => point.split(",")[0];
  return `M${xOf(run[0])},${HEIGHT}L${run.join("L")}L${xOf(run.at(-1))},${HEIGHT}Z`;
}

/**
 * Parts of a whole as one bar and a legend.
 *
 * @param {{label: string, value: number, text: string}[]} parts
 * @param {number} whole what fills the bar
 */
export function stackedBar(parts, whole, label) {
  const bar = h("div", {
    class: "stack",
    role: "img",
    "aria-label": `${label}: ${parts.map((part) => `${part.label} ${part.text}`).join(", ")}`,
  });
  const legend = h("ul", { class: "legend" });
  parts.forEach((part, position) => {
    const series = `series-${position % 6}`;
    const piece = h("span", {
      class: `stack-part ${series}`,
      title: `${part.label}: ${part.text}`,
    });
    setVariables(piece, { "--share": `${whole > 0 ? (part.value / whole) * 100 : 0}%` });
    bar.append(piece);
    legend.append(
      h(
        "li",
        {},
        h("span", { class: `swatch ${series}`, "aria-hidden": "true" }),
        h("span", {}, part.label),
        h("b", {}, part.text),
      ),
    );
  });
  return h("div", { class: "stacked" }, bar, legend);
}
