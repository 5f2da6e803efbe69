/** Cancel, retry and delete rollouts. */
import type { v } from "../_shared/deps.ts";
import { unwrap } from "../_shared/errors.ts";
import { write } from "../_shared/record.ts";
import { Answer, type Call } from "../_shared/serve.ts";
import { type cancel, DEFAULT_WAIT_SECONDS, type remove } from "./schema.ts";

const POLL_MS = 250;

interface Row {
  id: string;
  status: string;
}

type One = Call<v.InferOutput<typeof cancel.input>>;

export async function cancelRollout(call: One) {
  const rollout = await change(call, "cancel_rollouts");
  const isStopping = rollout.status === "provisioning" || rollout.status === "running";
  const told = isStopping ? "is being stopped by its worker" : `is ${rollout.status}`;
  return { rollout, message: `rollout ${rollout.id} ${told}` };
}

export async function retryRollout(call: One) {
  const rollout = await change(call, "retry_rollouts");
  return { rollout, message: `rollout ${rollout.id} is in the queue` };
}

async function change(call: One, name: "cancel_rollouts" | "retry_rollouts"): Promise<Row> {
  const { id } = call.input;
  const [rollout] = await write<Row[]>(call, call.client.rpc(name, { rollout_ids: [id] }), [reference(id)]);
  return rollout;
}

export async function deleteRollout(call: Call<v.InferOutput<typeof remove.input>>) {
  const { id, wait_seconds } = call.input;
  const rpc = call.client.rpc("delete_rollouts", { rollout_ids: [id] });
  const { deleted } = await write<{ deleted: string[] }>(call, rpc, [reference(id)]);
  const isGone = deleted.length > 0 || await waitUntilGone(call, id, wait_seconds ?? DEFAULT_WAIT_SECONDS);
  if (isGone) return { deleted: true, message: `rollout ${id} is deleted` };
  return new Answer(202, {
    status: "stopping",
    message: `rollout ${id} is deleted once its worker has stopped it`,
  });
}

async function waitUntilGone({ client, request }: Call<unknown>, id: string, seconds: number): Promise<boolean> {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end && !request.signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (unwrap(await client.from("rollouts").select("id").eq("id", id))?.length === 0) return true;
  }
  return false;
}

function reference(id: string) {
  return { field: "id", table: "rollouts", id } as const;
}
