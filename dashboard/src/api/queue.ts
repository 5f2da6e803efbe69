/** The queue of rollouts: asking for them, watching them, stopping them, and the workers. */
import type { RolloutStatus } from "@/database.ts";
import { answered, rpc, supabase } from "@/supabase.ts";
import type { Results } from "./contract.ts";

export type QueueOverview = Results["queue_overview"];
export type Worker = QueueOverview["workers"][number];
export type Watched = Results["watch_rollouts"];
export type QueuedRollout = Watched["rollouts"][number];
export type Choices = Results["request_choices"];
export type Requested = Results["request_rollouts"];

export interface Limits {
  max_steps?: number;
  max_seconds?: number;
  max_tokens?: number;
  max_cost_usd?: number;
}

/** What request_rollouts takes; what is missing is the task's own, or the default. */
export interface RolloutRequest {
  task_ids: string[];
  attempts: number;
  agent?: string;
  model?: string;
  environment?: string;
  priority?: number;
  limits?: Limits;
  reuse?: boolean;
}

/** The database takes no more in one request. */
export const MOST_REQUESTED = 10_000;

/** Statuses from which a rollout can be tried again. */
const RETRYABLE: ReadonlySet<string> = new Set<RolloutStatus>([
  "error",
  "cancelled",
  "timeout",
  "truncated",
  "interrupted",
]);
const UNFINISHED: ReadonlySet<string> = new Set<RolloutStatus>(["pending", "provisioning", "running"]);

export function isRetryable(status: string): boolean {
  return RETRYABLE.has(status);
}

export function isUnfinished(status: string): boolean {
  return UNFINISHED.has(status);
}

export function queueOverview(listed: number, signal: AbortSignal): Promise<QueueOverview> {
  return rpc("queue_overview", { listed }, signal);
}

/** The rollouts of one request, which all have the same time. */
export function watchRequest(requestedAt: string, listed: number, signal: AbortSignal): Promise<Watched> {
  return rpc("watch_rollouts", { requested_at: requestedAt, listed }, signal);
}

/** The rollouts of a task that have not ended. */
export function watchTask(taskId: string, listed: number, signal: AbortSignal): Promise<Watched> {
  return rpc("watch_rollouts", { task_id: taskId, listed }, signal);
}

export function requestChoices(signal: AbortSignal): Promise<Choices> {
  return rpc("request_choices", {}, signal);
}

/** Asking again with the same id makes nothing new. */
export function requestRollouts(request: RolloutRequest, requestId: string): Promise<Requested> {
  return rpc("request_rollouts", { request, request_id: requestId });
}

export function cancelRollouts(ids: string[]): Promise<unknown> {
  return rpc("cancel_rollouts", { rollout_ids: ids });
}

export function retryRollouts(ids: string[]): Promise<unknown> {
  return rpc("retry_rollouts", { rollout_ids: ids });
}

export function deleteRollouts(ids: string[]): Promise<Results["delete_rollouts"]> {
  return rpc("delete_rollouts", { rollout_ids: ids });
}

export function stopWorkers(ids: string[]): Promise<number> {
  return rpc("stop_workers", { worker_ids: ids });
}

const PAGE = 1_000;

/** The rollouts of one request that have one of these statuses, all of them. */
export async function idsOfRequest(requestedAt: string, statuses: RolloutStatus[]): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const found = supabase().from("rollouts").select("id").eq("created_at", requestedAt).in("status", statuses)
      .not("request", "is", null);
    const page = await answered((ids.length ? found.gt("id", ids.at(-1)!) : found).order("id").limit(PAGE));
    ids.push(...page.map(({ id }) => id));
    if (page.length < PAGE) return ids;
  }
}
