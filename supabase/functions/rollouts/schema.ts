/** What rollouts takes and answers. */
import { EVALUATION_KINDS, ROLLOUT_STATUSES, type RolloutStatus } from "../_shared/constants.ts";
import { v } from "../_shared/deps.ts";
import {
  count,
  fields,
  id,
  integer,
  jsonObject,
  name,
  number,
  optional,
  queryInteger,
  text,
} from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";
import { next, paging } from "../_shared/paging.ts";

const ROLLOUT = v.pipe(
  v.looseObject({ id: id("The rollout's id."), status: v.picklist(ROLLOUT_STATUSES) }),
  v.description("The rollout's row."),
);
const EXAMPLE_ROW = {
  id: EXAMPLE.rolloutId,
  task_id: EXAMPLE.taskId,
  environment: "alfworld",
  agent: "chat",
  model: "gpt-5",
};
const own = fields({ id: id("The rollout.") });

// Asking ------------------------------------------------------------------------------------------------------------

const MAX_TASKS = 10_000;
const task = (description: string) =>
  name(`${description}: the UUID of its row, or the id under which it was imported.`);
const limit = (description: string) =>
  v.pipe(number(description), v.check((value) => value > 0, "a number above 0 is expected"));
const whole = (description: string) => integer(1, 1e12, description);

const limits = fields({
  max_steps: optional(whole("Turns.")),
  max_seconds: optional(limit("Seconds.")),
  max_tokens: optional(whole("Tokens of input and output together.")),
  max_cost_usd: optional(limit("US dollars.")),
});

const evaluation = fields({
  name: optional(name("Its name.")),
  kind: optional(v.pipe(v.picklist(EVALUATION_KINDS), v.description("`eval` unless told."))),
  step: optional(count("The training step that is evaluated; the checkpoint's unless told.", Number.MAX_SAFE_INTEGER)),
  split: optional(name("Without task_ids: only the environment's tasks of this split.")),
});

export const request = {
  method: "POST",
  name: "requestRollouts",
  auth: ["secret", "user"],
  summary: "Ask for rollouts",
  description: "Puts rollouts of tasks into the queue, from which workers (`openmanus-rl worker`) take them. With " +
    "`checkpoint_id` or `evaluation` it asks for an evaluation, whose rollouts they are; without `task_id` or " +
    "`task_ids`, over all tasks of the environment. Repeated with the same `id`, or the same header " +
    "Idempotency-Key, it changes nothing and answers the same.",
  input: fields({
    id: optional(id("The request's id, made by the client; of an evaluation, its id.")),
    task_id: optional(task("The task")),
    task_ids: optional(v.pipe(
      v.array(task("A task"), "a list is expected"),
      v.minLength(1, "must not be empty"),
      v.maxLength(MAX_TASKS, `at most ${MAX_TASKS} at once are possible`),
      v.description("The tasks."),
    )),
    attempts: optional(integer(1, 1000, "Rollouts of each task; 1 unless told.")),
    agent: optional(
      name("`noop`, `oracle`, `scripted`, `chat`, `browser` or `module:attribute`; the task's, or `chat`."),
    ),
    model: optional(name("The model that acts.")),
    environment: optional(name("Where; the task's own unless told.")),
    priority: optional(integer(-1000, 1000, "The higher goes first; 0 unless told.")),
    seed: optional(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, "Of the first attempt; others count up.")),
    limits: optional(limits),
    agent_options: optional(jsonObject("Options of the agent.")),
    metadata: optional(jsonObject("Whatever else is to be kept.")),
    max_attempts: optional(integer(1, 100, "How often it is begun when workers are lost; 3 unless told.")),
    reuse: optional(v.pipe(
      v.boolean("true or false is expected"),
      v.description("Whether an equal rollout (task version, agent, model, seed, environment) that has ended will do."),
    )),
    training_run_id: optional(id("The run that they belong to.")),
    checkpoint_id: optional(id("The checkpoint that is evaluated.")),
    evaluation: optional(v.pipe(evaluation, v.description("Makes it an evaluation; may be {}."))),
  }),
  output: fields({
    message: v.string(),
    rollouts: v.array(ROLLOUT),
    reused: v.pipe(v.array(id("A rollout.")), v.description("Which of them had ended before.")),
    evaluation: v.nullable(v.looseObject({ id: id("The evaluation's id."), status: v.string() })),
  }),
  errors: [400, 403, 404, 409, 413],
  example: {
    input: { task_id: EXAMPLE.taskId, attempts: 1, agent: "chat", model: "gpt-5", limits: { max_steps: 30 } },
    output: {
      message: "1 rollout is in the queue",
      rollouts: [{ ...EXAMPLE_ROW, status: "pending" }],
      reused: [],
      evaluation: null,
    },
  },
} satisfies Operation;

// Reading -----------------------------------------------------------------------------------------------------------

