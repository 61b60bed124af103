/**
 * Building and updating elements. Strings only ever become text nodes or attribute values, so an
 * item value full of markup is shown as the text that it is.
 */

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const AS_PROPERTY = new Set(["value", "checked", "disabled", "hidden", "open", "indeterminate"]);
/** What is typed here are names, ids and JSON: a phone must not begin them with a capital, or mend them. */
const AS_TYPED = { autocapitalize: "off", autocorrect: "off" };

function assign(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "variables") setVariables(element, value);
    else if (AS_PROPERTY.has(name)) element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  return element;
}

/** Sets CSS custom properties: dynamic geometry without style attributes, which the CSP forbids. */
export function setVariables(element, variables) {
  for (const [name, value] of Object.entries(variables)) element.style.setProperty(name, value);
}

/** Creates an HTML element; children are elements, strings, or nested lists; null is left out. */
export function h(tag, attributes, ...children) {
  const isTyped = tag === "input" || tag === "textarea";
  const element = assign(document.createElement(tag), { ...(isTyped && AS_TYPED), ...attributes });
  element.append(...present(children));
  return element;
}

/** Creates an SVG element. */
export function svg(tag, attributes, ...children) {
  const element = assign(document.createElementNS(SVG_NAMESPACE, tag), attributes);
  element.append(...present(children));
  return element;
}

function present(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false);
}

/** Sets a text unless it is there already: a screen reader would read it out again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces all children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/**
 * Replaces all children of an element that may have the focus: the button of the same name gets it,
 * or the one that is now in its place. With none left, `main` has it, so that the next Tab goes on
 * from there and not from the top of the page.
 */
export function refill(element, ...children) {
  const place = buttonsOf(element).indexOf(document.activeElement);
  const name = place >= 0 ? nameOf(document.activeElement) : null;
  fill(element, ...children);
  if (place < 0) return;
  const found = buttonsOf(element).filter((button) => !button.disabled);
  const target = found.find((button) => nameOf(button) === name) ?? found[place] ?? found.at(-1);
  (target ?? element.closest("main"))?.focus({ preventScroll: true });
}

const buttonsOf = (element) => [...element.querySelectorAll("button")];
const nameOf = (button) => button.getAttribute("aria-label") ?? button.textContent;

/**
 * Makes the children of `parent` show `rows`, in order, re-using the element of a row whose key was
 * there before: focus stays where it is and bars glide instead of jumping.
 */
export function reconcile(parent, rows, keyOf, create, update) {
  const elements = (parent.rowElements ??= new Map());
  const kept = new Map();
  let next = parent.firstElementChild;
  for (const row of rows) {
    const key = keyOf(row);
    if (kept.has(key)) continue;
    const element = elements.get(key) ?? create(row);
    update(element, row);
    kept.set(key, element);
    if (element === next) next = next.nextElementSibling;
    else moveBefore(parent, element, next);
  }
  for (const [key, element] of elements) if (!kept.has(key)) element.remove();
  for (const child of [...parent.children]) if (![...kept.values()].includes(child)) child.remove();
  parent.rowElements = kept;
}

/** insertBefore drops the focus of what it moves; this gives it back. */
function moveBefore(parent, element, next) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(element, next);
  focused?.focus({ preventScroll: true });
}

const ICON_PATHS = {
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM15.3 15.3 21 21",
  close: "M6 6l12 12M18 6 6 18",
  up: "M12 20V5M6 11l6-6 6 6",
  down: "M12 4v15M6 13l6 6 6-6",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  edit: "M4 20l1-4L16 5l3 3L8 19zM13.5 7.5l3 3",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  undo: "M8 5 4 9l4 4M4 9h9a6 6 0 0 1 0 12H9",
  upload: "M12 16V4M7 9l5-5 5 5M4 16v4h16v-4",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  empty: "M5 5h14v14H5zM8 12h8",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  filter: "M4 6h16M7 12h10M10 18h4",
  plus: "M12 5v14M5 12h14",
  check: "M5 12.5l5 5L19 7",
  minus: "M6 12h12",
  layers: "M12 4l8 4-8 4-8-4zM4 12l8 4 8-4M4 16l8 4 8-4",
  pulse: "M3 12h4l3-7 4 14 3-7h4",
  keyboard: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
  alert: "M12 4 2.8 20h18.4zM12 10v4M12 17h.01",
};

/** A 16 px line icon; decoration only, the control that carries it has the label. */
export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICON_PATHS[name] }),
  );
}

/** A button; `iconName` alone makes an icon button whose label is read out and shown as a tooltip. */
export function button(label, { iconName, isIconOnly = false, kind = "", ...attributes } = {}) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind} ${isIconOnly ? "icon-only" : ""}`.trim(),
      ...(isIconOnly ? { "aria-label": label, title: label } : {}),
      ...attributes,
    },
    iconName && icon(iconName),
    isIconOnly ? null : label,
  );
}

/** A text for screen readers only. */
export function hiddenText(text) {
  return h("span", { class: "visually-hidden" }, text);
}

let idCount = 0;

/** A new id, for labels and descriptions. */
export function uniqueId(prefix) {
  idCount += 1;
  return `${prefix}-${idCount}`;
}
