/** Small charts as SVG: a live line, and a stacked bar with its legend. */

import { h, setVariables, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 56;

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
  const top = h("span", { class: "chart-top" });
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": title,
    },
    area,
    lines,
  );
  const element = h(
    "section",
    { class: "chart" },
    h("h2", {}, title),
    h("p", { class: "chart-values" }, values),
    h("div", { class: "chart-plot" }, drawing, top),
  );

  /**
   * Draws the points: one array a series, oldest first, of at most `capacity` values; null is a gap.
   */
  function update(series, capacity) {
    const highest = Math.max(...series.flat(), 0);
    const drawn = series.map((points) => runsOf(points, capacity, highest * 1.1 || 1));
    drawn.forEach((runs, position) => {
      lines[position].setAttribute("d", runs.map((run) => `M${run.join("L")}`).join(""));
    });
    area.setAttribute("d", drawn[0].map(closedRun).join(""));
    const latest = series.map((points) =>
      Number.isFinite(points.at(-1)) ? format(points.at(-1)) : "–",
    );
    latest.forEach((text, position) => (values[position].firstElementChild.textContent = text));
    top.textContent = format(highest);
    const spoken = seriesNames.map((name, position) => `${name} ${latest[position]}`).join(", ");
    drawing.setAttribute("aria-label", `${title}: ${spoken}`);
  }

  return { element, update };
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
