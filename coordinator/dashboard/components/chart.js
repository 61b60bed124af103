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
  const lines = seriesNames.map((_, position) =>
    svg("polyline", { class: `line series-${position}` }),
  );
  const area = svg("polygon", { class: "area" });
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
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
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

  /** Draws the points: one array a series, oldest first, of at most `capacity` values. */
  function update(series, capacity) {
    const max = Math.max(...series.flat(), 0) * 1.1 || 1;
    series.forEach((points, position) => {
      const at = (value, place) =>
        `${(WIDTH - ((points.length - 1 - place) * WIDTH) / (capacity - 1)).toFixed(1)},${(HEIGHT - (value / max) * HEIGHT).toFixed(1)}`;
      const path = points.map(at).join(" ");
      lines[position].setAttribute("points", path);
      const first = (WIDTH - ((points.length - 1) * WIDTH) / (capacity - 1)).toFixed(1);
      if (position === 0)
        area.setAttribute(
          "points",
          points.length > 1 ? `${first},${HEIGHT} ${path} ${WIDTH},${HEIGHT}` : "",
        );
      values[position].firstElementChild.textContent =
        points.length > 0 ? format(points.at(-1)) : "–";
    });
    top.textContent = format(max / 1.1);
    drawing.setAttribute(
      "aria-label",
      `${title}: ${series.map((points, position) => `${seriesNames[position]} ${format(points.at(-1) ?? 0)}`).join(", ")}`,
    );
  }

  return { element, update };
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
