/** Counts, success rate and averages of rollouts. */
import { FunctionError, unwrap } from "../_shared/errors.ts";
import type { Call } from "../_shared/serve.ts";
import { DEFAULT_ROLLOUTS, type Input, type Output } from "./schema.ts";

export async function getMetrics({ client, input }: Call<Input>): Promise<Output> {
  const { training_run_id = null, environment = null, limit } = input;
  try {
    return unwrap(
      await client.rpc("run_metrics", {
        training_run_id,
        environment,
        rollout_limit: limit ?? DEFAULT_ROLLOUTS,
      }),
    );
  } catch (error) {
    if (!(error instanceof FunctionError) || error.status !== 404) throw error;
    const message = `training_run_id ${training_run_id}: there is no such training run, or you may not see it`;
    throw new FunctionError(404, "not_found", message, { field: "training_run_id" });
  }
}
