/** End a rollout. */
import { write } from "../_shared/record.ts";
import type { Call } from "../_shared/serve.ts";
import type { Input, Output } from "./schema.ts";

/**
 * Move a rollout to a final status, with what is known of it; null clears a field.
 *
 * Without a change_id none is made up from the request: a rollout may go from success to failed and back when it is
 * judged anew, and the second success would pass for a repetition of the first. The same status again changes nothing
 * anyway; a change_id makes a repetition harmless even after another judgement.
 */
export async function completeRollout(call: Call<Input>): Promise<Output> {
  const { rollout_id, status, message = null, change_id = null, ...fields } = call.input;
  const rpc = call.client.rpc("change_status", {
    entity: "rollouts",
    entity_id: rollout_id,
    status,
    message,
    fields,
    change_id,
  });
  const rollout = await write<Output["rollout"]>(call, rpc, [
    { field: "rollout_id", table: "rollouts", id: rollout_id },
  ]);
  return { success: true, rollout, message: `rollout ${rollout_id} is ${rollout.status}` };
}
