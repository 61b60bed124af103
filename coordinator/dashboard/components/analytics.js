/** What people search for: by day, most often, without a hit, slowest, clicked. */

import { STALE, Latest, analytics } from "../api.js";
import { count, milliseconds, percent, plural } from "../format.js";
import { itemPath, searchPath } from "../paths.js";
import { EMPTY_STATE, withQuery, writeState } from "../state.js";
import { dayBars } from "./chart.js";
import { fill, h, refill } from "./dom.js";
import { createTable, number } from "./figures.js";
import { showError } from "./notice.js";

const REFRESH_MS = 15_000;
const DAYS = [1, 7, 30];

export function createAnalytics() {
  const latest = new Latest();
  const days = h(
    "select",
    { "aria-label": "Searches of", onchange: () => refresh() },
    DAYS.map((number) =>
      h("option", { value: String(number) }, number === 1 ? "today" : `the last ${number} days`),
    ),
  );
  days.value = "7";
  const summary = h("p", { class: "small muted" });
  const problem = h("div", { class: "messages" });
  const byDay = h("div", {});
  const popular = createTable("Most frequent", [
    "Query",
    "Index",
    "Searches",
    "No hit",
    "Time",
    "Clicks",
  ]);
  const empty = createTable("Without a hit", ["Query", "Index", "Searches"]);
  const slow = createTable("Slowest", ["Query", "Index", "Took"]);
  const clicked = createTable("Clicked", ["Item", "Index", "Clicks"]);
  const element = h(
    "section",
    { class: "analytics", "aria-label": "Searches" },
    h("div", { class: "panel-head" }, h("div", {}, h("h2", {}, "Searches"), summary), days),
    problem,
    byDay,
    h("div", { class: "tables" }, popular.element, empty.element, slow.element, clicked.element),
  );
  let timer = 0;
  let drawnDays = null;

  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const report = await latest.run((signal) => analytics(days.value, signal));
        if (report === STALE) return;
        refill(problem);
        draw(report);
      } catch (error) {
        if (error.status === 404 || error.isRefused) {
          element.hidden = true; // analytics are off, or not for this key
          return;
        }
        showError(problem, error, { retry: refresh });
      }
    }
    timer = setTimeout(refresh, REFRESH_MS);
  }

  function draw(report) {
    summary.textContent = `${plural(report.searches, "search", "searches")}, ${percent(report.no_hits, report.searches)} without a hit`;
    const bars = report.days.map((day) => ({
      label: day.date,
      value: day.searches,
      part: day.no_hits,
    }));
    const shown = JSON.stringify(bars);
    if (shown !== drawnDays && bars.length > 1)
      fill(
        byDay,
        dayBars(
          "Searches a day; without a hit in orange",
          bars,
          count,
          (bar) => `${bar.label}: ${count(bar.value)}, ${count(bar.part)} without a hit`,
        ),
      );
    byDay.hidden = bars.length < 2;
    drawnDays = shown;
    popular.draw(
      report.popular.map((entry) => ({
        cells: [
          queryLink(entry),
          entry.index,
          number(count(entry.searches)),
          number(percent(entry.no_hits, entry.searches)),
          number(milliseconds(entry.took_us / 1000 / Math.max(1, entry.searches))),
          number(count(entry.clicks)),
        ],
      })),
      "No search with words yet.",
    );
    empty.draw(
      report.without_hits.map((entry) => ({
        cells: [queryLink(entry), entry.index, number(count(entry.no_hits))],
      })),
      report.no_hits === 0
        ? "Every search found something."
        : "Every search with words found something.",
    );
    slow.draw(
      report.slow.map((entry) => ({
        cells: [queryLink(entry), entry.index, number(milliseconds(entry.took_us / 1000))],
      })),
      "None yet.",
    );
    clicked.element.hidden = report.clicked.length === 0;
    clicked.draw(
      report.clicked.map((entry) => ({
        cells: [
          h("a", { href: itemPath(entry.index, entry.id) }, entry.id),
          entry.index,
          number(count(entry.clicks)),
        ],
      })),
    );
  }

  refresh();
  return {
    element,
    close() {
      latest.cancel();
      clearTimeout(timer);
    },
  };
}

function queryLink({ index, query }) {
  const href = searchPath(index) + writeState(withQuery(EMPTY_STATE, query));
  return h("a", { href, dir: "auto" }, query || "(no words)");
}
