/** Pages of rows, the newest first: a page's `next` is passed as `after` to get the one that follows. */
import { v } from "./deps.ts";
import { invalid } from "./errors.ts";
import { optional, queryInteger } from "./fields.ts";
import { isObject } from "./json.ts";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 1000;
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d(:?\d\d)?)$/;

/** The row that a page ends with. */
export interface Place {
  created_at: string;
  id: string;
}

/** The query parameters of a list. */
export const paging = {
  limit: optional(queryInteger(1, MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE, "How many rows at most.")),
  after: optional(v.pipe(v.string(), v.description("`next` of the page before."))),
};

export const next = v.pipe(
  v.nullable(v.string()),
  v.description("Pass it as `after` to get the next page; null on the last one."),
);

export function pageSize(limit: number | null | undefined): number {
  return limit ?? DEFAULT_PAGE_SIZE;
}

/** A place as a text that fits into a URL as it is. */
export function encodePlace(place: Place | null | undefined): string | null {
  if (!place) return null;
  return btoa(JSON.stringify([place.created_at, place.id])).replaceAll("+", "-").replaceAll("/", "_").replace(
    /=+$/,
    "",
  );
}

export function decodePlace(text: string | null | undefined): Place | null {
  if (text == null) return null;
  const place = parsePlace(text);
  if (place === null) {
    throw invalid("after: pass `next` of the page before", [{ path: "after", message: "is no place" }]);
  }
  return place;
}

function parsePlace(text: string): Place | null {
  try {
    const [created_at, id, ...rest] = JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    const place = { created_at, id };
    return rest.length === 0 && isPlace(place) ? place : null;
  } catch {
    return null;
  }
}

/** Checked to the letter: it becomes part of a filter. */
function isPlace(value: unknown): value is Place {
  return isObject(value) && typeof value.created_at === "string" && TIME.test(value.created_at) &&
    v.is(v.pipe(v.string(), v.uuid()), value.id);
}
