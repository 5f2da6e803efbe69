/** Begin a rollout; with a client's id, once however often it is asked. */
import { FunctionError, invalid } from "../_shared/errors.ts";
import { uuid5, uuid7 } from "../_shared/ids.ts";
import { given, ingest } from "../_shared/record.ts";
import type { Call } from "../_shared/serve.ts";
import type { Input, Output } from "./schema.ts";

export async function submitRollout(call: Call<Input>): Promise<Output> {
  const { id = null, ...rest } = call.input;
  const rolloutId = id ?? uuid7();
  const rollout = given({
    ...rest,
    id: rolloutId,
    status: "running",
    // The same for every repetition, so that one that comes after the rollout's end does not begin it again.
    status_change_id: await uuid5(rolloutId, "created"),
  });
  try {
    await ingest(call, { rollouts: [rollout] }, [
      { field: "training_run_id", table: "training_runs", id: rest.training_run_id },
      { field: "group_id", table: "rollout_groups", id: rest.group_id },
      { field: "task_id", table: "tasks", id: rest.task_id },
    ]);
  } catch (error) {
    throw lacksEnvironment(error)
      ? invalid("environment: is required where no run has one", { field: "environment" })
      : error;
  }
  return { rollout_id: rolloutId, status: "created", message: `rollout ${rolloutId} was created` };
}

/** Only the database knows whether the run has an environment. */
function lacksEnvironment(error: unknown): boolean {
  if (!(error instanceof FunctionError) || error.status !== 400) return false;
  return (error.details as { field?: string } | null)?.field === "environment";
}
