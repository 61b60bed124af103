/**
 * What a file's columns could be that they are not read as by themselves: numbers with decimal
 * commas, prices, dates in other notations, lists, coordinates. Each is a sentence, and a click that takes it up.
 */

import { COMMA_NUMBER, GROUPED_NUMBER } from "../sources/column_type_inference.js";
import { button, h } from "./dom.js";

const ORDER_NAMES = { dmy: "Day first", mdy: "Month first", ymd: "Year first" };
const NAMED_MAX = 5;

/**
 * @param {object} table
 * @param {(column: object, kind: string) => void} setKind
 * @returns {{elements: Node[], refresh: () => void}} `refresh` is for when a kind has changed
 */
export function columnNotes(table, setKind) {
  const texts = table.columns.filter(({ kind }) => kind === "text");
  const commas = texts.filter(({ hasCommas }) => hasCommas);
  // Where others have decimal commas, 1.200 has one after its last digit.
  const groups = table.columns.filter(
    ({ kind, hasPointGroups }) => commas.length > 0 && kind === "number" && hasPointGroups,
  );
  const notes = [
    ...commaNotes([...commas, ...groups]),
    ...groupNotes(texts.filter(({ hasGroups }) => hasGroups)),
    ...texts.filter(({ price }) => price).map(priceNote),
    ...roundedNotes(texts.filter(({ roundedExample }) => roundedExample)),
    ...dateNotes(texts.filter(({ hasOtherDates }) => hasOtherDates)),
    ...texts.filter(({ separator }) => separator).map(listNote),
  ].map((one) => createNote(one, setKind));
  return {
    elements: notes.map(({ element }) => element),
    refresh: () => notes.forEach((note) => note.refresh()),
  };
}

function commaNotes(columns) {
  if (columns.length === 0) return [];
  const verb = columns.length === 1 ? "has" : "have";
  const text = `${names(columns)} ${verb} decimal commas, such as ${columns[0].example}.`;
  return [{ text, columns, choices: [["Read as numbers", COMMA_NUMBER]] }];
}

function groupNotes(columns) {
  if (columns.length === 0) return [];
  const verb = columns.length === 1 ? "has" : "have";
  const text = `${names(columns)} ${verb} numbers in groups, such as ${columns[0].example}.`;
  return [{ text, columns, choices: [["Read as numbers", GROUPED_NUMBER]] }];
}

function priceNote(column) {
  const { currency, kind } = column.price;
  return {
    text: `${column.name}: amounts of ${currency}, such as ${column.example}.`,
    columns: [column],
    choices: [["Read as numbers", kind]],
  };
}

function roundedNotes(columns) {
  if (columns.length === 0) return [];
  const text =
    `${names(columns)}: whole numbers such as ${columns[0].roundedExample} stay text, ` +
    "as numbers beside others they would be rounded.";
  return [{ text, columns, choices: [["Read as numbers", "number"]] }];
}

/** One note for each set of orders that fit: columns of one file may be of several notations. */
function dateNotes(columns) {
  const groups = new Map();
  for (const column of columns) {
    const key = column.dateOrders.join();
    groups.set(key, [...(groups.get(key) ?? []), column]);
  }
  return [...groups.values()].map((alike) => {
    const [{ example, dateOrders }] = alike;
    const isOpen = dateOrders.length > 1;
    const advice =
      dateOrders.length === 0 ? " Write them as 2024-12-31 to sort and count them as dates." : "";
    return {
      text: `${names(alike)}: dates such as ${example} stay text.${advice}`,
      columns: alike,
      choices: dateOrders.map((order) => [isOpen ? ORDER_NAMES[order] : "Read as dates", order]),
    };
  });
}

function listNote(column) {
  return {
    text: `${column.name}: cells seem to be lists, divided by ${column.separator}`,
    columns: [column],
    choices: [["Read as lists", `list ${column.separator}`]],
  };
}

/** A sentence with a button for each way to read the columns; that in force is pressed. */
function createNote({ text, columns, choices }, setKind) {
  const buttons = choices.map(([label, kind]) =>
    button(label, { onclick: () => columns.forEach((column) => setKind(column, kind)) }),
  );
  const refresh = () =>
    choices.forEach(([, kind], i) => {
      const isInForce = columns.every((column) => column.kind === kind);
      buttons[i].setAttribute("aria-pressed", String(isInForce));
    });
  refresh();
  return { element: h("div", { class: "column-note" }, h("p", {}, text), buttons), refresh };
}

/**
 * The geo point of two fields of degrees: made for a new index unless the user says no.
 *
 * @param {object} source a table or JSON, with `degreeNames` and `makesPlaces`
 * @returns {?{element: Node, setNew: (isNew: boolean) => void}} null if there are no such fields;
 *   `setNew` says whether the index is new, for as long as the user has not decided
 */
export function placeChoice(source) {
  if (!source?.degreeNames) return null;
  const [lat, lng] = source.degreeNames;
  let isDecided = false;
  const input = h("input", {
    type: "checkbox",
    onchange: () => {
      isDecided = true;
      source.makesPlaces = input.checked;
    },
  });
  const text = `Make a geo point (_geo) of ${lat} and ${lng}: for the map, and to search by distance.`;
  return {
    element: h("label", { class: "check" }, input, h("span", {}, text)),
    setNew: (isNew) => {
      if (!isDecided) source.makesPlaces = input.checked = isNew;
    },
  };
}

function names(columns) {
  const listed = columns.slice(0, NAMED_MAX).map(({ name }) => name);
  return listed.join(", ") + (columns.length > NAMED_MAX ? " …" : "");
}
