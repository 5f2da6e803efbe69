/** Rollouts as lists show them: found by what is known of them and by what happened in them. */
import { answered, call, supabase } from "@/supabase.ts";
import type { Double } from "@/view/format.ts";

export const STATUSES = [
  "pending",
  "running",
  "success",
  "failed",
  "completed",
  "truncated",
  "timeout",
  "error",
  "cancelled",
  "interrupted",
] as const;
export const SOURCES = ["training", "evaluation", "baseline", "manual", "import"] as const;
export const SORTS = ["newest", "oldest", "reward_high", "reward_low"] as const;
export type Sort = (typeof SORTS)[number];

/** What find_rollouts takes; what is missing filters nothing. */
export interface RolloutFilters {
  training_run_id?: string;
  group_id?: string;
  task_id?: string;
  environment?: string;
  status?: string[];
  source?: string[];
  step_from?: number;
  step_to?: number;
  reward_from?: number;
  reward_to?: number;
  turns_from?: number;
  turns_to?: number;
  model?: string;
  tool?: string;
  tool_failed?: boolean;
  text?: string;
  created_from?: string;
  created_to?: string;
  sort?: Sort;
}

export interface Match {
  step_number: number | null;
  field: string;
  snippet: string;
}

export interface FoundRollout {
  id: string;
  training_run_id: string | null;
  run_name: string | null;
  group_id: string | null;
  task_id: string | null;
  task_description: string | null;
  environment: string;
  source: string;
  status: string;
  total_reward: Double | null;
  step_count: number | null;
  step: number | null;
  episode_number: number | null;
  model: string | null;
  policy_version: number | null;
  error: string | null;
  started_at: string | null;
  finished_at: string | null;
  created_at: string;
  rewound_at: string | null;
  overridden: boolean;
  match: Match | null;
}

/** Where a search goes on; made and understood by the database alone. */
export type Cursor = Record<string, unknown>;

export interface FoundPage {
  rollouts: FoundRollout[];
  next: Cursor | null;
  searched: number;
  searched_to: string | null;
}

interface Extent {
  pageSize: number;
  budgetMs: number;
}

export function findRollouts(
  filters: RolloutFilters,
  after: Cursor | null,
  { pageSize, budgetMs }: Extent,
  signal?: AbortSignal,
): Promise<FoundPage> {
  return call<FoundPage>("find_rollouts", { filters, after, page_size: pageSize, budget_ms: budgetMs }, signal);
}

/** Whether each rollout's turns have to be looked at, which takes long. */
export function isSlow(filters: RolloutFilters): boolean {
  return filters.text !== undefined || filters.tool !== undefined || filters.tool_failed !== undefined;
}

const CHANGING = "id, status, total_reward, step_count, error, started_at, finished_at" as const;
export type Changing = Pick<
  FoundRollout,
  "id" | "status" | "total_reward" | "step_count" | "error" | "started_at" | "finished_at"
>;

/** How these rollouts are by now. */
export async function rolloutsNow(ids: string[], signal: AbortSignal): Promise<Changing[]> {
  if (ids.length === 0) return [];
  return await answered(supabase().from("rollouts").select(CHANGING).in("id", ids).abortSignal(signal));
}

export interface Choice {
  value: string;
  label: string;
}

/** Runs whose name holds the text, newest first. */
export async function runChoices(search: string, signal: AbortSignal): Promise<Choice[]> {
  let request = supabase().from("training_runs").select("id, name").order("created_at", { ascending: false }).limit(20);
  // A backslash keeps % and _ what they are.
  if (search) request = request.ilike("name", `%${search.replace(/[\\%_]/g, "\\$&")}%`);
  const runs = await answered(request.abortSignal(signal));
  return runs.map(({ id, name }) => ({ value: id, label: name }));
}

export async function runName(id: string, signal: AbortSignal): Promise<string | null> {
  const found = await answered(supabase().from("training_runs").select("name").eq("id", id).abortSignal(signal));
  return found[0]?.name ?? null;
}

/** A task's name, or the beginning of what it asks for. */
export async function taskName(id: string, signal: AbortSignal): Promise<string | null> {
  const found = await answered(
    supabase().from("tasks").select("name, external_id, description").eq("id", id).abortSignal(signal),
  );
  const task = found[0];
  return task ? task.name ?? task.external_id ?? task.description?.slice(0, 80) ?? null : null;
}

export async function environmentNames(signal: AbortSignal): Promise<string[]> {
  return (await call<{ environments: string[] }>("run_facets", {}, signal)).environments;
}
