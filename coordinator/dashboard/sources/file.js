/**
 * A file that the user chose, as a source of items: its format by name or first bytes, its columns
 * with their kinds, and what is sent to the service.
 *
 *     readSource(file) ─▶ {format, columns, numRows, table?, json?} ─▶ makeBody() ─▶ {body, lines, …}
 *
 * CSV and TSV become items here (`table`); JSON is sent as it is, but for places (`json`).
 */

import { Table } from "./delimited.js";
import { JsonText } from "./json.js";
import { SourceError } from "./rows.js";

const PEEK_BYTES = 64 * 1024;
/** By these the encoding is found. */
const HEAD_BYTES = 512;
const SAMPLE_BYTES = 512 * 1024;
const BY_SUFFIX = {
  csv: "CSV",
  tsv: "TSV",
  tab: "TSV",
  json: "JSON",
  ndjson: "JSON",
  jsonl: "JSON",
  ldjson: "JSON",
};
/** Suffixes of which a table of one column may be; after others it is more likely another format. */
const ANY_TEXT = ["", "txt"];
const FOR_COMMAND_LINE = /\.(parquet|pq|sqlite3?|db|zst)$/i;
const SHEET = /\.(xls[bmx]?|ods|numbers)$/i;
const WORKBOOK =
  "This is a workbook or a ZIP file, not text. Save the sheet as CSV (UTF-8), or unpack the file.";
const GZIP = /^\x1f\x8b/;
/** How files begin that are no tables of text, and what is said of each. */
const NO_TABLES = [
  [/^(PK\x03\x04|\xd0\xcf\x11\xe0)/, WORKBOOK], // those of today (ZIP files) and those of old
  [/^(BZh|\xfd7zXZ\0|7z\xbc\xaf|Rar!|.{257}ustar)/s, "This is an archive. Unpack the file."],
  [/^%PDF-/, "This is a PDF, not a table. Take the data from where its table was made."],
  [
    /^(\xef\xbb\xbf)?\s*<(!doctype html|html)/i,
    "This is a web page, not a table. Choose the file that the page offers.",
  ],
  [
    /^(\xef\xbb\xbf)?\s*<(\?xml|!--)/i,
    "This is XML, which is not read. Convert it to JSON or CSV.",
  ],
];

/** What a file picker offers. */
export const ACCEPTED = ".csv,.tsv,.tab,.json,.ndjson,.jsonl,.ldjson,.txt,.gz";

/** "Film list.ndjson.gz" -> "film-list"; as `facetd load` names an index. */
export function indexNameOf(fileName) {
  return fileName
    .split(".")[0]
    .replaceAll(/[^\p{L}\p{N}_.-]+/gu, "-")
    .replaceAll(/^[-._]+|[-._]+$/g, "")
    .toLowerCase()
    .slice(0, 64);
}

/**
 * Looks at a file.
 *
 * @param {File} file
 * @param {{encoding?: string, itemsPath?: string, hasHeader?: boolean, hasQuotes?: boolean}} options
 *   a text encoding other than that of the byte order mark or UTF-8; for JSON, as `JsonText` takes
 *   it; for tables, as `Table` takes them
 * @param {(share: number) => void} onRead called while the file is read, now and by `makeBody`, with
 *   the share of it that was
 * @throws {SourceError} nothing can be made of it; `isEncoding`, `isHeader` or `isQuote` if another
 *   encoding, `hasHeader: false` or `hasQuotes: false` may help
 */
export async function readSource(
  file,
  { encoding = null, itemsPath = null, ...reading } = {},
  onRead = () => {},
) {
  const [, plainName, compression] = /^(.*?)(?:\.(gz|br|zst))?$/i.exec(file.name);
  const isGzip = compression ? compression.toLowerCase() === "gz" : await isGzipped(file);
  if (FOR_COMMAND_LINE.test(file.name))
    throw new SourceError(
      `This page reads CSV, TSV and JSON. On a command line, \`facetd load ${file.name}\` reads this file.`,
    );
  const suffix = plainName.includes(".") ? plainName.split(".").at(-1).toLowerCase() : "";
  let format = BY_SUFFIX[suffix];
  if (compression && !isGzip) {
    if (format !== "JSON")
      throw new SourceError("Of compressed files this page reads .gz, and JSON as .br.");
    return {
      ...{ file, format, columns: [], numRows: null, table: null, json: null },
      compression: "br",
    };
  }
  const start = await beginningOf(file, isGzip, PEEK_BYTES);
  refuseOtherFormats(plainName, start);
  const wanted = encoding ?? markedEncoding(start);
  const text = decodeStart(start, wanted);
  format ??= formatOf(text, suffix);
  if (format === "JSON") {
    const sample = decodeStart(await beginningOf(file, isGzip, SAMPLE_BYTES), wanted);
    if (!start.length) throw new SourceError("It is empty: there is nothing to load.");
    if (sample.trim() && !sample.includes("{"))
      throw new SourceError(
        "There is no JSON object in it: one object a line, or an array of objects, can be loaded.",
      );
    const json = new JsonText(() => textsOf(file, isGzip, wanted, onRead), sample, itemsPath);
    return {
      ...{ file, format, columns: json.columns, numRows: null, table: null, json },
      compression: isGzip ? "gzip" : null,
    };
  }
  const isWhole = start.length < PEEK_BYTES;
  const texts = (lineOf) => textsOf(file, isGzip, wanted, onRead, lineOf);
  const table = new Table(texts, text, { isTabbed: format === "TSV", isWhole, ...reading });
  await table.inspect();
  const { columns, numRows } = table;
  return { file, format, columns, numRows, table, json: null, compression: null };
}

