/** What complete-rollout takes and answers. */
import { ROLLOUT_STATUSES } from "../_shared/constants.ts";
import { v } from "../_shared/deps.ts";
import { count, fields, id, json, jsonObject, optional, real, text } from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";

/** How a rollout can end. */
const OPEN_STATUSES: readonly string[] = ["pending", "provisioning", "running"];
export const FINAL_STATUSES = ROLLOUT_STATUSES.filter((status) => !OPEN_STATUSES.includes(status));

export const input = fields({
  rollout_id: id("The rollout."),
  status: v.pipe(
    v.picklist(FINAL_STATUSES, `a rollout can end as ${FINAL_STATUSES.join(", ")}`),
    v.description("How it ended."),
  ),
  total_reward: optional(real("The sum of its rewards.")),
  step_count: optional(count("How many turns it took.")),
  error: optional(text("What went wrong.")),
  result: optional(json("What came out.")),
  // Required in the database: it cannot be cleared.
  metadata: v.optional(jsonObject("Whatever else is to be kept; added to what is there.")),
  message: optional(text("Why, for the history of its status.")),
  change_id: optional(
    id(
      "The id of this change, made by the client. A repetition that comes after the rollout was judged anew then " +
        "changes nothing.",
    ),
  ),
});

export const output = fields({
  success: v.literal(true),
  rollout: v.pipe(
    v.looseObject({ id: id("The rollout's id."), status: v.picklist(FINAL_STATUSES) }),
    v.description("The rollout's row."),
  ),
  message: v.string(),
});

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "End a rollout",
  description:
    "Moves a rollout to a final status. A field that is left out stays as it is, and null clears it. The same request " +
    "again changes nothing. A rollout that was judged can " +
    "be judged anew (from success to failed and back); with a `change_id` a late repetition of an earlier judgement " +
    "changes nothing either.",
  input,
  output,
  errors: [400, 403, 404, 409, 413],
  example: {
    input: { rollout_id: EXAMPLE.rolloutId, status: "success", total_reward: 10.5, step_count: 15 },
    output: {
      success: true,
      rollout: { id: EXAMPLE.rolloutId, status: "success", total_reward: 10.5, step_count: 15 },
      message: `rollout ${EXAMPLE.rolloutId} is success`,
    },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
