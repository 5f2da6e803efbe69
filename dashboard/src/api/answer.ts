/** Answers that are too large for a row: the worker stores them as files, and has their beginning in the row. */

export interface Shortened {
  shortened: string;
  size_bytes: number;
  /** In the bucket media. */
  path: string;
}

export function isShortened(value: unknown): value is Shortened {
  if (typeof value !== "object" || value === null) return false;
  const { shortened, size_bytes, path } = value as Record<string, unknown>;
  return typeof shortened === "string" && typeof size_bytes === "number" && typeof path === "string";
}

/** As the database writes such an object, whose keys it sorts by their lengths; of its text, what is whole. */
const WRITTEN = /^\{"path": "(?:[^"\\]|\\.)*", "shortened": ("(?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])*)/i;

/** The beginning of an answer, of which only the first characters are here: that of a file is within an object. */
export function beginningOf(text: string): string {
  const [, written] = WRITTEN.exec(text) ?? [];
  return written === undefined ? text : `${JSON.parse(`${written}"`)}…`;
}
