/** The explanation of a score as parts of a whole. */

/**
 * The parts of an item's score that a stacked bar can show, largest first.
 *
 * @returns {{label: string, value: number, text: string}[]}
 */
export function scoreParts(item) {
  const parts = [].concat(item._score_details?.parts ?? item._score_details ?? []).map((part) => ({
    label: [part.term, part.field && `in ${part.field}`, part.kind].filter(Boolean).join(" "),
    value: Number(part.score) || 0,
  }));
  return parts
    .filter((part) => part.value > 0)
    .sort((one, other) => other.value - one.value)
    .map((part) => ({ ...part, text: part.value.toFixed(2) }));
}
