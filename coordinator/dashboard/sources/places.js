/**
 * Places from two fields of degrees, or from a GeoJSON point: a latitude and a longitude become
 * `_geo`. Pure functions; the same rules as `facetd load`.
 */

import { parseJson } from "../api.js";
import { WRITERS } from "./column_type_inference.js";

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
  const names = columns.map(({ name }) => name);
  const pair = names.includes(FIELD) ? null : pairOf(names);
  const places = pair?.map((name) => names.indexOf(name));
  const areDegrees = places?.every((place, i) => {
    const { filled, greatest } = columns[place];
    return filled > 0 && greatest !== null && greatest <= BOUNDS[i];
  });
  return areDegrees ? places : null;
}

/**
 * The same for items of JSON: two names of fields, or null. They may be those of one field of
 * objects, `place.lat` and `place.lon`, or of a GeoJSON point, `place.coordinates.1` and `.0`.
 */
export function findDegreesIn(items) {
  const names = [...new Set(items.flatMap(Object.keys))];
  const pair = names.includes(FIELD) ? null : (pairOf(names) ?? innerPair(items));
  const areDegrees = pair?.every((field, i) => {
    const values = items
      .map((item) => valueAt(item, field) ?? "")
      .filter((value) => value !== "");
    return values.length > 0 && values.every((value) => isDegrees(value, BOUNDS[i]));
  });
  return areDegrees ? pair : null;
}

/** The one name of a latitude and the one of a longitude, or null. */
function pairOf(names) {
  const called = (wanted) => names.filter((name) => wanted.includes(name.toLowerCase()));
  const found = [called(LATITUDES), called(LONGITUDES)];
  return found.every(({ length }) => length === 1) ? found.flat() : null;
}

/** The pair in the one field of objects that have one; null for `lat` and `lng`: those are points. */
function innerPair(items) {
  const found = new Map();
  for (const item of items) {
    for (const [name, value] of Object.entries(item)) {
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      if (isObject && !name.includes(".") && !found.has(name)) found.set(name, pairIn(value));
    }
  }
  const pairs = [...found].filter(([, pair]) => pair !== null);
  if (pairs.length !== 1 || pairs[0][1].join() === "lat,lng") return null;
  const [[name, pair]] = pairs;
  return pair.map((inner) => `${name}.${inner}`);
}

function pairIn(value) {
  const isPoint = value.type === "Point" && Array.isArray(value.coordinates);
  return isPoint ? ["coordinates.1", "coordinates.0"] : pairOf(Object.keys(value));
}

/** The value of a field, which may be one of an object or of a list: `place.coordinates.1`. */
function valueAt(value, field) {
  if (typeof value !== "object" || value === null) return undefined;
  const dot = Object.hasOwn(value, field) ? -1 : field.indexOf(".");
  if (dot < 0) return Object.hasOwn(value, field) ? value[field] : undefined;
  return valueAt(value[field.slice(0, dot)], field.slice(dot + 1));
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
  const values = fields.map((field) => valueAt(item, field));
  if (FIELD in item || !values.every((value, i) => isDegrees(value, BOUNDS[i]))) return text;
  const [lat, lng] = values.map(Number);
  return `${text.slice(0, -1)},"${FIELD}":${JSON.stringify({ lat, lng })}}`;
}
