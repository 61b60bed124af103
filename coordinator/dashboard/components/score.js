/** The explanation of a score as parts of a whole. */

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

function labelOf(part) {
  if (part.kind === "tier") return TIERS[part.tier] ?? part.tier;
  if (part.kind === "proximity") return "words close together";
  const match =
    part.match && part.match !== "typed" && part.match !== "exact" ? ` (${part.match})` : "";
  return `“${part.term}”${part.field ? ` in ${part.field}` : ""}${match}`;
}
