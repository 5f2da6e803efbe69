/** Runs that are trained from the record: making them, and what their page reads beside the rest. */
import { RequestError, rpc, supabase } from "@/supabase.ts";
import { answered } from "@/supabase.ts";
import type { Json } from "@/database.ts";

export interface RunToTrain {
  name: string;
  algorithm: string | null;
  environment: string | null;
  config: Record<string, Json>;
}

/** Make a run; asking again with the same id makes nothing new. */
export async function addRun(id: string, run: RunToTrain): Promise<void> {
  const { refused } = await rpc("ingest", { batch: { training_runs: [{ id, ...run }] } });
  if (refused[0]) throw new RequestError(refused[0].message, refused[0].code);
}

export interface Training {
  name: string;
  algorithm: string | null;
  environment: string | null;
  environmentVersion: number | null;
  stopRequestedAt: string | null;
  config: Record<string, unknown>;
  /** Whether its configuration is one that the training service reads. */
  isTrainable: boolean;
  /** Whether its rollouts are episodes of an environment, which the training service records. */
  isEpisodic: boolean;
}

export async function readTraining(runId: string, signal: AbortSignal): Promise<Training> {
  const found = await answered(
    supabase().from("training_runs")
      .select("name, algorithm, environment, environment_version, stop_requested_at, config").eq("id", runId).limit(1)
      .abortSignal(signal),
  );
  const run = found[0];
  if (!run) throw RequestError.unknown(`training run ${runId}: unknown id`);
  const config = (run.config ?? {}) as Record<string, unknown>;
  return {
    name: run.name,
    algorithm: run.algorithm,
    environment: run.environment,
    environmentVersion: run.environment_version,
    stopRequestedAt: run.stop_requested_at,
    config,
    isEpisodic: config.total_timesteps !== undefined && config.entry_point === undefined,
    isTrainable: config.total_timesteps !== undefined || config.entry_point !== undefined,
  };
}
