/** Values as people type them: numbers as programs write them, JSON, and words. */
import type { Json } from "@/database.ts";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/** What a program may print for a number, and JSON has no word for. */
const NO_NUMBER = /^[+-]?(nan|inf|infinity)$/i;

function digitsOf(text: string): string {
  // 1_000_000, as Python writes it.
  return text.trim().replace(/(?<=\d)_(?=\d)/g, "");
}

/** The number that a text stands for; null where it is none, or one that would be stored as another: 1e-400 as 0. */
export function typedNumber(text: string): number | null {
  const digits = digitsOf(text);
  if (!NUMBER.test(digits)) return null;
  const value = Number(digits);
  if (!Number.isFinite(value)) return null;
  if (value === 0 && /[1-9]/.test(digits.split(/e/i)[0]!)) return null;
  if (/^[+-]?\d+$/.test(digits) && BigInt(digits.replace("+", "")) !== BigInt(value)) return null;
  return value;
}

/** The whole number that a text stands for, as people group its digits: 100,000 and 100 000, but not 1,5. */
export function typedWhole(text: string): number | null {
  const isGrouped = /^\d{1,3}([, ]\d{3})+$/.test(text.trim());
  const value = typedNumber(isGrouped ? text.replace(/[, ]/g, "") : text);
  return Number.isInteger(value) ? value : null;
}

/** The value that a text stands for; undefined where it looks like one and cannot be read or stored. */
export function typedValue(text: string): Json | undefined {
  const trimmed = text.trim();
  if (NUMBER.test(digitsOf(trimmed))) return typedNumber(trimmed) ?? undefined;
  if (NO_NUMBER.test(trimmed)) return undefined;
  try {
    return JSON.parse(trimmed) as Json;
  } catch {
    return /^[[{"]/.test(trimmed) ? undefined : trimmed;
  }
}

/** The parts of a text between commas, without those inside of quotes and brackets; empty ones are left out. */
export function parts(text: string): string[] {
  const found = [""];
  let depth = 0;
  let isQuoted = false;
  let isEscaped = false;
  for (const letter of text) {
    if (letter === '"' && !isEscaped) isQuoted = !isQuoted;
    isEscaped = isQuoted && letter === "\\" && !isEscaped;
    if (!isQuoted && (letter === "[" || letter === "{")) depth += 1;
    if (!isQuoted && (letter === "]" || letter === "}")) depth -= 1;
    if (letter === "," && !isQuoted && depth <= 0) found.push("");
    else found[found.length - 1] += letter;
  }
  return found.map((part) => part.trim()).filter((part) => part !== "");
}

/** A value as it is typed. */
export function written(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A value as it is typed among others: a text that would be read as something else is in quotes. */
export function writtenPart(value: Json): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return value !== "" && typedValue(value) === value && parts(value).length === 1 && parts(value)[0] === value
    ? value
    : JSON.stringify(value);
}
