/**
 * Sections of the configuration's form beyond facets: synonyms, rules, numbers that rank. Each gives
 * its element and `write(result)`, which puts what it says into a document. Rows that nobody touched
 * are written as they were read, so that what a form does not know survives it.
 */

import { toJson } from "../api.js";
import { button, h, uniqueId } from "./dom.js";

const words = (text) =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
const listed = (value) => (Array.isArray(value) ? value.join(", ") : String(value ?? ""));

function field(label, control) {
  return h("label", { class: "field" }, h("span", {}, label), control);
}

function textInput(value, attributes = {}) {
  return h("input", {
    type: "text",
    value,
    spellcheck: "false",
    autocomplete: "off",
    ...attributes,
  });
}

function choice(options, value, attributes = {}) {
  const select = h(
    "select",
    attributes,
    options.map(([key, text]) => h("option", { value: key }, text)),
  );
  select.value = value;
  return select;
}

/** Rows of a list that can be added and removed; `createRow(entry)` gives {parts, read()}. */
function rowList({ name, kind, entries, createRow, addLabel, blank }) {
  const place = h("div", { class: "form-rows" });
  const add = (entry) => {
    const { parts, read } = createRow(entry);
    const row = h(
      "div",
      { class: `form-row ${kind}`, role: "group", "aria-label": name },
      parts,
      button(`Remove this ${name}`, {
        iconName: "trash",
        isIconOnly: true,
        kind: "quiet",
        onclick: () => {
          row.remove();
          place.hidden = place.childElementCount === 0;
        },
      }),
    );
    row.read = read;
    place.append(row);
    place.hidden = false;
    return row;
  };
  entries.forEach(add);
  place.hidden = entries.length === 0;
  return {
    nodes: [
      place,
      button(addLabel, {
        iconName: "plus",
        onclick: () => add(blank).querySelector("input, select").focus(),
      }),
    ],
    read: () => [...place.children].map((row) => row.read()).filter((entry) => entry !== null),
  };
}

/** Puts a list into a document, or takes the key out where there is nothing to say. */
function put(result, key, value, original) {
  if (Object.keys(value).length > 0) result[key] = value;
  else if (original !== undefined && Object.keys(original ?? {}).length === 0)
    result[key] = original;
  else delete result[key];
}

// --- synonyms --------------------------------------------------------------------------------------

/** Lists of words that mean the same, and words that also find others. */
export function synonymSection(original) {
  const isMap = !Array.isArray(original) && original !== null && typeof original === "object";
  const entries = isMap
    ? Object.entries(original).map(([from, to]) => ({ from, to }))
    : (original ?? []);
  const rows = rowList({
    name: "synonym",
    kind: "synonym-row",
    entries,
    blank: [],
    addLabel: "Add synonyms",
    createRow(entry) {
      const from = textInput(listed(Array.isArray(entry) ? entry : entry.from), {
        placeholder: "tv, television",
      });
      const how = choice(
        [
          ["same", "all mean the same"],
          ["also", "also find"],
        ],
        Array.isArray(entry) ? "same" : "also",
        { onchange: () => (toField.hidden = how.value === "same") },
      );
      const to = textInput(Array.isArray(entry) ? "" : listed(entry.to), {
        placeholder: "new york city",
      });
      const toField = field("These", to);
      toField.hidden = how.value === "same";
      const read = () => {
        const source = words(from.value);
        if (source.length === 0) return null;
        return how.value === "same" ? source : { from: source, to: words(to.value) };
      };
      const before = toJson(read());
      const readOrKept = () => (toJson(read()) === before ? entry : read());
      return { parts: [field("Words", from), field("How", how), toField], read: readOrKept };
    },
  });
  const element = h(
    "fieldset",
    {},
    h("legend", {}, "Synonyms"),
    h(
      "p",
      { class: "small muted" },
      "Words with commas. A synonym counts a tenth of the word that was typed.",
    ),
    rows.nodes,
  );
  return {
    element,
    write(result) {
      const found = rows.read();
      if (isMap && toJson(found) === toJson(entries)) return;
      put(result, "synonyms", found, original);
    },
  };
}

