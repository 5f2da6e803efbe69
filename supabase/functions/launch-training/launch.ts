/** Ask for a training job. */
import { write } from "../_shared/record.ts";
import { repetitionId } from "../_shared/repetition.ts";
import type { Call } from "../_shared/serve.ts";
import type { Input, Output } from "./schema.ts";

interface Requested {
  job: { id: string };
  yaml: string;
}

/** Put a job into the table from which orchestrators take them; the database checks its configuration. */
export async function launchTraining(call: Call<Input>): Promise<Output> {
  const { runId, config, jobId } = call.input;
  const rpc = call.client.rpc("request_job", {
    run_id: runId,
    config: config ?? {},
    job_id: await repetitionId(call, jobId),
  });
  const { job, yaml } = await write<Requested>(call, rpc, [{ field: "runId", table: "training_runs", id: runId }]);
  return { jobId: job.id, yaml };
}
