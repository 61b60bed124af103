/** Page numbers: first, last, the neighbours, and gaps between. */

import { button, h } from "./dom.js";
import { count } from "../format.js";

/** The pages to offer: [1, null, 5, 6, 7, null, 99]; null is a gap. */
export function pageNumbers(page, pages) {
  const wanted = new Set([1, pages, page - 1, page, page + 1]);
  const numbers = [...wanted]
    .filter((number) => number >= 1 && number <= pages)
    .sort((a, b) => a - b);
  return numbers.flatMap((number, place) =>
    place > 0 && number - numbers[place - 1] > 1 ? [null, number] : [number],
  );
}

export function pager({ page, pages, onPage }) {
  if (pages <= 1 && page <= 1) return null;
  const numbers = pageNumbers(page, pages).map((number) =>
    number === null
      ? h("li", { class: "pager-gap", "aria-hidden": "true" }, "…")
      : h(
          "li",
          {},
          button(count(number), {
            kind: "quiet",
            "aria-label": `Page ${count(number)}`,
            "aria-current": number === page ? "page" : undefined,
            onclick: () => onPage(number),
          }),
        ),
  );
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages of results" },
    button("Previous page", {
      iconName: "left",
      isIconOnly: true,
      kind: "quiet",
      disabled: page <= 1,
      onclick: () => onPage(page - 1),
    }),
    h("ol", {}, numbers),
    button("Next page", {
      iconName: "right",
      isIconOnly: true,
      kind: "quiet",
      disabled: page >= pages,
      onclick: () => onPage(page + 1),
    }),
  );
}
