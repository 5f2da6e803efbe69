/** Ask the queue for rollouts, or for an evaluation. */
import type { v } from "../_shared/deps.ts";
import { invalid } from "../_shared/errors.ts";
import { given, write } from "../_shared/record.ts";
import { repetitionId } from "../_shared/repetition.ts";
import type { Call } from "../_shared/serve.ts";
import type { request } from "./schema.ts";

interface Requested {
  rollouts: { id: string }[];
  reused?: string[];
  evaluation?: { id: string };
}

export async function requestRollouts(call: Call<v.InferOutput<typeof request.input>>) {
  const { id, evaluation, ...asked } = call.input;
  const isEvaluation = evaluation != null || asked.checkpoint_id != null;
  if (asked.task_id != null && asked.task_ids != null) throw refused("task_ids", "give task_id or task_ids, not both");
  if (!isEvaluation && asked.task_id == null && asked.task_ids == null) {
    throw refused("task_id", "is required, or task_ids");
  }
  if (isEvaluation && asked.reuse) throw refused("reuse", "an evaluation has rollouts of its own");
  const { reuse, ...options } = given({ ...asked, limits: asked.limits && given(asked.limits) });
  const rpc = call.client.rpc(isEvaluation ? "request_evaluation" : "request_rollouts", {
    request: { ...options, ...given(evaluation ?? {}), ...(reuse && { reuse }) },
    request_id: await repetitionId(call, id),
  });
  const { rollouts, reused = [], evaluation: made = null } = await write<Requested>(call, rpc, []);
  return { message: told(rollouts.length - reused.length, reused.length), rollouts, reused, evaluation: made };
}

function told(made: number, reused: number): string {
  const queued = made === 1 ? "1 rollout is in the queue" : `${made} rollouts are in the queue`;
  return reused === 0 ? queued : `${queued}; ${reused} had ended before`;
}

function refused(path: string, message: string) {
  return invalid(`${path}: ${message}`, [{ path, message }]);
}
