/**
 * How Postgres values become JSON, as PostgREST's `to_json` writes them.
 *
 * postgres.js turns columns into JavaScript values; its defaults lose digits,
 * change timestamps and encode JSON parameters twice.
 */
import type postgres from "postgres";

/** The value inserted verbatim by JSON.stringify, for numbers that JavaScript would round. */
const rawJSON = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;

const PLAIN_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** A number whose every digit survives; NaN and the infinities become strings, as in Postgres. */
export function exactNumber(text: string): unknown {
  const value = Number(text);
  if (String(value) === text && Number.isFinite(value)) return value;
  return PLAIN_NUMBER.test(text) ? rawJSON(text) : text;
}

/** JSON text as a value; integers beyond 2^53 and long decimals keep their digits. */
export function parseJson(text: string): unknown {
  // Only long digit runs can lose precision, and a reviver is slow: look first.
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const reviver = (_key: string, value: unknown, context: { source?: string }) =>
    typeof value === "number" && context.source !== undefined ? exactNumber(context.source) : value;
  return JSON.parse(text, reviver as (key: string, value: unknown) => unknown);
}

/** `2026-11-16 00:51:00.123456+00` as `2026-11-16T00:51:00.123456+00:00`. */
export function isoTimestamp(text: string): string {
  return text.replace(" ", "T").replace(/([+-]\d{2})$/, "$1:00");
}

const asIs = (value: unknown) => value;
const asText = (value: unknown) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));

function type(oid: number, parse: (text: string) => unknown, serialize: (value: unknown) => unknown = asIs) {
  return { to: oid, from: [oid], parse, serialize } as postgres.PostgresType;
}

export const postgresTypes: Record<string, postgres.PostgresType> = {
  bigint: type(20, exactNumber, asText),
  numeric: type(1700, exactNumber, asText),
  float4: type(700, exactNumber, asText),
  float8: type(701, exactNumber, asText),
  // A string is JSON already: the Data API encodes its parameters itself.
  json: type(114, parseJson, (value) => (typeof value === "string" ? value : JSON.stringify(value))),
  jsonb: type(3802, parseJson, (value) => (typeof value === "string" ? value : JSON.stringify(value))),
  bytea: type(17, (text) => text),
  timestamp: type(1114, isoTimestamp),
  timestamptz: type(1184, isoTimestamp),
};
