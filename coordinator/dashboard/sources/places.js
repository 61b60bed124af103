/**
 * Places from two columns of degrees: a latitude and a longitude become `_geo`. Pure functions; the
 * same rules as `facetd load`.
 */

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
  const called = (names) =>
    columns.flatMap(({ name }, place) => (names.includes(name.toLowerCase()) ? [place] : []));
  const found = [...called(LATITUDES), ...called(LONGITUDES)];
  const isOneOfEach = found.length === 2 && called(LATITUDES).length === 1;
  if (!isOneOfEach || columns.some(({ name }) => name === FIELD)) return null;
  const areDegrees = found.every((place, i) => {
    const { filled, greatest } = columns[place];
    return filled > 0 && greatest !== null && greatest <= BOUNDS[i];
  });
  return areDegrees ? found : null;
}

/** The JSON text of the geo point of two cells, or null if either is empty. */
export function placeOf(lat, lng) {
  if (lat.trim() === "" || lng.trim() === "") return null;
  return `{"lat":${WRITERS.number(lat)},"lng":${WRITERS.number(lng)}}`;
}
