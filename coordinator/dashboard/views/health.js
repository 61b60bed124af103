/** Is everything well: several hosts, load and latency now, searches, shards, segments, slow queries. */

import { STALE, Latest, serviceStats, toJson } from "../api.js";
import { createAnalytics } from "../components/analytics.js";
import { lineChart } from "../components/chart.js";
import { createCluster } from "../components/cluster.js";
import { fill, h, refill, setText } from "../components/dom.js";
import { createTable, isGoodState, number, stateBadge, tile } from "../components/figures.js";
import { showError } from "../components/notice.js";
import { bytes, compact, count, duration, milliseconds, plural, timeOfDay } from "../format.js";
import { searchPath } from "../paths.js";
import { stateFromRequest, writeState } from "../state.js";

const REFRESH_MS = 2000;
const POINTS_MAX = 91; // three minutes
const POINTS_MIN = 16; // half a minute, which fills a chart at first

export function healthView() {
  const latest = new Latest();
  const summary = h("span", { role: "status" });
  const uptime = h("span", {});
  const problem = h("div", { class: "messages" });
  const tiles = h("dl", { class: "tiles" });
  const rate = (value) => `${value >= 100 ? compact(value) : value.toFixed(1)}/s`;
  const charts = [
    { chart: lineChart("Requests", rate), read: (stats) => [stats.requests.per_second] },
    {
      chart: lineChart("Latency", milliseconds, ["median", "99 of 100"]),
      read: ({ requests }) =>
        requests.per_second > 0 ? [requests.p50_ms, requests.p99_ms] : [null, null],
    },
    { chart: lineChart("Memory", bytes), read: (stats) => [totalMemory(stats)] },
  ].map((entry) => ({ ...entry, series: [] }));
  const shards = createTable("Shards", ["Shard", "State", "Process", "Memory", "Queue", "Items"]);
  const segments = createTable("Segments", [
    "Index",
    "Shard",
    "Items",
    "Segments",
    "On disk",
    "Merging",
  ]);
  const slow = createTable("Slow queries", ["At", "Index", "Took", "Request"]);
  const cluster = createCluster();
  const analytics = createAnalytics();
  let timer = 0;

  const element = h(
    "div",
    { class: "page" },
    h("header", { class: "page-head" }, h("div", {}, h("h1", {}, "Health"), h("p", { class: "muted" }, summary, uptime))),
    problem,
    cluster.element,
    tiles,
    h(
      "div",
      { class: "charts" },
      charts.map(({ chart }) => chart.element),
    ),
    analytics.element,
    h("div", { class: "tables" }, shards.element, segments.element, slow.element),
  );

  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const stats = await latest.run((signal) => serviceStats(signal));
        if (stats === STALE) return;
        refill(problem);
        draw(stats);
      } catch (error) {
        showError(problem, error, { retry: refresh });
        if (error.isRefused) return;
      }
    }
    timer = setTimeout(refresh, REFRESH_MS);
  }

  function draw(stats) {
    const isWell = stats.shards.every((shard) => isGoodState(shard.state));
    const shardsServe = `All ${plural(stats.shards.length, "shard")} serve`;
    setText(summary, isWell ? shardsServe : "Not all shards serve");
    uptime.textContent = ` · up for ${duration(stats.uptime_s)}`;
    fill(
      tiles,
      tile("Requests", count(stats.requests.total)),
      tile("In flight", count(stats.requests.in_flight)),
      tile("Errors", count(stats.requests.errors), stats.requests.errors > 0),
      tile("Coordinator", bytes(stats.memory_bytes)),
      tile("Shards", bytes(totalMemory(stats) - stats.memory_bytes)),
    );
    for (const entry of charts) {
      entry.read(stats).forEach((value, place) => {
        entry.series[place] = [...(entry.series[place] ?? []), value ?? null].slice(-POINTS_MAX);
      });
      const capacity = Math.max(POINTS_MIN, entry.series[0].length);
      const seconds = ((capacity - 1) * REFRESH_MS) / 1000;
      entry.chart.update(entry.series, capacity, (share) =>
        share === 1 ? "now" : `${duration((1 - share) * seconds)} ago`,
      );
    }
    shards.draw(stats.shards.map(shardRow));
    segments.draw(
      stats.shards
        .flatMap((shard) => shard.indexes.map((entry) => segmentRow(shard, entry)))
        .sort((one, other) => one.key.localeCompare(other.key)),
    );
    slow.draw((stats.slow_queries ?? []).map(slowRow), "None so far.");
  }

  refresh();
  return {
    element,
    title: "Health",
    close() {
      latest.cancel();
      cluster.close();
      analytics.close();
      clearTimeout(timer);
    },
  };
}

function totalMemory(stats) {
  return (
    stats.memory_bytes + stats.shards.reduce((sum, shard) => sum + (shard.memory_bytes ?? 0), 0)
  );
}

function shardRow(shard) {
  const items = (shard.indexes ?? []).reduce((sum, entry) => sum + entry.items, 0);
  return {
    key: String(shard.id),
    cells: [
      String(shard.id),
      stateBadge(shard.state),
      number(String(shard.pid ?? "–")),
      number(bytes(shard.memory_bytes)),
      number(count(shard.queue)),
      number(count(items)),
    ],
  };
}

function segmentRow(shard, entry) {
  return {
    key: `${entry.name} ${shard.id}`,
    cells: [
      entry.name,
      String(shard.id),
      number(count(entry.items)),
      number(count(entry.segments)),
      number(bytes(entry.bytes)),
      entry.merging ? "merging" : "–",
    ],
  };
}

function slowRow(entry) {
  const request = entry.request ?? {};
  const href = `${searchPath(entry.index)}${writeState(stateFromRequest(request))}`;
  return {
    key: `${entry.at} ${entry.index}`,
    cells: [
      timeOfDay(entry.at),
      entry.index,
      number(milliseconds(entry.took_ms)),
      h("a", { href, class: "code-line" }, toJson(request)),
    ],
  };
}
