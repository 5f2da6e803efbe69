/** What tasks takes and answers. */
import { v } from "../_shared/deps.ts";
import { fields, id, json, jsonObject, MAX_NAME_LENGTH, name, optional } from "../_shared/fields.ts";
import { isObject, isRawNumber, type RawNumber } from "../_shared/json.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";
import { next, paging } from "../_shared/paging.ts";
import { KINDS, specIssues } from "./validator_spec.ts";

export const MAX_TASKS = 10_000;

// deno-lint-ignore no-control-regex
const CONTROL = /[\x00-\x1f\x7f]/;

const ROW = v.looseObject({ id: id("The task's id."), description: v.string() });

const share = v.pipe(v.nullable(v.number()), v.description("successful / completed; null where none completed."));

// Uploading ---------------------------------------------------------------------------------------------------------

/** Datasets have numbers as ids. Files are stored under ids: one that reads as a path to elsewhere is refused. */
function reference(description: string) {
  return v.pipe(
    v.custom<string | number | RawNumber>(
      (value) => typeof value === "string" || Number.isInteger(value) || isRawNumber(value),
      "a text or a whole number is expected",
    ),
    v.metadata({ type: ["string", "integer"], description }),
    v.transform((value) => String(isRawNumber(value) ? value.rawJSON : value)),
    v.check((value) => value.trim() !== "" && !CONTROL.test(value), "is empty, or has control characters"),
    v.check((value) => [...value].length <= MAX_NAME_LENGTH, `at most ${MAX_NAME_LENGTH} characters are possible`),
    v.check((value) => !isPathElsewhere(value), "reads as a path to another folder"),
  );
}

function isPathElsewhere(text: string): boolean {
  const parts = text.split(/[/\\]/);
  return parts[0] === "" || parts.at(-1) === "" || parts.includes(".") || parts.includes("..");
}

function instruction(description: string) {
  return v.pipe(
    v.string("a text is expected"),
    v.check((value) => value.trim() !== "", "must not be empty"),
    v.description(description),
  );
}

const SOLUTIONS = ["script", "answer", "actions"];
const solution = v.pipe(
  v.custom<Record<string, unknown>>(
    (value) => isObject(value) && SOLUTIONS.some((part) => part in value),
    `an object with one of ${SOLUTIONS.join(", ")} is expected`,
  ),
  v.metadata({
    type: "object",
    description: "For the agents `oracle` and `scripted`: {script}, {answer} or {actions}.",
  }),
);

const validator = v.pipe(
  fields({
    kind: v.pipe(
      v.picklist(KINDS, `one of ${KINDS.join(", ")} is expected`),
      v.description("How the outcome is checked."),
    ),
    spec: optional(jsonObject("What this kind of validator needs to know.")),
    external_id: optional(reference("Tells it from the task's other validators; its position unless told.")),
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const input = dataset.value;
    const place = { type: "object", origin: "value", input, key: "spec", value: input.spec } as const;
    for (const { message, path = [] } of specIssues(input.kind, input.spec ?? {})) {
      addIssue({ message, path: [place, ...path] });
    }
  }),
);

const validators = v.pipe(
  v.array(validator, "a list is expected"),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const names = new Set<string>();
    for (const [key, value] of dataset.value.entries()) {
      const own = validatorName(value, key);
      if (names.has(own)) {
        const place = { type: "array", origin: "value", input: dataset.value, key, value } as const;
        const field = { type: "object", origin: "value", input: value, key: "external_id", value: own } as const;
        addIssue({ message: `another validator of this task is named ${own}`, path: [place, field] });
      }
      names.add(own);
    }
  }),
  v.description("How the outcome is checked."),
);

/** Without an external_id, a validator is identified by its position; the first is the default one. */
export function validatorName({ external_id }: { external_id?: string | null }, position: number): string {
  return external_id ?? (position === 0 ? "default" : String(position));
}

/** Beside these fields there may be others: they are kept in the task's metadata. */
export const entry = v.looseObject({
  id: optional(reference("The task's own id, by which it is found and updated.")),
  external_id: optional(reference("The same as `id`.")),
  task: optional(instruction("What the agent is asked.")),
  description: optional(instruction("The same as `task`.")),
  answer: optional(json("The expected answer: a text, or JSON that is compared by structure. Agents never see it.")),
  expected_answer: optional(json("The same as `answer`.")),
  name: optional(name("A short name.")),
  environment: optional(name("Where it is done; instead of that of the whole upload.")),
  split: optional(name("Such as `train` or `test`.")),
  validators: optional(validators),
  solution: optional(solution),
  metadata: optional(jsonObject("Whatever else is to be kept; so is every field that is not named here.")),
});

