/** The explanation of a score as parts of a whole. */

import { plural } from "../format.js";

const TIERS = {
  typed: "all words as typed",
  prefix: "words begun",
  typo: "words with a typo",
  "two typos": "words with two typos",
  infix: "inside words",
};

/**
 * The parts of an item's score that a stacked bar can show, largest first.
 *
 * @returns {{label: string, value: number, text: string}[]}
 */
export function scoreParts(item) {
  return (item._score_details?.parts ?? [])
    .filter((part) => part.score > 0)
    .sort((one, other) => other.score - one.score)
    .map((part) => ({ label: labelOf(part), value: part.score, text: part.score.toFixed(2) }));
}

/** What else decides the place of an item: rules that pin it, boosts and rules that lower it. */
export function scoreNotes(item) {
  return (item._score_details?.parts ?? []).flatMap((part) => {
    if (part.kind === "pin") return [`Pinned to place ${part.position} by ${ruleOf(part)}`];
    return part.score < 0 ? [`Lowered by ${labelOf(part)}: ${part.score.toFixed(2)}`] : [];
  });
}

function ruleOf({ rule }) {
  return rule ? `the rule “${rule}”` : "a rule";
}

function labelOf(part) {
  if (part.kind === "tier") return TIERS[part.tier] ?? part.tier;
  if (part.kind === "proximity") return "words close together";
  if (part.kind === "whole field") return "a whole field as typed";
  if (part.kind === "leading words") return `the first ${plural(part.words, "word")}`;
  if (part.kind === "base") return "every item";
  if (part.kind === "boost") return `boost by ${part.field}`;
  if (part.kind === "rule") return ruleOf(part);
  const match =
    part.match && part.match !== "typed" && part.match !== "exact" ? ` (${part.match})` : "";
  return `“${part.term}”${part.field ? ` in ${part.field}` : ""}${match}`;
}
