/** JSON that keeps whole numbers which JavaScript would round: ids of other systems often have 18 digits. */

/** A number written out again as it was read; made by JSON.rawJSON. */
export interface RawNumber {
  readonly rawJSON: string;
}

interface ExactJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON?: (text: string) => RawNumber;
  isRawJSON?: (value: unknown) => boolean;
}

const exact = JSON as unknown as ExactJson;

/** Parse JSON; a whole number that would be written otherwise becomes a RawNumber, which JSON.stringify writes as it was. */
export function parseExactly(text: string): unknown {
  // Only long digit runs can lose anything, and a reviver is slow: look first.
  if (!/\d{16}/.test(text) || !exact.rawJSON) return JSON.parse(text);
  return exact.parse(text, (_key, value, { source }) => {
    // Written again, even a power of two loses its digits: 2^63 becomes 9223372036854776000.
    const isRounded = typeof value === "number" && /^-?\d{16,}$/.test(source ?? "") && Number.isFinite(value) &&
      String(value) !== source;
    return isRounded ? exact.rawJSON!(source!) : value;
  });
}

export function isRawNumber(value: unknown): value is RawNumber {
  return exact.isRawJSON?.(value) ?? false;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isRawNumber(value);
}