const body = v.pipe(
  v.union([
    v.array(entry),
    fields({ tasks: v.array(entry), environment: optional(name("Where the tasks are done.")) }),
  ]),
  v.description(`A list of tasks, or {tasks, environment}; at most ${MAX_TASKS} at once.`),
);
const lines = v.pipe(v.string(), v.description("JSON Lines: a task in each line."));
const form = fields({
  file: v.pipe(v.string(), v.description("A .json or .jsonl file of tasks."), v.metadata({ format: "binary" })),
  environment: optional(name("Where the tasks are done.")),
});
const EXAMPLES = [{ id: "balls-1", task: "How many red balls are there?", answer: "3" }];

export const upload = {
  method: "POST",
  path: "/upload",
  name: "uploadTasks",
  auth: ["secret", "user"],
  summary: "Import tasks",
  description:
    "Imports tasks from JSON, JSON Lines or a file. A task whose id the environment has is updated. If an entry is " +
    "wrong, nothing is written, and `details` names every wrong one by its index, field and message. With a header " +
    "Idempotency-Key the request can be repeated without making tasks that have no id twice.",
  input: fields({ environment: optional(name("Where the tasks are done, unless an entry says otherwise.")) }),
  bodies: {
    "application/json": { schema: body, example: EXAMPLES },
    "application/x-ndjson": { schema: lines, example: JSON.stringify(EXAMPLES[0]) },
    "multipart/form-data": { schema: form, example: { file: JSON.stringify(EXAMPLES), environment: "alfworld" } },
  },
  output: fields({
    message: v.string(),
    count: v.pipe(v.number(), v.integer(), v.minValue(0), v.description("How many tasks were imported.")),
  }),
  errors: [400, 403, 409, 413],
  example: { input: { environment: "alfworld" }, output: { message: "1 task was imported", count: 1 } },
} satisfies Operation;

// Reading -----------------------------------------------------------------------------------------------------------

export const list = {
  method: "GET",
  name: "listTasks",
  auth: ["secret", "user"],
  summary: "List tasks",
  description: "Tasks, the newest first, each with how its newest 100 rollouts went.",
  input: fields({
    environment: optional(name("Only tasks of this environment.")),
    split: optional(name("Only tasks of this split.")),
    search: optional(name("Only tasks with this text in their id, name or description.")),
    ...paging,
  }),
  output: fields({
    tasks: v.array(v.looseObject({ ...ROW.entries, rollouts: v.number(), success_rate: share })),
    next,
  }),
  errors: [400],
  example: {
    input: { environment: "alfworld", limit: 1 },
    output: {
      tasks: [{
        id: EXAMPLE.taskId,
        external_id: "balls-1",
        environment: "alfworld",
        description: "How many red balls are there?",
        rollouts: 4,
        completed: 2,
        solved: 1,
        success_rate: 0.5,
      }],
      next: null,
    },
  },
} satisfies Operation;

export const get = {
  method: "GET",
  path: "/{id}",
  name: "getTask",
  auth: ["secret", "user"],
  summary: "Get a task",
  description: "A task with its validators, and its results by agent and model, with pass@k.",
  input: fields({
    id: name("The task: the UUID of its row, or the id under which it was imported."),
    environment: optional(name("Which one, where several environments have a task of this id.")),
  }),
  output: fields({
    task: ROW,
    validators: v.array(v.looseObject({ id: id("The validator's id."), kind: v.string() })),
    results: v.array(v.looseObject({ rollouts: v.number(), success_rate: share })),
  }),
  errors: [400, 404, 409],
  example: {
    input: { id: "balls-1", environment: "alfworld" },
    output: {
      task: { id: EXAMPLE.taskId, external_id: "balls-1", description: "How many red balls are there?", version: 1 },
      validators: [],
      results: [{ agent: "chat", model: "gpt-5", rollouts: 4, solved: 2, success_rate: 0.5, pass_at: { 1: 0.5 } }],
    },
  },
} satisfies Operation;

export const operations = [list, get, upload];

export type Entry = v.InferOutput<typeof entry>;
