/** What is wrong with a spec, by field, and the small checks that find it. */
export interface Problem {
  /** Where, with dots: objects.0.positions.1. */
  field: string;
  message: string;
}

export type Fields = Record<string, unknown>;

export function asObject(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Fields : null;
}

export function asList(value: unknown): unknown[] | null {
  return Array.isArray(value) ? value : null;
}

export function isWhole(value: unknown, low: number, high: number): boolean {
  return Number.isInteger(value) && (value as number) >= low && (value as number) <= high;
}

export function isCell(value: unknown): value is readonly [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((each) => isWhole(each, 0, 1e6));
}

export type Check = (value: unknown) => string | null;

export const whole = (low: number, high: number): Check => (value) =>
  isWhole(value, low, high) ? null : `must be a whole number from ${low} to ${high.toLocaleString("en-US")}`;
export const amount: Check = (value) =>
  typeof value === "number" && Math.abs(value) <= 1e6 ? null : "must be a number from -1e6 to 1e6";
export const flag: Check = (value) => typeof value === "boolean" ? null : "must be true or false";
export const oneOf = (...choices: unknown[]): Check => (value) =>
  choices.includes(value) ? null : `must be one of ${choices.join(", ")}`;
export const matching = (pattern: RegExp, message: string): Check => (value) =>
  typeof value === "string" && pattern.test(value) ? null : message;
export const optional = (check: Check): Check => (value) => value === null ? null : check(value);
export const anyObject: Check = (value) => asObject(value) ? null : "must be a JSON object";

interface Shape {
  required?: string[];
  fields: Record<string, Check>;
  /** Fields that are checked elsewhere. */
  known?: string[];
}

/** What is wrong with the fields of an object; fields that it may not have are named with those it may. */
export function checkFields(value: unknown, place: string, { required = [], fields, known = [] }: Shape): Problem[] {
  const given = asObject(value);
  if (!given) return [{ field: place || "spec", message: "must be a JSON object" }];
  const at = (field: string) => place ? `${place}.${field}` : field;
  const all = [...Object.keys(fields), ...known];
  const problems = required.filter((field) => given[field] === undefined)
    .map((field) => ({ field: at(field), message: "is missing" }));
  for (const [field, each] of Object.entries(given)) {
    if (!all.includes(field)) {
      problems.push({ field: at(field), message: `is unknown; there are ${all.join(", ")}` });
    } else if (Object.hasOwn(fields, field)) {
      const message = fields[field]!(each);
      if (message) problems.push({ field: at(field), message });
    }
  }
  return problems;
}
