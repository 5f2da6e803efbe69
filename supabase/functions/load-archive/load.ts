/** Loads rows of an archive: finds the files, reads the few row groups that hold them, and gives the rows to the database. */
import { createAdminClient, type SupabaseClient } from "../_shared/deps.ts";
import { getEnvironment } from "../_shared/environment.ts";
import { FunctionError, unwrap } from "../_shared/errors.ts";
import type { Call } from "../_shared/serve.ts";
import { type ArchivedFile, readRows, unreadable } from "./parquet.ts";
import type { Input, Output } from "./schema.ts";

// Parents first.
const OF_ROLLOUT = ["agent_states", "observations", "generations", "tool_calls", "rewards"];
const OF_RUN = ["metric_axes", "metric_chunks"];
const BATCH_CHARS = 2 * 1024 * 1024;
const URL_SECONDS = 600;

/** The caller must see the rollout or run; the rows are then read and written with the secret key. */
export async function loadArchive({ client, input }: Call<Input>): Promise<Output> {
  const runId = await findRun(client, input);
  const admin = createAdminClient({ env: getEnvironment() }) as unknown as SupabaseClient;
  const archive = unwrap(await admin.from("archives").select("files").eq("training_run_id", runId).maybeSingle());
  if (archive === null) return { rows: {} };
  const types = await readTypes(admin, runId);
  const rows: Record<string, number> = {};
  for (const kind of input.rollout_id ? OF_ROLLOUT : OF_RUN) {
    rows[kind] = 0;
    for (
      const file of (archive.files as ArchivedFile[]).filter((file) => holds(file, kind, input.rollout_id ?? null))
    ) {
      rows[kind] += await loadFile(admin, runId, file, input.rollout_id ?? null, types[kind].columns);
    }
  }
  return { rows };
}

async function findRun(client: SupabaseClient, { rollout_id, training_run_id }: Input): Promise<string> {
  if (training_run_id) {
    const found = unwrap(await client.from("training_runs").select("id").eq("id", training_run_id).maybeSingle());
    if (found) return training_run_id;
  } else if (rollout_id) {
    const found = unwrap(await client.from("rollouts").select("training_run_id").eq("id", rollout_id).maybeSingle());
    if (found?.training_run_id) return found.training_run_id;
  }
  const [field, id] = training_run_id ? ["training_run_id", training_run_id] : ["rollout_id", rollout_id];
  const noun = training_run_id ? "training run" : "rollout of a run";
  throw new FunctionError(404, "not_found", `${field} ${id}: there is no such ${noun}, or you may not see it`, {
    field,
  });
}

async function readTypes(
  admin: SupabaseClient,
  runId: string,
): Promise<Record<string, { columns: Record<string, string> }>> {
  const path = `${runId}/manifest.json`;
  const manifest = stored(await admin.storage.from("archives").download(path), path);
  return JSON.parse(await manifest.text()).tables;
}

interface StorageFailure {
  message: string;
  status?: number;
}

function stored<T>({ data, error }: { data: T | null; error: StorageFailure | null }, path: string): T {
  if (data !== null) return data;
  throw unreadable(path, error?.message ?? "storage does not have it", error?.status);
}

function holds(file: ArchivedFile, kind: string, rolloutId: string | null): boolean {
  if (file.table !== kind) return false;
  return rolloutId === null || (file.first_rollout! <= rolloutId && rolloutId <= file.last_rollout!);
}

async function loadFile(
  admin: SupabaseClient,
  runId: string,
  file: ArchivedFile,
  rolloutId: string | null,
  types: Record<string, string>,
): Promise<number> {
  const signed = stored(await admin.storage.from("archives").createSignedUrl(file.path, URL_SECONDS), file.path);
  let added = 0;
  let waiting: string[] = [];
  let chars = 0;
  const send = async () => {
    const params = { training_run_id: runId, kind: file.table, rows: `[${waiting.join(",")}]` };
    if (waiting.length > 0) added += Number(unwrap(await admin.rpc("load_archived", params)));
    [waiting, chars] = [[], 0];
  };
  for await (const row of readRows(signed.signedUrl, file, rolloutId, types)) {
    waiting.push(row);
    chars += row.length;
    if (chars >= BATCH_CHARS) await send();
  }
  await send();
  return added;
}
