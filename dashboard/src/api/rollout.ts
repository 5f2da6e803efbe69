/** One rollout: its row, how it was judged, and its turns, a stretch at a time. */
import type { Json, OverrideVerdict, Row } from "@/database.ts";
import { answered, rpc, supabase } from "@/supabase.ts";
import { isShortened, type Shortened } from "./answer.ts";
import type { Results } from "./contract.ts";
import { readStoredText } from "./files.ts";

export type { Json };

/** Without its answer, which may be long: that is read apart. */
export type Rollout = Omit<Row<"rollouts">, "result"> & {
  training_runs: { id: string; name: string; owner_id: string | null; archive_status: string | null } | null;
  rollout_groups: { number: number; task_description: string | null } | null;
  tasks: { id: string; name: string | null; description: string | null } | null;
};

export type Outline = Results["rollout_outline"];
export type Turn = Results["rollout_turns"][number];
export type ToolCall = Turn["tool_calls"][number];
export type Media = Turn["media"][number];
export type Generation = Turn["generations"][number];
export type TurnReward = Turn["rewards"][number];
export type FurtherObservation = Turn["observations"][number];
export type Tokens = Results["turn_generation"];
export type RewardComponent = Results["rollout_rewards"][number];
export type Match = Results["search_rollout"]["matches"][number];
export type Fingerprints = Results["turn_fingerprints"];
export type Override = Row<"validation_overrides">;

/** So many turns are read at once. */
export const WINDOW = 50;
/** Longer texts are cut by the server; the whole is read on request. */
export const CUT_CHARS = 3_000;

type JsonColumn = "info" | "model_response";
type TextColumn = "observation" | "action" | "thought" | "memory_summary";

const COLUMNS =
  `id, training_run_id, group_id, task_id, source, environment, episode_number, step, task_description, status,
  status_message, status_change_id, total_reward, step_count, error, agent, model, policy_version, seed, input_tokens,
  output_tokens, cost_usd, video_path, logs_path, metadata, request, priority, worker_id, lease_id, attempt, max_attempts,
  attempt_of, cancel_requested_at, delete_requested, cache_key, owner_id, timeline, rewound_at, started_at, finished_at,
  created_at, updated_at` as const;
const WITH_PLACE =
  `${COLUMNS}, training_runs(id, name, owner_id, archive_status), rollout_groups(number, task_description)` as const;
const WITH_TASK = `${WITH_PLACE}, tasks(id, name, description)` as const;

// The tables of tasks are not there for visitors, so a task is only asked for where someone is signed in.
export async function readRollout(id: string, signedIn: boolean): Promise<Rollout> {
  const rollouts = supabase().from("rollouts");
  if (signedIn) return await answered(rollouts.select(WITH_TASK).eq("id", id).single());
  return { ...await answered(rollouts.select(WITH_PLACE).eq("id", id).single()), tasks: null };
}

/** The row as it is stored, its answer too. */
export async function readRawRollout(id: string): Promise<Json> {
  return await answered(supabase().from("rollouts").select("*").eq("id", id).single()) as Json;
}

/** The beginning of an answer, how long it is, and the way to the whole. */
export interface Answer {
  text: string;
  chars?: number;
  /** Of an answer that is a file. */
  sizeBytes?: number;
  readAll: () => Promise<string>;
}

export async function readAnswer(id: string, signal?: AbortSignal): Promise<Answer | null> {
  const found = await rpc("rollout_result", { rollout_id: id, max_chars: CUT_CHARS }, signal);
  if (found === null) return null;
  const file = found.text.startsWith("{") ? await readShortened(id) : null;
  if (file) {
    return { text: file.shortened, sizeBytes: file.size_bytes, readAll: () => readStoredText("media", file.path) };
  }
  return { ...found, readAll: () => readWholeResult(id) };
}

/** Workers store a large answer as a file, and its beginning in its place; null where the answer is there itself. */
async function readShortened(id: string): Promise<Shortened | null> {
  const parts = "shortened:result->shortened, size_bytes:result->size_bytes, path:result->path";
  const found: unknown = await answered(supabase().from("rollouts").select(parts).eq("id", id).single());
  return isShortened(found) ? found : null;
}

async function readWholeResult(id: string): Promise<string> {
  return pretty((await answered(supabase().from("rollouts").select("result").eq("id", id).single())).result);
}

export function readVideoTimes(id: string, signal?: AbortSignal): Promise<Results["video_times"]> {
  return rpc("video_times", { rollout_id: id }, signal);
}

/** Attempts at this rollout that were set aside, the last first. */
export async function readAttempts(id: string) {
  const rows = supabase().from("rollouts").select("id, attempt, status, status_message, step_count")
    .eq("attempt_of", id).order("id", { ascending: false }).limit(100);
  return await answered(rows);
}

/** null: it stopped long ago and was forgotten. */
export async function readWorkerName(id: string): Promise<string | null> {
  return (await answered(supabase().from("workers").select("name").eq("id", id).limit(1)))[0]?.name ?? null;
}

