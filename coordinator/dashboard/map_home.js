/** The part of the world on which a map opens. Pure functions. */

export const WORLD = { top: 90, right: 180, bottom: -90, left: -180 };

/** Degrees of longitude that the map opens on: at least, and at most if it is not the world. */
const HOME_MIN = 0.2;
const HOME_MAX = 180;
/** How much more than the bounds of all places is shown. */
const MARGIN = 1.2;

/**
 * The part of the world that shows all places: [top, right, bottom, left], twice as wide as high.
 * Undefined: the whole world, which places in more than half of it need.
 *
 * @param {{top, right, bottom, left}} bounds of the places
 */
export function homeOf({ top, right, bottom, left }) {
  const width = Math.max(HOME_MIN, MARGIN * (right - left), MARGIN * 2 * (top - bottom));
  if (width > HOME_MAX) return undefined;
  const start = (middle, size, low, high) => Math.max(low, Math.min(high - size, middle - size / 2));
  const west = start((left + right) / 2, width, WORLD.left, WORLD.right);
  const south = start((top + bottom) / 2, width / 2, WORLD.bottom, WORLD.top);
  return [south + width / 2, west + width, south, west];
}
