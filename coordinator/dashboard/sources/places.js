/**
 * Places from two fields of degrees: a latitude and a longitude become `_geo`. Pure functions; the
 * same rules as `facetd load`.
 */

import { parseJson } from "../api.js";
import { WRITERS } from "./cells.js";

export const FIELD = "_geo";

/** The greatest latitude and longitude, in degrees. */
const BOUNDS = [90, 180];
const LATITUDES = ["lat", "latitude"];
const LONGITUDES = ["lng", "lon", "long", "longitude"];

/**
 * The places in `columns` of a latitude and a longitude, or null unless just one column is called
 * like each, all values are degrees, and no column is the geo point already.
 */
export function findDegrees(columns) {
  return findNamed(columns, (place, bound) => {
    const { filled, greatest } = columns[place];
    return filled > 0 && greatest !== null && greatest <= bound;
  });
}

/** The same for the fields of items of JSON. */
export function findDegreesIn(items, columns) {
  return findNamed(columns, (place, bound) => {
    const values = items
      .map((item) => item[columns[place].name] ?? "")
      .filter((value) => value !== "");
    return values.length > 0 && values.every((value) => isDegrees(value, bound));
  });
}

function findNamed(columns, areDegrees) {
  const called = (names) =>
    columns.flatMap(({ name }, place) => (names.includes(name.toLowerCase()) ? [place] : []));
  const found = [...called(LATITUDES), ...called(LONGITUDES)];
  const isOneOfEach = found.length === 2 && called(LATITUDES).length === 1;
  if (!isOneOfEach || columns.some(({ name }) => name === FIELD)) return null;
  return found.every((place, i) => areDegrees(place, BOUNDS[i])) ? found : null;
}

function isDegrees(value, bound) {
  const isNumber = ["number", "bigint"].includes(typeof value);
  const isText = typeof value === "string" && value.trim() !== "";
  return (isNumber || isText) && Math.abs(Number(value)) <= bound;
}

/** The JSON text of the geo point of two cells, or null if either is empty. */
export function placeOf(lat, lng) {
  if (lat.trim() === "" || lng.trim() === "") return null;
  return `{"lat":${WRITERS.number(lat)},"lng":${WRITERS.number(lng)}}`;
}

/** The JSON text of an object with its place; unchanged unless both fields hold degrees. */
export function withPlace(text, fields) {
  let item;
  try {
    item = parseJson(text);
  } catch {
    return text; // the service refuses it, with its line
  }
  const values = fields.map((field) => item[field]);
  if (FIELD in item || !values.every((value, i) => isDegrees(value, BOUNDS[i]))) return text;
  const [lat, lng] = values.map(Number);
  return `${text.slice(0, -1)},"${FIELD}":${JSON.stringify({ lat, lng })}}`;
}
