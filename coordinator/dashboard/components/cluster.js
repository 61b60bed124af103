/** Several hosts: has the log a majority, who leads it, and how far is each host? */

import { ApiError, STALE, Latest, clusterState } from "../api.js";
import { count, duration, milliseconds, plural } from "../format.js";
import { fill, h, setText } from "./dom.js";
import { createTable, number, stateBadge } from "./figures.js";

const REFRESH_MS = 5000;

/** Shows nothing for a host that shares no log with others. */
export function createCluster() {
  const latest = new Latest();
  const summary = h("span", { role: "status" });
  const end = h("span", {});
  const troubles = h("ul", { class: "troubles" });
  const hosts = createTable("Hosts", ["Host", "State", "Entry", "Lag", "Shards", "Compared"]);
  const servers = createTable("Servers of the log", ["Server", "State", "Entries missing"]);
  const element = h(
    "section",
    { class: "cluster", "aria-label": "Several hosts", hidden: true },
    h("p", {}, summary, end),
    troubles,
    h("div", { class: "tables" }, hosts.element, servers.element),
  );
  let timer = 0;

  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const state = await latest.run((signal) => clusterState(signal));
        if (state === STALE || !state.log) return;
        draw(state);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.isRefused) return; // the page says so, and why others fail
      }
    }
    timer = setTimeout(refresh, REFRESH_MS);
  }

  function draw({ log, hosts: all }) {
    element.hidden = false;
    setText(summary, summaryOf(log));
    end.textContent = log.is_up ? ` · ends at entry ${count(log.last_seq)}` : "";
    fill(
      troubles,
      all.flatMap((one) => troublesOf(one).map((text) => h("li", {}, `${one.name}: ${text}`))),
    );
    hosts.draw(all.map(hostRow));
    servers.draw(log.servers.map(serverRow), "A server without a cluster: no copy elsewhere.");
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

function summaryOf(log) {
  if (!log.is_up)
    return "The log is away or has no majority: nothing can be written, searches go on";
  const current = log.servers.filter((one) => one.is_current).length;
  const copies = log.servers.length
    ? `${count(current)} of ${plural(log.servers.length, "server")} have it all, ${log.leader} leads`
    : "on one server";
  return `The log has a majority: ${copies}`;
}

function troublesOf(host) {
  if (host.is_away) return [];
  const found = host.trouble ? [host.trouble] : [];
  if (host.difference) found.push(`others differed at entry ${host.compared_seq}: ${host.difference}`);
  return found;
}

function stateOf(host) {
  if (host.is_away) return `away for ${duration(host.silent_s)}`;
  if (host.trouble) return host.is_serving ? "trouble" : "stopped";
  return host.is_serving ? "serving" : "starting";
}

function hostRow(host) {
  const lag = host.lag_ms < 0 || host.is_away ? "–" : milliseconds(host.lag_ms);
  return {
    key: host.host,
    cells: [
      host.is_here ? `${host.name} (this one)` : host.name,
      stateBadge(stateOf(host)),
      number(count(host.seq)),
      number(lag),
      number(count(host.shards)),
      host.compared_seq
        ? `${host.difference ? "differ" : `${count(host.num_equal)} equal`} at ${count(host.compared_seq)}`
        : "not yet",
    ],
  };
}

function serverRow(server) {
  const state = server.is_current ? "up" : "behind or away";
  return {
    key: server.name,
    cells: [
      server.is_leader ? `${server.name} (leads)` : server.name,
      stateBadge(state),
      number(count(server.num_missing)),
    ],
  };
}
