/** Small pieces that show one fact: a number with its name, and a state with its colour. */

import { h } from "./dom.js";

const GOOD_STATES = new Set(["ready", "ok", "serving", "open", "up"]);

/** A number with its name, for a `dl` of class "tiles". */
export function tile(label, value, isBad = false) {
  return h("div", { class: isBad ? "tile bad" : "tile" }, h("dt", {}, label), h("dd", {}, value));
}

export function isGoodState(state) {
  return GOOD_STATES.has(state);
}

/** The word for a state, with a dot that is green only if all is well. */
export function stateBadge(state) {
  return h("span", { class: `state ${isGoodState(state) ? "good" : "warn"}` }, state);
}
