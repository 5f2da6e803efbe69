/** What get-metrics takes and answers. */
import { v } from "../_shared/deps.ts";
import { fields, id, name, optional, queryInteger } from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";

export const DEFAULT_ROLLOUTS = 100;
export const MAX_ROLLOUTS = 1000;

export const input = fields({
  training_run_id: optional(id("Count the rollouts of this run.")),
  environment: optional(name("Count the rollouts in this environment.")),
  limit: optional(queryInteger(0, MAX_ROLLOUTS, DEFAULT_ROLLOUTS, "How many rollouts to list, the newest first.")),
});

const total = v.pipe(v.number(), v.integer(), v.minValue(0));

export const output = fields({
  total_rollouts: total,
  completed_rollouts: total,
  successful_rollouts: total,
  success_rate: v.pipe(v.nullable(v.number()), v.description("successful / completed; null where none completed.")),
  average_reward: v.pipe(v.nullable(v.number()), v.description("Over completed rollouts; null where unknown.")),
  average_steps: v.pipe(v.nullable(v.number()), v.description("Over completed rollouts; null where unknown.")),
  rollouts: v.pipe(
    v.array(v.looseObject({ id: id("The rollout's id."), status: v.string() })),
    v.description("The newest rollouts' rows."),
  ),
});

export const operation = {
  method: "GET",
  auth: ["secret", "user", "publishable"],
  summary: "How rollouts are doing",
  description:
    "Counts, success rate and averages of the rollouts of a run, of an environment, or of all that the caller " +
    "may see. The publishable key sees public runs only.",
  input,
  output,
  errors: [400, 404],
  example: {
    input: { training_run_id: EXAMPLE.runId, environment: "alfworld", limit: 1 },
    output: {
      total_rollouts: 3,
      completed_rollouts: 2,
      successful_rollouts: 1,
      success_rate: 0.5,
      average_reward: 5.25,
      average_steps: 12,
      rollouts: [{ id: EXAMPLE.rolloutId, status: "success", total_reward: 10.5, step_count: 15 }],
    },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