// --- rules -----------------------------------------------------------------------------------------

/** "42" and 42 are one id, "007" and 7 are two. */
const toId = (text) => (/^(0|[1-9]\d{0,14})$/.test(text) ? Number(text) : text);

/** "42, 7@5" <-> [42, {id: 7, position: 5}]. */
function pinText(pin) {
  return typeof pin === "object" ? `${pin.id}@${pin.position ?? 1}` : String(pin);
}

function readPin(text) {
  const [, id, position] = /^(.*?)(?:@(\d+))?$/.exec(text);
  return position ? { id: toId(id), position: Number(position) } : toId(id);
}

/** What a shop says comes first, for a query or always: pins, hides, boosts, filters. */
export function ruleSection(original) {
  const rows = rowList({
    name: "rule",
    kind: "rule-row",
    entries: original ?? [],
    blank: {},
    addLabel: "Add a rule",
    createRow(rule) {
      const given = rule.when?.query;
      const asked = typeof given === "string" ? { is: given } : given;
      const condition = choice(
        [
          ["any", "of any query"],
          ["is", "when the query is"],
          ["contains", "when the query has"],
        ],
        asked?.is !== undefined ? "is" : asked?.contains !== undefined ? "contains" : "any",
        { onchange: () => (query.disabled = condition.value === "any") },
      );
      const query = textInput(asked?.is ?? asked?.contains ?? "", {
        disabled: condition.value === "any",
      });
      const name = textInput(rule.name ?? "", { maxlength: "100", placeholder: "tv week" });
      const pinned = (rule.pin ?? []).map(pinText).join(", ");
      const pin = textInput(pinned, { placeholder: "42, 7@5" });
      const hidden = listed(rule.hide);
      const hide = textInput(hidden, { placeholder: "13" });
      const [boost] = rule.boost ?? [];
      const isSimple = (rule.boost ?? []).length < 2;
      const boosted = textInput(isSimple ? (boost?.filter ?? "") : "as in JSON", {
        placeholder: "brand = acme",
        disabled: !isSimple,
      });
      const factor = h("input", {
        type: "number",
        min: "0",
        step: "any",
        value: boost?.factor ?? 2,
        disabled: !isSimple,
      });
      const filter = textInput(rule.filter ?? "", { placeholder: "in_stock = true" });
      const from = textInput(rule.when?.from ?? "", { placeholder: "2026-11-20" });
      const until = textInput(rule.when?.until ?? "", { placeholder: "2026-11-30T18:00:00Z" });
      const read = () => {
        const result = { ...rule };
        const set = (key, value, isEmpty) => (isEmpty ? delete result[key] : (result[key] = value));
        set("name", name.value.trim(), name.value.trim() === "");
        const when = { ...rule.when };
        delete when.query;
        if (condition.value !== "any") when.query = { [condition.value]: query.value.trim() };
        for (const [end, input] of Object.entries({ from, until })) {
          delete when[end];
          if (input.value.trim()) when[end] = input.value.trim();
        }
        set("when", when, Object.keys(when).length === 0);
        // Ids with a comma or an @ are kept as long as their text is.
        if (pin.value !== pinned)
          set("pin", words(pin.value).map(readPin), words(pin.value).length === 0);
        if (hide.value !== hidden)
          set("hide", words(hide.value).map(toId), words(hide.value).length === 0);
        if (isSimple)
          set(
            "boost",
            [{ ...boost, filter: boosted.value.trim(), factor: Number(factor.value) }],
            boosted.value.trim() === "",
          );
        set("filter", filter.value.trim(), filter.value.trim() === "");
        return Object.keys(result).some((key) => key !== "name" && key !== "when") ? result : null;
      };
      const before = toJson(read());
      const readOrKept = () =>
        toJson(read()) === before ? (before === "null" ? null : rule) : read();
      return {
        parts: [
          field("Name", name),
          field("It holds", condition),
          field("Query", query),
          field("Pin (ids; 7@5 is id 7 in place 5)", pin),
          field("Hide (ids)", hide),
          field("Boost items that match", boosted),
          field("by a factor of", factor),
          field("Show only items that match", filter),
          field("From (date or time)", from),
          field("Until (date or time)", until),
        ],
        read: readOrKept,
      };
    },
  });
  const element = h(
    "fieldset",
    { "data-path": "rules" },
    h("legend", {}, "Rules"),
    h(
      "p",
      { class: "small muted" },
      "Pin, hide or boost items for a query or a period. Conditions on filters and burying are under JSON.",
    ),
    rows.nodes,
  );
  return { element, write: (result) => put(result, "rules", rows.read(), original) };
}

