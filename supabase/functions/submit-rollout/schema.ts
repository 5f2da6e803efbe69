/** What submit-rollout takes and answers. */
import { ROLLOUT_SOURCES } from "../_shared/constants.ts";
import { v } from "../_shared/deps.ts";
import { count, fields, id, integer, jsonObject, name, optional, text } from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";

export const input = fields({
  id: optional(id("The rollout's id, made by the client: the request can then be repeated without harm.")),
  training_run_id: optional(id("The run that the rollout belongs to, if any.")),
  episode_number: count("Which episode of the run it is; 0 is possible.", Number.MAX_SAFE_INTEGER),
  environment: optional(name("What the agent acts in. May be left out where the run has one.")),
  task_description: optional(text("What the agent is asked.")),
  metadata: optional(jsonObject("Whatever else is to be kept.")),
  task_id: optional(id("The task, where it is in the record.")),
  group_id: optional(id("The group of rollouts that it is compared with; the run is then the group's.")),
  seed: optional(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, "The environment's random seed.")),
  model: optional(text("The model that acts.")),
  source: optional(
    v.pipe(
      v.picklist(ROLLOUT_SOURCES, `one of ${ROLLOUT_SOURCES.join(", ")} is expected`),
      v.description("What the rollout is for; `training` by default."),
    ),
  ),
});

export const output = fields({
  rollout_id: id("The rollout's id: the client's own if it gave one."),
  status: v.literal("created"),
  message: v.string(),
});

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "Begin a rollout",
  description:
    "Creates a rollout that is running. Repeated with the same `id` it changes nothing and answers the same, " +
    "even after the rollout has ended.",
  input,
  output,
  errors: [400, 403, 404, 409, 413],
  example: {
    input: {
      training_run_id: EXAMPLE.runId,
      episode_number: 1,
      environment: "alfworld",
      task_description: "Find the red ball",
      metadata: { difficulty: "easy" },
    },
    output: { rollout_id: EXAMPLE.rolloutId, status: "created", message: `rollout ${EXAMPLE.rolloutId} was created` },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
