/** What metrics takes and answers. */
import { v } from "../_shared/deps.ts";
import { count, fields, id, MAX_NAME_LENGTH, optional, real } from "../_shared/fields.ts";
import { isObject } from "../_shared/json.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";
import { isTimestamp } from "./timestamp.ts";

export const MAX_METRICS = 10_000;

/** Names that JavaScript objects have by birth; they cannot be told from absent ones. */
const RESERVED = ["__proto__", "constructor", "prototype"];

const NO_TIMESTAMP = "a date and time with its offset is expected, such as 2026-01-31T12:00:00Z";
const timestamp = v.pipe(
  v.string(NO_TIMESTAMP),
  v.check(isTimestamp, NO_TIMESTAMP),
  v.metadata({ format: "date-time" }),
  v.description("When it was measured; now by default."),
);

/** The fields with a meaning of their own; every other is a metric. */
const known = {
  runId: id("The training run."),
  step: count("The training step that the values belong to.", Number.MAX_SAFE_INTEGER),
  id: optional(id("The request's id, made by the client: it can then be repeated without harm.")),
  timestamp: optional(timestamp),
};

/** The input as the OpenAPI document shows it. */
export const documented = v.pipe(
  v.objectWithRest(known, optional(real("A metric's value; null counts as not measured."))),
  v.metadata({ propertyNames: { minLength: 1, maxLength: MAX_NAME_LENGTH, not: { enum: RESERVED } } }),
  v.description("At least one metric is needed."),
);

export const input = v.pipe(
  v.custom<Record<string, unknown>>(isObject, "an object is expected"),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    for (const [key, value] of Object.entries(dataset.value)) {
      const message = nameFault(key);
      if (message) addIssue({ message, path: [{ type: "object", origin: "key", input: dataset.value, key, value }] });
    }
  }),
  v.objectWithRest(known, optional(real(""))),
  v.transform(({ runId, step, id, timestamp, ...rest }) => ({ runId, step, id, timestamp, metrics: measured(rest) })),
  v.check(({ metrics }) => metrics.length > 0, 'a metric is needed beside runId and step, such as "loss": 0.5'),
  v.check(({ metrics }) => metrics.length <= MAX_METRICS, `at most ${MAX_METRICS} metrics are possible in a request`),
);

export const output = fields({ success: v.literal(true) });

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "Add a point to metrics of a run",
  description: "Every field beside `runId`, `step`, `id` and `timestamp` is a metric. Repeated with the same `id` it " +
    "changes nothing.",
  input: documented,
  output,
  errors: [400, 403, 404, 413],
  example: {
    input: { runId: EXAMPLE.runId, step: 10, reward: 12.0, loss: 0.31, entropy: 1.4, grad_norm: "NaN" },
    output: { success: true },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
export type Value = number | "NaN" | "Infinity" | "-Infinity";

function nameFault(name: string): string | null {
  if (RESERVED.includes(name)) return "this name is taken; choose another";
  if (name === "") return "a metric needs a name";
  return [...name].length > MAX_NAME_LENGTH ? `a name has at most ${MAX_NAME_LENGTH} characters` : null;
}

function measured(rest: Record<string, Value | null | undefined>): [name: string, value: Value][] {
  return Object.entries(rest).filter((entry): entry is [string, Value] => entry[1] != null);
}
