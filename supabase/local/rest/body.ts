/** A request's body: its JSON goes to Postgres as the text it came as; only the names in it are read here. */
import { invalidBody } from "./errors.ts";

export interface JsonBody {
  /** JSON text: an object or an array of objects. */
  text: string;
  isArray: boolean;
  /** The names that every object has. */
  names: string[];
}

type Row = Record<string, unknown>;

export const mediaTypeOf = (request: Request) =>
  (request.headers.get("content-type") ?? "application/json").split(";")[0].trim().toLowerCase();

/** Only what says that it is JSON is parsed: how deep it is nested was looked at before. */
export function checkJsonType(type: string): void {
  if (!JSON_TYPE.test(type)) throw invalidBody(`Content-Type not acceptable: ${type}`);
}

const JSON_TYPE = /^application\/(vnd\.pgrst\.(object|array)\+)?json$/;

/** The body as text; every way into a table or a function reads it here. */
export async function readText(request: Request): Promise<string> {
  const bytes = await request.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalidBody("Empty or invalid json");
  }
}

/** The rows to be written; the `columns` that a request with JSON names are taken instead of the rows' own names. */
export async function readRows(request: Request, columns: string[] | null): Promise<JsonBody> {
  const type = mediaTypeOf(request);
  const text = await readText(request);
  if (type === "text/csv") return rowsOf(JSON.stringify(fromCsv(text)), null);
  if (type === "application/x-www-form-urlencoded") {
    return rowsOf(JSON.stringify(Object.fromEntries(new URLSearchParams(text))), null);
  }
  checkJsonType(type);
  return rowsOf(text, columns);
}

function rowsOf(text: string, columns: string[] | null): JsonBody {
  const value = parse(text);
  const isArray = Array.isArray(value);
  if (!isArray && !isRow(value)) return { text: "[]", isArray: true, names: columns ?? [] };
  if (columns) return { text, isArray, names: columns };
  const rows = isArray ? value : [value];
  if (!rows.every(isRow)) throw invalidBody("All object keys must match");
  const names = Object.keys(rows[0] ?? {});
  const agree = (row: Row) => {
    const own = Object.keys(row);
    return own.length === names.length && own.every((name) => Object.hasOwn(rows[0], name));
  };
  if (!rows.every(agree)) throw invalidBody("All object keys must match");
  return { text, isArray, names };
}

/** The arguments of a function, by name. */
export function argumentsOf(text: string, columns: string[] | null): JsonBody {
  const value = text.trim() === "" ? {} : parse(text);
  const first = Array.isArray(value) ? value[0] : value;
  const names = columns ?? (isRow(first) ? Object.keys(first) : []);
  return { text: text.trim() === "" ? "{}" : text, isArray: Array.isArray(value), names };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidBody("Empty or invalid json");
  }
}

function isRow(value: unknown): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Rows of CSV with a header; an unquoted NULL is null. */
export function fromCsv(text: string): Record<string, string | null>[] {
  const lines = csvLines(text);
  const header = lines.shift() ?? [];
  return lines.map((cells) => {
    if (cells.length !== header.length) throw invalidBody("All lines must have same number of fields");
    return Object.fromEntries(header.map((name, i) => [name, cells[i] === "NULL" ? null : cells[i]]));
  });
}

function csvLines(text: string): string[][] {
  const lines: string[][] = [];
  let cells: string[] = [];
  let at = 0;
  while (at < text.length) {
    const [cell, end] = text[at] === '"' ? quotedCell(text, at + 1) : plainCell(text, at);
    const separator = /,|\r?\n|$/y;
    separator.lastIndex = end;
    const found = separator.exec(text);
    if (!found) throw invalidBody("the CSV has a quote where none may be");
    at = separator.lastIndex;
    cells.push(cell);
    if (found[0] === ",") {
      if (at === text.length) cells.push("");
      else continue;
    }
    lines.push(cells);
    cells = [];
  }
  return lines;
}

function plainCell(text: string, start: number): [cell: string, end: number] {
  const plain = /[^",\r\n]*/y;
  plain.lastIndex = start;
  const [cell] = plain.exec(text)!;
  return [cell, start + cell.length];
}

/** A cell up to its closing quote; by hand, because a pattern needs stack for each character of a long one. */
function quotedCell(text: string, start: number): [cell: string, end: number] {
  let end = text.indexOf('"', start);
  while (end >= 0 && text[end + 1] === '"') end = text.indexOf('"', end + 2);
  if (end < 0) throw invalidBody("the CSV has a quote where none may be");
  return [text.slice(start, end).replaceAll('""', '"'), end + 1];
}
