/** One rollout: its row, how it was judged, and its turns, a stretch at a time. */
import { answered, call, type Row, supabase } from "@/supabase.ts";
import type { Double } from "@/view/format.ts";
import type { Json } from "../../../supabase/functions/_shared/database.types.ts";

export type { Json };

export interface RunOfRollout {
  id: string;
  name: string;
  owner_id: string | null;
}

export type Rollout = Row<"rollouts"> & {
  training_runs: RunOfRollout | null;
  rollout_groups: { number: number; task_description: string | null } | null;
  tasks: { id: string; name: string | null; description: string | null } | null;
};

/** All turns in columns: small even where there are thousands. */
export interface Outline {
  turns: number;
  step_numbers: number[];
  rewards: (Double | null)[];
  tools: number[];
  tool_errors: number[];
  durations_ms: (number | null)[];
  chars: number[];
  tool_names: Record<string, number>;
}

export interface ToolCall {
  id: string;
  position: number;
  tool_name: string;
  tool_input: Json;
  tool_input_cut?: boolean;
  tool_input_chars: number | null;
  tool_output: string | null;
  tool_output_chars: number | null;
  success: boolean | null;
  error_message: string | null;
  execution_time_ms: number | null;
}

export interface Media {
  id: string;
  kind: string;
  bucket: string;
  path: string;
  content_type: string | null;
  width: number | null;
  height: number | null;
  duration_ms: number | null;
}

export interface Generation {
  id: string;
  position: number;
  model: string | null;
  policy_version: number | null;
  completion_tokens: number | null;
  prompt_tokens: number | null;
  mean_logprob: Double | null;
  mean_advantage: Double | null;
  finish_reason: string | null;
  has_logprobs: boolean;
}

export interface TurnReward {
  reward_type: string;
  reward: Double;
  details: Json;
}

export interface FurtherObservation {
  position: number;
  kind: string;
  text: string | null;
  text_chars: number | null;
  media_path: string | null;
}

export interface Turn {
  id: string;
  step_number: number;
  created_at: string;
  duration_ms: number | null;
  model_duration_ms: number | null;
  environment_duration_ms: number | null;
  observation: string | null;
  observation_chars: number | null;
  action: string | null;
  action_chars: number | null;
  thought: string | null;
  thought_chars: number | null;
  memory_summary: string | null;
  memory_summary_chars: number | null;
  info: Json;
  info_cut?: boolean;
  has_messages: boolean;
  has_model_response: boolean;
  tool_calls: ToolCall[];
  rewards: TurnReward[];
  observations: FurtherObservation[];
  media: Media[];
  generations: Generation[];
}

export interface Tokens {
  completion_ids: number[];
  logprobs: (Double | null)[] | null;
  mask: boolean[] | null;
  advantages: (Double | null)[] | null;
  tokens: string[] | null;
}

export interface RewardComponent {
  reward_type: string;
  sum: Double;
  count: number;
  min: Double;
  max: Double;
}

export interface Match {
  step_number: number;
  field: string;
  snippet: string;
  at: number;
}

export interface Override {
  id: string;
  validation_id: string | null;
  verdict: "pass" | "fail" | null;
  reason: string;
  old_status: string;
  new_status: string;
  made_by_name: string | null;
  created_at: string;
}

export interface Fingerprints {
  step_numbers: number[];
  fingerprints: string[];
}

/** So many turns are read at once. */
export const WINDOW = 50;
/** Longer texts are cut by the server; the whole is read on request. */
export const CUT_CHARS = 3_000;

type TextColumn = "observation" | "action" | "thought" | "memory_summary";

// The tables of tasks are not there for visitors, so a task is only asked for where someone is signed in.
export async function readRollout(id: string, signedIn: boolean): Promise<Rollout> {
  const columns = "*, training_runs(id, name, owner_id), rollout_groups(number, task_description)" +
    (signedIn ? ", tasks(id, name, description)" : "");
  const row = await answered(supabase().from("rollouts").select(columns).eq("id", id).single());
  return row as unknown as Rollout;
}

export function readOutline(id: string, signal?: AbortSignal): Promise<Outline> {
  return call("rollout_outline", { rollout_id: id }, signal);
}

export function readTurns(id: string, from: number, count = WINDOW, signal?: AbortSignal): Promise<Turn[]> {
  return call("rollout_turns", { rollout_id: id, from_step: from, turn_count: count, max_chars: CUT_CHARS }, signal);
}

export function readRewards(id: string, signal?: AbortSignal): Promise<RewardComponent[]> {
  return call("rollout_rewards", { rollout_id: id }, signal);
}

export function readFingerprints(id: string, signal?: AbortSignal): Promise<Fingerprints> {
  return call("turn_fingerprints", { rollout_id: id }, signal);
}

export function readTokens(generationId: string): Promise<Tokens> {
  return call("turn_generation", { generation_id: generationId });
}

export function readChat(turnId: string): Promise<Json> {
  return call("turn_chat", { agent_state_id: turnId });
}

export function searchRollout(id: string, text: string, signal?: AbortSignal) {
  return call<{ matches: Match[]; more: boolean }>("search_rollout", { rollout_id: id, text }, signal);
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
  const table = supabase().from("validation_overrides" as "validations");
  const rows = await answered(
    table.select("*").eq("rollout_id", id).order("created_at", { ascending: false }).limit(100),
  );
  return rows as unknown as Override[];
}

export function overrideValidation(args: {
  rollout_id: string;
  verdict: "pass" | "fail" | null;
  reason: string;
  validation_id: string | null;
}): Promise<unknown> {
  return call("override_validation", args);
}

/** A text of a turn, whole. */
export async function readText(turnId: string, column: TextColumn): Promise<string> {
  const row = await answered(supabase().from("agent_states").select(column).eq("id", turnId).single());
  return (row as Record<string, string | null>)[column] ?? "";
}

export async function readJson(turnId: string, column: "info" | "model_response"): Promise<Json> {
  const row = await answered(supabase().from("agent_states").select(column).eq("id", turnId).single());
  return (row as Record<string, Json>)[column] ?? null;
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
  return await answered(rows) as unknown as { step_number: number }[];
}

export async function readRawTurn(turnId: string): Promise<Json> {
  return await answered(
    supabase().from("agent_states").select(TURN_WITH_PARTS).eq("id", turnId).single(),
  ) as unknown as Json;
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