// --- ranking ---------------------------------------------------------------------------------------

const BOOSTS = [
  ["log", "more is better", "0.3"],
  ["linear", "in proportion", "1"],
  ["saturation", "more is better, up to about", "50"],
  ["decay", "newer is better; halves every", "180d"],
];
const MATCHES = [
  ["", "as the default says (all)"],
  ["all", "all words"],
  ["auto", "all words; if nothing has them, some"],
  ["last", "all but the last ones, if need be"],
  ["any", "any word"],
];
const TYPOS = [
  ["", "as the default says (by length)"],
  ["auto", "by the length of the word"],
  ["0", "none"],
  ["1", "one"],
  ["2", "two"],
];

/** How words must match, and the numbers of the items that multiply scores. */
export function rankingSection(original, fields) {
  const listId = uniqueId("numbers");
  const known = (options, value) =>
    options.some(([key]) => key === value) ? options : [...options, [value, value]];
  const matchNow = String(original.match ?? "");
  const match = choice(known(MATCHES, matchNow), matchNow, { "data-path": "match" });
  const typoNow = String(original.typo ?? "");
  const typo = choice(known(TYPOS, typoNow), typoNow, { "data-path": "typo" });
  const rows = rowList({
    name: "boost",
    kind: "boost-row",
    entries: Object.entries(original.boost ?? {}),
    blank: ["", {}],
    addLabel: "Add a number",
    createRow([name, settings]) {
      const kindNow = BOOSTS.find(([key]) => key in settings)?.[0];
      const isKnown = kindNow !== undefined || Object.keys(settings).length === 0;
      const path = textInput(name, { list: listId, placeholder: "popularity" });
      const how = choice(
        isKnown ? BOOSTS.map(([key, text]) => [key, text]) : [["json", "as in JSON"]],
        isKnown ? (kindNow ?? "log") : "json",
        {
          disabled: !isKnown,
          onchange: () => (amount.value = BOOSTS.find(([key]) => key === how.value)[2]),
        },
      );
      const amount = textInput(isKnown ? (settings[kindNow] ?? BOOSTS[0][2]) : "", {
        disabled: !isKnown,
      });
      const read = () => {
        if (path.value.trim() === "") return null;
        if (!isKnown) return [path.value.trim(), settings];
        const rest = { ...settings };
        delete rest[kindNow];
        const value = how.value === "decay" ? amount.value.trim() : Number(amount.value);
        return [path.value.trim(), { ...rest, [how.value]: value }];
      };
      return {
        parts: [field("Field", path), field("How", how), field("Strength", amount)],
        read,
      };
    },
  });
  const element = h(
    "fieldset",
    {},
    h("legend", {}, "Ranking"),
    h(
      "div",
      { class: "field-pair" },
      field("Hits must have", match),
      field("Typos forgiven", typo),
    ),
    h("p", { class: "small muted" }, "Numbers and dates of the items that multiply their scores:"),
    h(
      "datalist",
      { id: listId },
      fields.map((name) => h("option", { value: name })),
    ),
    rows.nodes,
  );
  return {
    element,
    write(result) {
      put(result, "boost", Object.fromEntries(rows.read()), original.boost);
      for (const [key, select] of [
        ["match", match],
        ["typo", typo],
      ]) {
        if (select.value === String(original[key] ?? "")) continue;
        if (select.value === "") delete result[key];
        else result[key] = select.value;
      }
    },
  };
}
