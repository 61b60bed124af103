/** One hit: as a card or as JSON, with highlighting, the explanation of its score, edit and delete. */

import { deleteItem, getItem, replaceItem, toJson } from "../api.js";
import { count, fieldTitle, indentJson, plainNumber } from "../format.js";
import { itemPath } from "../paths.js";
import { memberOf } from "../schema.js";
import { HIGHLIGHT_CLOSE, HIGHLIGHT_OPEN } from "../state.js";
import { stackedBar } from "./chart.js";
import { confirmLoss, openDialog } from "./dialog.js";
import { button, h } from "./dom.js";
import { toast } from "./notice.js";
import { scoreNotes, scoreParts } from "./score.js";

const TEXT_LENGTH = 60; // a value longer than this is text, not a property
const DEGREE_DIGITS = 6;
const EXCERPT_LENGTH = 320;
const EXCERPT_LEAD = 80;
const LIST_LENGTH = 8;
const FIELDS_SHOWN = 12;
const ADDED_FIELDS = new Set(["_highlight", "_snippet", "_score", "_score_details"]);
const ENTITIES = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&#x27;": "'",
};

/**
 * @param {object} item as it came, with _highlight, _score and _score_details where asked for
 * @param {{index: string, schema: object, state: object, scoreMax: number, pinnedBy: Map,
 *     changed: Function}} page
 */
export function createItem(item, page) {
  const stored = storedFields(item);
  const marks = item._highlight ?? {};
  const { titleField, display } = page.schema;
  const hasId = stored.id !== undefined && stored.id !== null;
  const title = plainTitle(stored, titleField);
  const heading = h("h2", { dir: "auto" }, linkedTitle(item, page));
  return h(
    "article",
    { class: "item", tabindex: "-1", "aria-label": cut(title, TEXT_LENGTH) },
    h(
      "header",
      { class: "item-head" },
      heading,
      pinMark(item, page),
      hasId && titleField !== "id" && h("code", { class: "item-id" }, String(stored.id)),
      hasId && h("div", { class: "item-actions" }, itemActions(page, stored.id, title)),
    ),
    page.state.view === "json"
      ? h(
          "pre",
          { class: "code", tabindex: "0", "aria-label": `${cut(title, TEXT_LENGTH)} as JSON` },
          toJson(stored, 2),
        )
      : h(
          "div",
          { class: "item-body" },
          picture(stored[display.image], title),
          h("div", { class: "item-fields" }, card(stored, marks, titleField, display)),
        ),
    item._score_details && explanation(item, page.scoreMax),
  );
}

/**
 * Which items the rules that applied to a search have pinned: name of the rule by id.
 *
 * @param {object[]} rules of the configuration
 * @param {string[]} applied names of those that applied
 */
export function pinnedBy(rules, applied) {
  return new Map(
    rules
      .filter(({ name }) => applied.includes(name))
      .flatMap(({ name, pin = [] }) => pin.map(({ id }) => [String(id), name]))
      .reverse(), // of two rules that pin an item, the first one counts
  );
}

/** The remark that a rule has put an item at its place, or null. */
export function pinMark(item, page) {
  const rule = page.pinnedBy.get(String(item.id));
  return rule === undefined ? null : h("span", { class: "tag item-pin" }, `Pinned by “${rule}”`);
}

/** The heading of an item, as a link to its page. */
export function linkedTitle(item, { index, schema }) {
  const title = titleOf(item, schema);
  if (item.id === undefined || item.id === null) return title;
  return h("a", { href: itemPath(index, item.id), class: "item-link" }, title);
}

/** What heads an item, with its marks: nodes. */
function titleOf(item, { titleField }) {
  const mark = memberOf(item._highlight, titleField);
  if (mark) return marked(firstText(mark), Infinity);
  return cut(plainTitle(item, titleField), EXCERPT_LENGTH);
}

/** What heads an item, as text. */
export function plainTitle(item, titleField) {
  const hasId = item.id !== undefined && item.id !== null;
  return textOf(memberOf(item, titleField)) || (hasId ? String(item.id) : "Item without id");
}

