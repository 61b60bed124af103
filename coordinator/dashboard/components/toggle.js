/** The button in the heading of a facet, a tree or a map, which folds its body. */

import { h, icon } from "./dom.js";

/**
 * @param {object} section of the schema: `title`, and `isOpen`, which a click changes
 * @param {string} bodyId id of the element that is folded
 * @param {{refresh: Function}} page
 * @param {Node[]} more what follows the title
 */
export function createToggle(section, bodyId, { refresh }, ...more) {
  return h(
    "button",
    {
      type: "button",
      class: "facet-toggle",
      "aria-controls": bodyId,
      onclick: () => {
        section.isOpen = !section.isOpen;
        refresh();
      },
    },
    icon("right"),
    h("span", { class: "facet-title" }, section.title),
    ...more,
  );
}