export function readOutline(id: string, signal?: AbortSignal): Promise<Outline> {
  return rpc("rollout_outline", { rollout_id: id }, signal);
}

export function readTurns(id: string, from: number, count = WINDOW, signal?: AbortSignal): Promise<Turn[]> {
  return rpc("rollout_turns", { rollout_id: id, from_step: from, turn_count: count, max_chars: CUT_CHARS }, signal);
}

export function readRewards(id: string, signal?: AbortSignal): Promise<RewardComponent[]> {
  return rpc("rollout_rewards", { rollout_id: id }, signal);
}

export function readFingerprints(id: string, signal?: AbortSignal): Promise<Fingerprints> {
  return rpc("turn_fingerprints", { rollout_id: id }, signal);
}

export function readTokens(generationId: string): Promise<Tokens> {
  return rpc("turn_generation", { generation_id: generationId });
}

export function readChat(turnId: string): Promise<Json> {
  return rpc("turn_chat", { agent_state_id: turnId });
}

export function searchRollout(id: string, text: string, signal?: AbortSignal): Promise<Results["search_rollout"]> {
  return rpc("search_rollout", { rollout_id: id, text }, signal);
}

export async function readValidations(id: string): Promise<Row<"validations">[]> {
  return await answered(
    supabase().from("validations").select("*").eq("rollout_id", id).order("created_at").order("id").limit(100),
  );
}

/** Media of the rollout as a whole: its video. */
export async function readMedia(id: string): Promise<Media[]> {
  return await answered(
    supabase().from("media").select("id, kind, bucket, path, content_type, width, height, duration_ms")
      .eq("rollout_id", id).is("agent_state_id", null).order("id").limit(20),
  );
}

export async function readOverrides(id: string): Promise<Override[]> {
  const table = supabase().from("validation_overrides");
  return await answered(
    table.select("*").eq("rollout_id", id).order("created_at", { ascending: false }).limit(100),
  );
}

export function overrideValidation(args: {
  rollout_id: string;
  verdict: OverrideVerdict | null;
  reason: string;
  validation_id: string | null;
}): Promise<Results["override_validation"]> {
  return rpc("override_validation", args);
}

/** A text of a turn, whole. */
export async function readText(turnId: string, column: TextColumn): Promise<string> {
  const row: Partial<Record<TextColumn, string | null>> = await answered(
    supabase().from("agent_states").select(column).eq("id", turnId).single(),
  );
  return row[column] ?? "";
}

export async function readJson(turnId: string, column: JsonColumn): Promise<Json> {
  const row: Partial<Record<JsonColumn, Json>> = await answered(
    supabase().from("agent_states").select(column).eq("id", turnId).single(),
  );
  return row[column] ?? null;
}

export async function readFurtherText(turnId: string, position: number): Promise<string> {
  const rows = supabase().from("observations").select("text").eq("agent_state_id", turnId).eq("position", position);
  return (await answered(rows.single())).text ?? "";
}

export async function readToolOutput(callId: string): Promise<string> {
  return (await answered(supabase().from("tool_calls").select("tool_output").eq("id", callId).single())).tool_output ??
    "";
}

export async function readToolInput(callId: string): Promise<string> {
  const row = await answered(supabase().from("tool_calls").select("tool_input").eq("id", callId).single());
  return pretty(row.tool_input);
}

export function pretty(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

/** Others of the same group, to compare with. */
export async function readSiblings(groupId: string, except: string) {
  const rows = supabase().from("rollouts").select("id, status, total_reward, step_count, model, seed")
    .eq("group_id", groupId).neq("id", except).order("id").limit(100);
  return await answered(rows);
}

const TURN_WITH_PARTS = "*, tool_calls(*), generations(*), observations(*), media(*)";

/** Rows of turns as they are stored, after a step. */
export async function readRawTurns(id: string, after: number, count: number): Promise<{ step_number: number }[]> {
  const rows = supabase().from("agent_states").select(TURN_WITH_PARTS)
    .eq("rollout_id", id).gt("step_number", after).order("step_number").limit(count);
  return await answered(rows);
}

export async function readRawTurn(turnId: string): Promise<Json> {
  return await answered(supabase().from("agent_states").select(TURN_WITH_PARTS).eq("id", turnId).single());
}

const ROWS = 1_000;

/** All rows of rewards, in pages; whoever reads them wants them all. */
export async function readRawRewards(id: string): Promise<Row<"rewards">[]> {
  const all: Row<"rewards">[] = [];
  for (;;) {
    const rows = supabase().from("rewards").select("*").eq("rollout_id", id);
    const rest = all.length ? rows.gt("id", all.at(-1)!.id) : rows;
    const page = await answered(rest.order("id").limit(ROWS));
    all.push(...page);
    if (page.length < ROWS) return all;
  }
}
