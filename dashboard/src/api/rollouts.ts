/** Rollouts as lists show them: found by what is known of them and by what happened in them. */
import { answered, rpc, supabase } from "@/supabase.ts";
import type { Filters, Results } from "./contract.ts";

export const SORTS = ["newest", "oldest", "reward_high", "reward_low"] as const;
export type Sort = (typeof SORTS)[number];

/** What find_rollouts takes; what is missing filters nothing. */
export type RolloutFilters = Filters["find_rollouts"];
export type FoundPage = Results["find_rollouts"];
export type FoundRollout = FoundPage["rollouts"][number];
export type Match = NonNullable<FoundRollout["match"]>;
/** Where a search goes on; made and understood by the database alone. */
export type Cursor = NonNullable<FoundPage["next"]>;

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
  return rpc("find_rollouts", { filters, after, page_size: pageSize, budget_ms: budgetMs }, signal);
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
  return (await rpc("run_facets", {}, signal)).environments;
}
