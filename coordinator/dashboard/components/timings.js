/** How long a search took, and behind a click, where the time went. */

import { milliseconds } from "../format.js";
import { stackedBar } from "./chart.js";
import { fill, h } from "./dom.js";

/** Shows the phases of a search in a `details` element. */
export function drawTimings(timing, { answer, phases, roundTripMs }) {
  const whole = phases.find((phase) => phase.name === "total");
  const parts = phases
    .filter((phase) => phase.name !== "total")
    .map((phase) => ({ label: phase.name, value: phase.ms, text: milliseconds(phase.ms) }));
  const sum = parts.reduce((total, part) => total + part.value, 0);
  const rest = (whole?.ms ?? sum) - sum;
  if (rest > 0) parts.push({ label: "rest", value: rest, text: milliseconds(rest) });
  const took = whole?.ms ?? (answer.meta?.took_us ?? 0) / 1000;
  timing.hidden = false;
  fill(
    timing,
    h("summary", {}, `in ${milliseconds(took)}`),
    h(
      "div",
      { class: "popover-body" },
      h("h2", {}, "Where the time went"),
      stackedBar(parts, Math.max(took, sum), "Phases"),
      h(
        "p",
        { class: "small muted" },
        `${milliseconds(roundTripMs)} from request to answer as seen by this browser.`,
      ),
    ),
  );
}
