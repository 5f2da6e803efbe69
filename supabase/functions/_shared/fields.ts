/** The fields that inputs are made of, each with the limits of the column it ends in. */
import { v } from "./deps.ts";
import { isObject, isRawNumber, type RawNumber } from "./json.ts";

export const MAX_INTEGER = 2 ** 31 - 1;
/** Names are indexed; an index entry holds at most about 2,700 bytes. */
export const MAX_NAME_LENGTH = 500;

/** An object of exactly these fields; any other is named, beside what there is. */
export function fields<Entries extends v.ObjectEntries>(entries: Entries) {
  const unknown = `no such field; there are ${Object.keys(entries).join(", ")}`;
  return v.strictObject(entries, ({ expected }) => expected === "never" ? unknown : "an object is expected");
}

/** A field that may be left out, or null. */
export function optional<Wrapped extends v.GenericSchema>(schema: Wrapped) {
  return v.nullish(schema);
}

export function id(description: string) {
  return v.pipe(
    v.string("a UUID is expected"),
    v.uuid("a UUID is expected"),
    v.toLowerCase(),
    v.description(description),
  );
}

export function text(description: string) {
  return v.pipe(v.string("a text is expected"), v.description(description));
}

/** A text that is not empty and is counted in characters, as Postgres and JSON Schema do. */
export function name(description: string) {
  const short = v.check<string, string>(
    (value) => [...value].length <= MAX_NAME_LENGTH,
    `at most ${MAX_NAME_LENGTH} characters are possible`,
  );
  return v.pipe(
    v.string("a text is expected"),
    v.minLength(1, "must not be empty"),
    short,
    v.metadata({ maxLength: MAX_NAME_LENGTH }),
    v.description(description),
  );
}

// What documents a number stands before the transformation: what comes after it is no longer what the client sends.

/** A number, where need be rounded to the nearest double. */
export function number(description: string, { min }: { min?: number } = {}) {
  const message = min === undefined ? "a number is expected" : `a number from ${min} on is expected`;
  return v.pipe(
    numeric(message),
    v.metadata({ type: "number", description, ...(min !== undefined && { minimum: min }) }),
    v.transform(rounded),
    v.check((value) => min === undefined || value >= min, message),
  );
}

export function integer(min: number, max: number, description: string) {
  const message = `a whole number from ${min} to ${max} is expected`;
  return v.pipe(
    numeric(message),
    v.metadata({ type: "integer", minimum: min, maximum: max, description }),
    v.transform(rounded),
    v.check((value) => Number.isInteger(value) && value >= min && value <= max, message),
  );
}

function numeric(message: string) {
  return v.custom<number | RawNumber>((value) => typeof value === "number" || isRawNumber(value), message);
}

function rounded(value: number | RawNumber): number {
  return typeof value === "number" ? value : Number(value.rawJSON);
}

/** A whole number among query parameters, which are all texts. */
export function queryInteger(min: number, max: number, usual: number, description: string) {
  return v.pipe(
    v.string(),
    v.description(description),
    v.metadata({ type: "integer", minimum: min, maximum: max, default: usual }),
    v.check(
      (value) => /^\d{1,9}$/.test(value) && Number(value) >= min && Number(value) <= max,
      `a whole number from ${min} to ${max} is expected`,
    ),
    v.transform(Number),
  );
}

export function count(description: string, max: number = MAX_INTEGER) {
  return integer(0, max, description);
}

const NOT_FINITE = ["NaN", "Infinity", "-Infinity"] as const;

/** A floating-point number; JSON has no word for those that are not finite, so they are strings. */
export function real(description: string) {
  return v.pipe(
    v.union([number("Finite."), v.picklist(NOT_FINITE)], 'a number, "NaN", "Infinity" or "-Infinity" is expected'),
    v.description(description),
  );
}

export function json(description: string) {
  return v.pipe(v.unknown(), v.description(description));
}

/** Any object, every key kept: valibot's own record leaves out `constructor` and the like. */
export function jsonObject(description: string) {
  return v.pipe(
    v.custom<Record<string, unknown>>(isObject, "an object is expected"),
    v.metadata({ type: "object" }),
    v.description(description),
  );
}
