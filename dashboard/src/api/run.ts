/** One run: what its page reads besides metrics and rollouts. */
import type { ErrorCode, Row } from "@/database.ts";
import { answered, RequestError, rpc, supabase } from "@/supabase.ts";
import type { Double } from "@/view/format.ts";
import type { Results, ViewRows } from "./contract.ts";
import { after, type Place, placeAfter } from "./paging.ts";

export type Run = ViewRows["run_list"];

const FORBIDDEN: ErrorCode = "OM403";

export async function readRun(id: string, signal: AbortSignal): Promise<Run> {
  const found = await answered(supabase().from("run_list").select("*").eq("id", id).limit(1).abortSignal(signal));
  if (!found[0]) throw RequestError.unknown(`training run ${id}: unknown id`);
  return found[0];
}

export type RunProgress = Results["run_progress"];
export type ProgressBucket = RunProgress["buckets"][number];
export type RunHealth = Results["run_health"];

export function readProgress(runId: string, buckets: number, signal: AbortSignal): Promise<RunProgress> {
  return rpc("run_progress", { training_run_id: runId, buckets }, signal);
}

export function readHealth(runId: string, signal: AbortSignal): Promise<RunHealth> {
  return rpc("run_health", { training_run_id: runId }, signal);
}

const PAGE = 50;

const STEP_COLUMNS =
  "id, step, status, status_message, phase, loss, kl, grad_norm, reward_mean, reward_std, tokens, started_at, finished_at" as const;

export type TrainingStep =
  & Pick<
    Row<"training_steps">,
    "id" | "step" | "status" | "status_message" | "phase" | "tokens" | "started_at" | "finished_at"
  >
  & Record<"loss" | "kl" | "grad_norm" | "reward_mean" | "reward_std", Double | null>;

/** The steps before one, the latest first. */
export async function readSteps(runId: string, before: number | null, signal: AbortSignal): Promise<TrainingStep[]> {
  let query = supabase().from("training_steps").select(STEP_COLUMNS).eq("training_run_id", runId).is(
    "rewound_at",
    null,
  );
  if (before !== null) query = query.lt("step", before);
  return await answered(query.order("step", { ascending: false }).limit(PAGE).abortSignal(signal));
}

export function nextStepPage(page: TrainingStep[]): number | null {
  return page.length < PAGE ? null : page.at(-1)!.step;
}

export type Checkpoint = Pick<
  Row<"model_checkpoints">,
  "id" | "checkpoint_number" | "step" | "storage_path" | "size_bytes" | "checksum" | "metrics" | "created_at"
>;
export type CheckpointResult = Pick<
  Row<"evaluation_results">,
  "id" | "checkpoint_id" | "environment" | "episode_count" | "success_rate" | "mean_reward"
>;

export interface CheckpointPage {
  checkpoints: Checkpoint[];
  results: CheckpointResult[];
}

/** Checkpoints before a number, the latest first, with their results on whole environments. */
export async function readCheckpoints(
  runId: string,
  before: number | null,
  signal: AbortSignal,
): Promise<CheckpointPage> {
  let query = supabase().from("model_checkpoints")
    .select("id, checkpoint_number, step, storage_path, size_bytes, checksum, metrics, created_at")
    .eq("training_run_id", runId).is("rewound_at", null);
  if (before !== null) query = query.lt("checkpoint_number", before);
  const checkpoints = await answered(
    query.order("checkpoint_number", { ascending: false }).limit(PAGE).abortSignal(signal),
  );
  if (!checkpoints.length) return { checkpoints, results: [] };
  const results = await answered(
    supabase().from("evaluation_results")
      .select("id, checkpoint_id, environment, episode_count, success_rate, mean_reward")
      .in("checkpoint_id", checkpoints.map(({ id }) => id)).is("task_id", null).limit(500).abortSignal(signal),
  );
  return { checkpoints, results };
}

export function nextCheckpointPage({ checkpoints }: CheckpointPage): number | null {
  return checkpoints.length < PAGE ? null : checkpoints.at(-1)!.checkpoint_number;
}

export interface RunSettings {
  config: unknown;
  summary: unknown;
  metadata: unknown;
}

export async function readSettings(runId: string, signal: AbortSignal): Promise<RunSettings> {
  const found = await answered(
    supabase().from("training_runs").select("config, summary, metadata").eq("id", runId).limit(1).abortSignal(signal),
  );
  if (!found[0]) throw RequestError.unknown(`training run ${runId}: unknown id`);
  return found[0];
}

export type StatusChange = Pick<
  Row<"status_history">,
  "id" | "old_status" | "new_status" | "message" | "changed_by" | "changed_at"
>;
export type Rewind = Pick<Row<"rewinds">, "id" | "timeline" | "to_step" | "created_at">;

export async function readStatusChanges(
  runId: string,
  from: Place | null,
  signal: AbortSignal,
): Promise<StatusChange[]> {
  let query = supabase().from("status_history")
    .select("id, old_status, new_status, message, changed_by, changed_at").eq("entity_id", runId);
  if (from) query = query.or(after("changed_at", from, "descending"));
  const latest = query.order("changed_at", { ascending: false }).order("id", { ascending: false });
  return await answered(latest.limit(PAGE).abortSignal(signal));
}

export function nextStatusPage(page: StatusChange[]): Place | null {
  return placeAfter(page, PAGE, (change) => change.changed_at);
}

export async function readRewinds(runId: string, signal: AbortSignal): Promise<Rewind[]> {
  return await answered(
    supabase().from("rewinds").select("id, timeline, to_step, created_at").eq("training_run_id", runId)
      .order("timeline", { ascending: false }).limit(200).abortSignal(signal),
  );
}

/** Display names of members by user id; those who may not read members learn none. */
export async function readMemberNames(ids: string[], signal: AbortSignal): Promise<Map<string, string>> {
  if (!ids.length) return new Map();
  const { data } = await supabase().from("members").select("user_id, display_name").in("user_id", ids).abortSignal(
    signal,
  );
  return new Map((data ?? []).flatMap(({ user_id, display_name }) => (display_name ? [[user_id, display_name]] : [])));
}

/** Change a run; the database refuses who may not. */
export async function changeRun(runId: string, change: Partial<Row<"training_runs">>): Promise<void> {
  const changed = await answered(supabase().from("training_runs").update(change).eq("id", runId).select("id"));
  if (!changed.length) {
    throw new RequestError("This run is not yours to change; ask its owner or an admin.", FORBIDDEN);
  }
}