/** @throws {SourceError} a file is no table of text, by its name or by how it begins. */
function refuseOtherFormats(name, start) {
  if (SHEET.test(name)) throw new SourceError(WORKBOOK);
  const head = textOfBytes(start.subarray(0, HEAD_BYTES));
  for (const [mark, message] of NO_TABLES) if (mark.test(head)) throw new SourceError(message);
}

/**
 * What to send: {body, compression, lines, numBad, bad}. `lines` gives the place in the file of
 * each line sent, where they differ; the rows of `bad` are left out.
 */
export async function makeBody(source) {
  if (!source.table) {
    const { file: body, compression } = source;
    const asItIs = { body, compression, lines: null, numBad: 0, bad: [] };
    if (!source.json?.isConverted) return asItIs;
    return { ...asItIs, body: await source.json.convert(), compression: null };
  }
  const { blob, lines, numBad, bad } = await source.table.convert();
  return { body: blob, compression: null, lines, numBad, bad };
}

function formatOf(text, suffix) {
  const first = text.trimStart()[0];
  if (first === undefined || first === "{" || first === "[") return "JSON";
  const header = text.split("\n", 1)[0];
  if (header.includes("\t")) return "TSV";
  if (!ANY_TEXT.includes(suffix) && !/[,;|]/.test(header))
    throw new SourceError(`This page reads CSV, TSV and JSON; .${suffix} is none of them.`);
  return "CSV";
}

// --- bytes and text ------------------------------------------------------------------------------

/** A character for each byte. */
const textOfBytes = (bytes) => String.fromCharCode(...bytes);

async function isGzipped(file) {
  return GZIP.test(textOfBytes(new Uint8Array(await file.slice(0, 2).arrayBuffer())));
}

function streamOf(file, isGzip, onRead = () => {}) {
  let read = 0;
  const counter = new TransformStream({
    transform(part, controller) {
      read += part.length;
      onRead(read / file.size);
      controller.enqueue(part);
    },
  });
  const counted = file.stream().pipeThrough(counter);
  return isGzip ? counted.pipeThrough(new DecompressionStream("gzip")) : counted;
}

async function beginningOf(file, isGzip, length) {
  if (!isGzip) return new Uint8Array(await file.slice(0, length).arrayBuffer());
  if (!(await isGzipped(file)))
    throw new SourceError(
      "It is not compressed, although its name says so. Plain text is read under a name without .gz.",
    );
  const start = new Uint8Array(length);
  let filled = 0;
  const reader = streamOf(file, isGzip).getReader();
  try {
    while (filled < length) {
      const { done, value } = await reader.read();
      if (done) break;
      start.set(value.subarray(0, length - filled), filled);
      filled += Math.min(value.length, length - filled);
    }
  } catch {
    throw new SourceError("It is cut off or damaged.");
  }
  reader.cancel().catch(() => {});
  return start.subarray(0, filled);
}

function markedEncoding(start) {
  if (start[0] === 0xff && start[1] === 0xfe) return "utf-16le";
  if (start[0] === 0xfe && start[1] === 0xff) return "utf-16be";
  const head = start.subarray(0, HEAD_BYTES);
  const haveZeros = (first) => {
    const zeros = head.filter((_, place) => place % 2 === first);
    return head.length > 1 && zeros.filter((byte) => byte === 0).length > 0.9 * zeros.length;
  };
  if (haveZeros(1)) return "utf-16le";
  if (haveZeros(0)) return "utf-16be";
  return "utf-8";
}

/** The text of a first part of the file, which may end within a character. */
function decodeStart(bytes, encoding) {
  return new TextDecoder(encoding).decode(bytes, { stream: true });
}

async function* textsOf(file, isGzip, encoding, onRead, lineOf = null) {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const reader = streamOf(file, isGzip, onRead).getReader();
  const near = () => (lineOf ? `near line ${lineOf()}` : "somewhere");
  const damaged = () => new SourceError(`It is cut off or damaged ${near()}.`);
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw damaged();
      });
      const text = decodeNext(decoder, done ? null : value);
      if (text === null) {
        if (encoding !== "utf-8") throw damaged();
        throw new SourceError(`It is not UTF-8 ${near()}.`, { isEncoding: true });
      }
      if (text) yield text;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The text of the next bytes, or of the end (null); null if they are not in the encoding. */
function decodeNext(decoder, bytes) {
  try {
    return bytes === null ? decoder.decode() : decoder.decode(bytes, { stream: true });
  } catch {
    return null;
  }
}