/** The picture that the configuration names (`display.image`), if it is an address of one. */
export function picture(value, title) {
  const address = Array.isArray(value) ? value[0] : value;
  if (typeof address !== "string" || !/^(https?:)?\//.test(address)) return null;
  return h("img", {
    class: "item-image",
    src: address,
    alt: `Picture of ${cut(title, TEXT_LENGTH)}`,
    loading: "lazy",
    referrerpolicy: "no-referrer",
  });
}

/** The item without what the search added to it. */
export function storedFields(item) {
  return Object.fromEntries(Object.entries(item).filter(([field]) => !ADDED_FIELDS.has(field)));
}

// --- card ----------------------------------------------------------------------------------------

function card(stored, marks, titleField, display) {
  const headed = new Set(["id", titleField, display.image]);
  const entries = Object.entries(stored).filter(
    ([field, value]) => !headed.has(field) && value !== null && textOf(value) !== "",
  );
  if (display.fields) {
    const place = (field) => display.fields.indexOf(field) + 1 || Infinity;
    entries.sort(([one], [other]) => place(one) - place(other) || 0);
  }
  const isText = ([, value]) => typeof value === "string" && value.length > TEXT_LENGTH;
  const markedFirst = [
    ...entries.filter(([field]) => hasMark(marks[field])),
    ...entries.filter(([field]) => !hasMark(marks[field])),
  ];
  const texts = markedFirst.filter(isText);
  const properties = markedFirst.filter((entry) => !isText(entry));
  const rest = [...properties.slice(FIELDS_SHOWN), ...texts.slice(1)];
  return [
    texts.length > 0 &&
      h("p", { class: "item-text", dir: "auto" }, valueNodes(texts[0][1], marks[texts[0][0]])),
    fieldList(properties.slice(0, FIELDS_SHOWN), marks),
    rest.length > 0 &&
      h(
        "details",
        { class: "item-rest" },
        h("summary", {}, `${rest.length} more ${rest.length === 1 ? "field" : "fields"}`),
        fieldList(rest, marks),
      ),
  ];
}

function fieldList(entries, marks) {
  if (entries.length === 0) return null;
  return h(
    "dl",
    { class: "fields" },
    entries.map(([field, value]) =>
      h("div", {}, h("dt", {}, fieldTitle(field)), h("dd", {}, valueNodes(value, marks[field]))),
    ),
  );
}

export function valueNodes(value, mark) {
  if (Array.isArray(value)) {
    const texts = value.map(textOf).slice(0, LIST_LENGTH);
    // Marks are of texts only: beside other values it is unknown whose they are.
    const marks = Array.isArray(mark) && mark.length === value.length ? mark : [];
    const nodes = texts.map((text, place) =>
      h(
        "span",
        { class: "tag", dir: "auto" },
        marks[place] === undefined
          ? cut(text, TEXT_LENGTH * 2)
          : marked(marks[place], EXCERPT_LENGTH),
      ),
    );
    if (value.length > LIST_LENGTH)
      nodes.push(h("span", { class: "muted" }, `and ${count(value.length - LIST_LENGTH)} more`));
    return nodes;
  }
  if (typeof mark === "string") return marked(mark, EXCERPT_LENGTH);
  return cut(typeof value === "number" ? plainNumber(value) : textOf(value), EXCERPT_LENGTH);
}

function textOf(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  if (isPoint(value)) return pointText(value);
  return flatText(value) ?? toJson(value);
}

/** A flat object, such as a variant, in words: "size: M · price: 19"; null if it is not flat. */
export function flatText(value) {
  if (Array.isArray(value)) return null;
  const members = Object.entries(value).filter(([, part]) => part !== null);
  if (members.length === 0 || !members.every(([, part]) => isSimple(part))) return null;
  return members.map(([name, part]) => `${name}: ${[part].flat().join(", ")}`).join(" · ");
}

const isSimple = (value) => [value].flat().every((part) => typeof part !== "object");

/** Degrees to a tenth of a metre: what more digits say is no place. */
const shortDegrees = (degrees) => Number(degrees.toFixed(DEGREE_DIGITS));

export function pointText({ lat, lng }) {
  return `${shortDegrees(lat)}, ${shortDegrees(lng)}`;
}

export function isPoint(value) {
  return (
    value !== null &&
    typeof value === "object" &&
    Object.keys(value).sort().join() === "lat,lng" &&
    typeof value.lat === "number" &&
    typeof value.lng === "number"
  );
}

/** Whether a highlighted value, a text or a list of texts, has a mark in it. */
function hasMark(value) {
  if (Array.isArray(value)) return value.some(hasMark);
  return typeof value === "string" && value.includes(HIGHLIGHT_OPEN);
}

function firstText(mark) {
  return Array.isArray(mark)
    ? (mark.find((text) => text.includes(HIGHLIGHT_OPEN)) ?? mark[0])
    : mark;
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length).trimEnd()}…` : text;
}

/** Text with highlight marks as text nodes and <mark> elements, around its first mark if it is long. */
function marked(text, lengthMax) {
  const lead = text.indexOf(HIGHLIGHT_OPEN) - EXCERPT_LEAD;
  let prefix = "";
  if (text.length > lengthMax && lead > EXCERPT_LEAD) {
    text = text.slice(text.indexOf(" ", lead) + 1);
    prefix = "…";
  }
  let room = lengthMax;
  const nodes = [prefix];
  for (const [place, part] of text.split(HIGHLIGHT_OPEN).entries()) {
    const [inside, after] = place === 0 ? ["", part] : part.split(HIGHLIGHT_CLOSE);
    if (room <= 0) break;
    if (inside) nodes.push(h("mark", {}, unescapeEntities(inside)));
    const rest = unescapeEntities(after ?? "");
    nodes.push(cut(rest, Math.max(0, room)));
    room -= inside.length + rest.length;
  }
  return nodes;
}

function unescapeEntities(text) {
  return text.replaceAll(/&(?:amp|lt|gt|quot|#39|#x27);/g, (entity) => ENTITIES[entity]);
}

// --- score ---------------------------------------------------------------------------------------

function explanation(item, scoreMax) {
  const parts = scoreParts(item);
  const notes = scoreNotes(item);
  if (parts.length === 0 && notes.length === 0) return null;
  return h(
    "div",
    { class: "explanation", role: "group", "aria-label": "Why this rank" },
    h("p", { class: "small muted" }, `Score ${Number(item._score).toFixed(3)}`),
    parts.length > 0 && stackedBar(parts, scoreMax, "Score"),
    notes.map((note) => h("p", { class: "small" }, note)),
  );
}

// --- edit and delete -------------------------------------------------------------------------------

function itemActions(page, id, title) {
  const name = cut(title, TEXT_LENGTH);
  return [
    button(`Edit ${name}`, {
      iconName: "edit",
      isIconOnly: true,
      kind: "quiet",
      onclick: () => editItem(page, id),
    }),
    button(`Delete ${name}`, {
      iconName: "trash",
      isIconOnly: true,
      kind: "quiet",
      onclick: () => deleteDialog(page, id, title),
    }),
  ];
}

/** Asks, and then deletes an item; `page` names the index, and what to do when it is gone. */
export function deleteDialog(page, id, title) {
  confirmLoss({
    title: "Delete this item?",
    text: `“${cut(title, TEXT_LENGTH)}” (id ${id}) will be gone from the index ${page.index}.`,
    action: "Delete",
    act: async () => {
      await deleteItem(page.index, id);
      toast(`Deleted ${id}`);
      page.changed();
    },
  });
}

/** Opens an item as JSON; it is saved only if nobody changed it meanwhile. */
export async function editItem(page, id) {
  let etag = null;
  const text = h("textarea", {
    class: "code",
    rows: "20",
    spellcheck: "false",
    autofocus: true,
    disabled: true,
    "aria-label": `Item ${id} as JSON`,
  });
  const problem = h("p", { class: "field-error", role: "alert" });
  const save = h("button", { type: "submit", class: "button primary", disabled: true }, "Save");

  const read = async () => {
    try {
      const answer = await getItem(page.index, id);
      etag = answer.etag;
      text.value = indentJson(answer.text);
      text.disabled = save.disabled = false;
      text.focus();
      text.setSelectionRange(0, 0);
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const write = async (close) => {
    if (save.disabled) return; // Ctrl + Enter, held or too early
    problem.textContent = "";
    try {
      JSON.parse(text.value);
    } catch (error) {
      problem.textContent = `This is not JSON yet: ${error.message}`;
      return;
    }
    save.disabled = true;
    try {
      await replaceItem(page.index, id, text.value, etag);
      close();
      toast(`Saved ${id}`);
      page.changed();
    } catch (error) {
      const isOvertaken = error.status === 409 || error.status === 412;
      problem.textContent = isOvertaken
        ? "Somebody changed this item since you opened it. Copy your text, close, and open it again."
        : error.message;
      save.disabled = false;
    }
  };
  openDialog(
    `Edit item ${id}`,
    (close) => [
      h(
        "form",
        {
          class: "dialog-body",
          onsubmit: (event) => {
            event.preventDefault();
            write(close);
          },
          onkeydown: (event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) write(close);
          },
        },
        text,
        problem,
        h(
          "div",
          { class: "dialog-actions" },
          h("span", { class: "small muted grow" }, "Ctrl + Enter saves"),
          button("Cancel", { onclick: close }),
          save,
        ),
      ),
    ],
    { kind: "wide" },
  );
  await read();
}
