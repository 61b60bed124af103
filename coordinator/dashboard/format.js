/** Values as people read them. Pure functions of values. */

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 12 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"];

/** 234908 -> "234,908". */
export function count(number) {
  return typeof number === "bigint" || Number.isFinite(number) ? COUNT.format(number) : "–";
}

/** 234908 -> "235K", for axes and tight places. */
export function compact(number) {
  return COMPACT.format(number);
}

/** "1 item", "234,908 items". */
export function plural(number, noun, nouns = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : nouns}`;
}

export function bytes(size) {
  if (!Number.isFinite(size)) return "–";
  let unit = 0;
  while (size >= 999.5 && unit < BYTE_UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 99.5 ? Math.round(size) : size.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** 0.183 -> "0.18 ms"; 1312 -> "1.31 s". */
export function milliseconds(time) {
  if (!Number.isFinite(time)) return "–";
  if (time >= 1000) return `${(time / 1000).toFixed(2)} s`;
  if (time >= 100) return `${Math.round(time)} ms`;
  return `${time >= 10 ? time.toFixed(1) : time.toFixed(2)} ms`;
}

/** 93784 -> "1 d 2 h". */
export function duration(seconds) {
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [Math.floor(seconds) % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

export function timeOfDay(iso) {
  const moment = new Date(typeof iso === "number" ? iso * 1000 : iso);
  return Number.isNaN(moment.getTime()) ? String(iso) : moment.toLocaleString("en-GB");
}

/** A number of an axis or range: no more digits than it needs. */
export function plainNumber(number) {
  if (Number.isInteger(number) && Math.abs(number) < 10000) return String(number);
  return COUNT.format(number);
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((part / whole) * 100)} %` : "–";
}

/** A field name as a heading: "country_languages" -> "Country languages"; an empty one as in JSON. */
export function fieldTitle(name) {
  const [first, ...rest] = name.replaceAll(/[_.]+/g, " ").trim() || name || '""';
  return first.toUpperCase() + rest.join("");
}

/**
 * Indents JSON text without parsing it, so that large integers and the order of keys stay exactly
 * as they were stored.
 */
export function indentJson(text) {
  const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
  let depth = 0;
  let output = "";
  let isFresh = false; // just behind an opening bracket
  const newLine = () => `\n${"  ".repeat(depth)}`;
  for (const [part] of text.matchAll(token)) {
    if (part === "}" || part === "]") {
      depth -= 1;
      output += isFresh ? part : newLine() + part;
      isFresh = false;
      continue;
    }
    if (isFresh) output += newLine();
    isFresh = part === "{" || part === "[";
    if (isFresh) depth += 1;
    output += part === "," ? `,${newLine()}` : part === ":" ? ": " : part;
  }
  return output;
}
