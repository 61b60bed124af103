/** The part of the world on which a map opens, and the cells that it counts. Pure functions. */

export const WORLD = { top: 90, right: 180, bottom: -90, left: -180 };

const GRID_WORLD = 5;
const GRID_MAX = 16;

/** Degrees of longitude that the map opens on: at least, and at most if it is not the world. */
const HOME_MIN = 0.2;
const HOME_MAX = 180;
/** How much more than the bounds of all places is shown. */
const MARGIN = 1.2;

/**
 * The part of the world that shows all places: [top, right, bottom, left], twice as wide as high.
 * Undefined: the whole world, which places in more than half of it need, or none.
 *
 * @param {{top, right, bottom, left}} bounds of the places
 */
export function homeOf({ top, right, bottom, left }) {
  const width = Math.max(HOME_MIN, MARGIN * (right - left), MARGIN * 2 * (top - bottom));
  if (width > HOME_MAX || right < left) return undefined;
  const start = (middle, size, low, high) => Math.max(low, Math.min(high - size, middle - size / 2));
  const west = start((left + right) / 2, width, WORLD.left, WORLD.right);
  const south = start((top + bottom) / 2, width / 2, WORLD.bottom, WORLD.top);
  return [south + width / 2, west + width, south, west];
}

/** The grid whose cells a map shows: about 32 side by side. */
export function gridOf(box) {
  const width = box ? box[1] - box[3] : 360;
  return Math.min(GRID_MAX, GRID_WORLD + Math.ceil(Math.log2(360 / width)));
}

/** The bounds of the cells of a grid that have items; they are twice as wide as high. */
export function boundsOf(buckets) {
  const bounds = { top: WORLD.bottom, right: WORLD.left, bottom: WORLD.top, left: WORLD.right };
  for (const { key, doc_count: count } of buckets) {
    if (count === 0) continue;
    const [zoom, column, row] = key.split("/").map(Number);
    const width = 360 / 2 ** zoom;
    const [left, top] = [column * width - 180, 90 - (row * width) / 2];
    bounds.left = Math.min(bounds.left, left);
    bounds.right = Math.max(bounds.right, left + width);
    bounds.top = Math.max(bounds.top, top);
    bounds.bottom = Math.min(bounds.bottom, top - width / 2);
  }
  return bounds;
}