const statuses = v.pipe(
  v.string(),
  v.description(`Only these statuses, with commas between them: ${ROLLOUT_STATUSES.join(", ")}.`),
  v.transform((value) => value.split(",").map((status) => status.trim())),
  v.check(
    (given): given is RolloutStatus[] =>
      given.every((status) => (ROLLOUT_STATUSES as readonly string[]).includes(status)),
    `of ${ROLLOUT_STATUSES.join(", ")}, one or several with commas between them are expected`,
  ),
);

export const list = {
  method: "GET",
  name: "listRollouts",
  auth: ["secret", "user"],
  summary: "List rollouts",
  description:
    "Rollouts, the newest first. Those that a rewind hid are left out, and so are lost attempts unless `attempt_of` " +
    "asks for them.",
  input: fields({
    task_id: optional(id("Only rollouts of this task.")),
    status: optional(statuses),
    environment: optional(name("Only rollouts in this environment.")),
    agent: optional(name("Only rollouts of this agent.")),
    model: optional(name("Only rollouts of this model.")),
    training_run_id: optional(id("Only rollouts of this run.")),
    attempt_of: optional(id("Only the lost attempts of this rollout.")),
    ...paging,
  }),
  output: fields({ rollouts: v.array(ROLLOUT), next }),
  errors: [400],
  example: {
    input: { task_id: EXAMPLE.taskId, status: "success,failed", limit: 1 },
    output: { rollouts: [{ ...EXAMPLE_ROW, status: "success", total_reward: 1 }], next: null },
  },
} satisfies Operation;

export const get = {
  method: "GET",
  path: "/{id}",
  name: "getRollout",
  auth: ["secret", "user"],
  summary: "Get a rollout",
  description:
    "A rollout with what validators said of it, its task, and an address of its video that is valid for an hour.",
  input: own,
  output: fields({
    rollout: ROLLOUT,
    validations: v.array(v.looseObject({ id: id("The verdict's id."), verdict: v.string() })),
    task: v.nullable(v.looseObject({ id: id("The task's id."), description: v.string() })),
    video_url: v.nullable(text("Where its video can be loaded; null without one.")),
  }),
  errors: [400, 404],
  example: {
    input: { id: EXAMPLE.rolloutId },
    output: {
      rollout: { ...EXAMPLE_ROW, status: "success", result: "3" },
      validations: [{ id: EXAMPLE.turnId, validator_name: "default", verdict: "pass", expected: "3", actual: "3" }],
      task: { id: EXAMPLE.taskId, description: "How many red balls are there?" },
      video_url: null,
    },
  },
} satisfies Operation;

// Changing ----------------------------------------------------------------------------------------------------------

export const DEFAULT_WAIT_SECONDS = 10;

export const remove = {
  method: "DELETE",
  path: "/{id}",
  name: "deleteRollout",
  auth: ["secret", "user"],
  summary: "Delete a rollout",
  description:
    "Deletes a rollout with its turns. One that runs is stopped first, and is deleted when its worker has removed " +
    "its environment: this is waited for, and answered with 202 if it takes longer.",
  input: fields({
    ...own.entries,
    wait_seconds: optional(queryInteger(0, 60, DEFAULT_WAIT_SECONDS, "How long to wait for its worker.")),
  }),
  output: fields({ deleted: v.literal(true), message: v.string() }),
  accepted: {
    description: "Its worker is stopping it; it is deleted afterwards.",
    output: fields({ status: v.literal("stopping"), message: v.string() }),
    example: { status: "stopping", message: `rollout ${EXAMPLE.rolloutId} is deleted once its worker has stopped it` },
  },
  errors: [400, 403, 404],
  example: {
    input: { id: EXAMPLE.rolloutId },
    output: { deleted: true, message: `rollout ${EXAMPLE.rolloutId} is deleted` },
  },
} satisfies Operation;

const change = {
  method: "POST",
  auth: ["secret", "user"],
  input: own,
  output: fields({ rollout: ROLLOUT, message: v.string() }),
  errors: [400, 403, 404, 409, 413],
} as const;

export const cancel = {
  ...change,
  path: "/{id}/cancel",
  name: "cancelRollout",
  summary: "Cancel a rollout",
  description: "Cancels a rollout that waits. One that runs is stopped by its worker within seconds.",
  example: {
    input: { id: EXAMPLE.rolloutId },
    output: {
      rollout: { ...EXAMPLE_ROW, status: "cancelled" },
      message: `rollout ${EXAMPLE.rolloutId} is cancelled`,
    },
  },
} satisfies Operation;

export const retry = {
  ...change,
  path: "/{id}/retry",
  name: "retryRollout",
  summary: "Retry a rollout",
  description:
    "Puts a rollout that ended with error, cancelled, timeout or truncated back into the queue. What it recorded is " +
    "kept in a rollout of its own, whose `attempt_of` is this one.",
  example: {
    input: { id: EXAMPLE.rolloutId },
    output: { rollout: { ...EXAMPLE_ROW, status: "pending" }, message: `rollout ${EXAMPLE.rolloutId} is in the queue` },
  },
} satisfies Operation;

export const operations = [request, list, get, remove, cancel, retry];
