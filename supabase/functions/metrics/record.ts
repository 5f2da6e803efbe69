/** Add one point to each of some metrics of a run. */
import { uuid5, uuid7 } from "../_shared/ids.ts";
import { ingest } from "../_shared/record.ts";
import type { Call } from "../_shared/serve.ts";
import type { Input, Output, Value } from "./schema.ts";

export async function recordMetrics(call: Call<Input>): Promise<Output> {
  const { runId } = call.input;
  const chunks = await Promise.all(call.input.metrics.map((metric) => chunk(call.input, metric, new Date())));
  await ingest(call, { metric_chunks: chunks }, [{ field: "runId", table: "training_runs", id: runId }]);
  return { success: true };
}

/** A point as a chunk of its own; the request's id and the metric's name say which, so that a repetition is known. */
async function chunk({ id, runId, step, timestamp }: Input, [name, value]: [string, Value], now: Date) {
  return {
    id: id ? await uuid5(id, name) : uuid7(),
    training_run_id: runId,
    name,
    steps: [step],
    values: [value],
    times: [timestamp ?? now.toISOString()],
  };
}
