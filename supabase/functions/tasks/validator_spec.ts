/** The specs of validators, as openmanus_rl/verification/specs.py has them: what Python refuses is refused here too. */
import { v } from "../_shared/deps.ts";
import { fields, jsonObject, MAX_NAME_LENGTH } from "../_shared/fields.ts";
import { isObject, isRawNumber, type RawNumber } from "../_shared/json.ts";
import { BadPattern, checkPattern } from "./python_pattern.ts";

const MAX_SECONDS = 86_400;
const MAX_ROWS = 10_000;
const WORD = String.raw`\p{Alphabetic}\p{M}\p{Pc}\p{Join_Control}`;
const DOTTED = String
  .raw`[${WORD}][${WORD}\p{Nd}]*(\.[${WORD}][${WORD}\p{Nd}]*)*`;
const FUNCTION = new RegExp(`^${DOTTED}:${DOTTED}$`, "u");

const flag = v.optional(v.boolean("true or false is expected"));
const anything = v.optional(v.unknown());

function text(most: number, { least = 1 } = {}) {
  return v.pipe(
    v.string("a text is expected"),
    v.check(
      (value) => value.length >= least && [...value].length <= most,
      `a text of ${least} to ${most} characters is expected`,
    ),
  );
}

const name = text(MAX_NAME_LENGTH);

function isNumber(value: unknown): value is number | RawNumber {
  return typeof value === "number" || isRawNumber(value);
}

function number(message: string, isFitting: (value: number) => boolean = () => true) {
  return v.custom<number | RawNumber>(
    (value) =>
      isNumber(value) &&
      isFitting(Number(isRawNumber(value) ? value.rawJSON : value)),
    message,
  );
}

const finite = number("a finite number is expected", Number.isFinite);
const seconds = v.optional(
  number(`a number above 0 and up to ${MAX_SECONDS} is expected`, (value) => value > 0 && value <= MAX_SECONDS),
);
const absolute = number("a number from 0 on is expected", (value) => value >= 0 && Number.isFinite(value));
const relative = number("a number from 0 to below 1 is expected", (value) => value >= 0 && value < 1);

/** A number is the absolute tolerance. */
const tolerance = v.optional(v.pipe(
  v.unknown(),
  v.transform((value) => isNumber(value) ? { absolute: value } : value),
  fields({ absolute: v.optional(absolute), relative: v.optional(relative) }),
));

const pattern = v.pipe(
  text(10_000),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    try {
      checkPattern(dataset.value);
    } catch (error) {
      if (!(error instanceof BadPattern)) throw error;
      addIssue({ message: `it is not a regular expression: ${error.message}` });
    }
  }),
);

const rows = v.pipe(
  v.array(
    v.custom(
      (row) => Array.isArray(row) || isObject(row),
      "a list or an object is expected",
    ),
    "a list is expected",
  ),
  v.maxLength(MAX_ROWS, `at most ${MAX_ROWS} rows are possible`),
  v.check((all) => new Set(all.map(Array.isArray)).size <= 1, "rows must be all lists or all objects"),
);

const folder = v.optional(v.pipe(
  v.string("a text is expected"),
  v.regex(/^\/\S*[^\/\s]$/u, "an absolute path without white space is expected"),
));

const structure = { tolerance, unordered: flag, ignore_case: flag, ignore_whitespace: flag, extra_keys: flag };

const SPECS: Record<string, v.GenericSchema> = {
  json: fields({ expected: anything, ...structure }),
  exact: fields({
    expected: v.optional(v.nullable(v.string("a text is expected"))),
    trim: flag,
    ignore_case: flag,
    ignore_whitespace: flag,
  }),
  regex: fields({ pattern, full: flag, ignore_case: flag, multiline: flag, dot_all: flag, timeout_seconds: seconds }),
  numeric: v.pipe(
    fields({
      expected: v.optional(v.nullable(finite)),
      tolerance,
      units: v.optional(v.array(name, "a list is expected")),
      thousands_separator: v.optional(
        v.nullable(
          v.picklist([",", ".", " ", "'", "_"], "one of , . _ ' and a blank is expected"),
        ),
      ),
      decimal_separator: v.optional(v.picklist([".", ","], "a point or a comma is expected"), "."),
    }),
    v.check(
      (spec) => spec.thousands_separator !== spec.decimal_separator,
      "thousands_separator and decimal_separator are the same",
    ),
  ),
  sql: fields({
    query: text(100_000),
    expected: rows,
    service: v.optional(v.nullable(name)),
    timeout_seconds: seconds,
    ...structure,
  }),
  script: fields({
    service: v.optional(v.nullable(name)),
    timeout_seconds: seconds,
    environment: v.optional(
      v.pipe(
        jsonObject("Variables."),
        v.record(v.string(), v.string("a text is expected")),
      ),
    ),
    pass_at: v.optional(finite),
    reward: v.optional(v.nullable(name)),
    tests_folder: folder,
    logs_folder: folder,
  }),
  python: fields({
    function: v.pipe(
      text(500),
      v.regex(FUNCTION, "module:function is expected"),
    ),
    options: v.optional(jsonObject("The function's own.")),
    pass_at: v.optional(finite),
    uses_sandbox: flag,
    timeout_seconds: seconds,
  }),
};

export const KINDS = Object.keys(SPECS);

/** What is wrong with a spec of a known kind. */
export function specIssues(kind: string, spec: unknown): readonly v.BaseIssue<unknown>[] {
  return v.safeParse(SPECS[kind], spec).issues ?? [];
}
