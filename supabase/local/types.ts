/**
 * How Postgres values become JSON, as PostgREST's `to_json` writes them.
 *
 * postgres.js turns columns into JavaScript values; its defaults lose digits,
 * change timestamps and encode JSON parameters twice.
 */
import type postgres from "postgres";
import { formatArray, parseArray } from "./arrays.ts";

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
const asText = (
  value: unknown,
) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));
// A string is JSON already: the Data API encodes its parameters itself.
const asJson = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

type Parse = (text: string) => unknown;
type Serialize = (value: unknown) => unknown;

function type(oid: number, parse: Parse, serialize: Serialize): postgres.PostgresType {
  return { to: oid, from: [oid], parse, serialize } as postgres.PostgresType;
}

/** Name, object id, the id of its array type, and how it is read and written. */
const TYPES: [name: string, oid: number, arrayOid: number, parse: Parse, serialize: Serialize][] = [
  ["bool", 16, 1000, (text) => text === "t", String],
  ["bytea", 17, 1001, String, asIs],
  ["bigint", 20, 1016, exactNumber, asText],
  ["int2", 21, 1005, Number, asText],
  ["int4", 23, 1007, Number, asText],
  ["text", 25, 1009, String, asText],
  ["json", 114, 199, parseJson, asJson],
  ["float4", 700, 1021, exactNumber, asText],
  ["float8", 701, 1022, exactNumber, asText],
  ["bpchar", 1042, 1014, String, asText],
  ["varchar", 1043, 1015, String, asText],
  ["date", 1082, 1182, String, asIs],
  ["timestamp", 1114, 1115, isoTimestamp, asIs],
  ["timestamptz", 1184, 1185, isoTimestamp, asIs],
  ["numeric", 1700, 1231, exactNumber, asText],
  ["uuid", 2950, 2951, String, asIs],
  ["jsonb", 3802, 3807, parseJson, asJson],
];

export const postgresTypes: Record<string, postgres.PostgresType> = Object.fromEntries(
  TYPES.flatMap(([name, oid, arrayOid, parse, serialize]) => [
    [name, type(oid, parse, serialize)],
    [
      `${name}_array`,
      type(
        arrayOid,
        (text) => parseArray(text, parse),
        (value) => (Array.isArray(value) ? formatArray(value, serialize) : value),
      ),
    ],
  ]),
);
