/** What load-archive takes and answers. */
import { v } from "../_shared/deps.ts";
import { fields, id, optional } from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";

export const input = v.pipe(
  fields({
    rollout_id: optional(id("Load the turns of this rollout.")),
    training_run_id: optional(id("Load the metric points of this run.")),
  }),
  v.forward(
    v.check(
      (given) => (given.rollout_id == null) !== (given.training_run_id == null),
      "give rollout_id for turns, or training_run_id for metric points",
    ),
    ["rollout_id"],
  ),
);

export const output = fields({
  rows: v.pipe(
    v.record(v.string(), v.pipe(v.number(), v.integer(), v.minValue(0))),
    v.description(
      "How many rows of each table were added; 0 for those that are there already, none if nothing is archived.",
    ),
  ),
});

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "Load what an archive holds",
  description:
    "Copies the turns of a rollout, or the metric points of a run, from the archive of the run back into the database, " +
    "so that they can be read as before. `openmanus-rl archive` removes the copy after a day.",
  input,
  output,
  errors: [400, 404, 409, 502],
  example: {
    input: { rollout_id: EXAMPLE.rolloutId },
    output: { rows: { agent_states: 12, observations: 0, generations: 12, tool_calls: 9, rewards: 0 } },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
