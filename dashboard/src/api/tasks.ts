/** Tasks: what agents are asked, how they do, and bringing in more of them. */
import { answered, call, type Row, supabase } from "@/supabase.ts";
import { uuid5 } from "../../../supabase/functions/_shared/ids.ts";

export type Task = Row<"tasks">;
export type Validator = Row<"validators">;

export interface ListedTask {
  id: string;
  external_id: string | null;
  environment: string | null;
  name: string | null;
  description: string;
  expected_answer: string | null;
  split: string | null;
  created_at: string;
  updated_at: string;
  validators: number;
  /** Of the newest rollouts. */
  rollouts: number;
  completed: number;
  solved: number;
  success_rate: number | null;
  mean_reward: number | null;
  last_rollout_at: string | null;
}

export interface TaskFilters {
  search?: string;
  environment?: string;
  split?: string;
}

export interface TaskPage {
  tasks: ListedTask[];
  next: unknown | null;
}

export interface Stretch {
  from: string;
  to: string;
  rollouts: number;
  completed: number;
  solved: number;
  mean_reward: number | null;
}

export interface CheckpointResult {
  checkpoint_id: string;
  checkpoint_number: number;
  training_run_id: string;
  run_name: string;
  step: number | null;
  rollouts: number;
  completed: number;
  solved: number;
  success_rate: number | null;
  mean_reward: number | null;
}

export interface RunResult {
  training_run_id: string | null;
  run_name: string | null;
  rollouts: number;
  completed: number;
  solved: number;
  mean_reward: number | null;
  last_at: string;
}

export interface TaskHistory {
  sample: number;
  over_time: Stretch[];
  by_checkpoint: CheckpointResult[];
  by_run: RunResult[];
}

export function listTasks(filters: TaskFilters, after: unknown, signal: AbortSignal): Promise<TaskPage> {
  return call<TaskPage>("list_tasks", { filters, after, page_size: 50 }, signal);
}

export function taskFacets(signal: AbortSignal): Promise<{ environments: string[]; splits: string[] }> {
  return call("task_facets", {}, signal);
}

export async function readTask(id: string, signal: AbortSignal): Promise<Task & { validators: Validator[] }> {
  const task = await answered(supabase().from("tasks").select("*").eq("id", id).abortSignal(signal).single());
  const validators = await answered(
    supabase().from("validators").select("*").eq("task_id", id).order("external_id").limit(200).abortSignal(signal),
  );
  return { ...task, validators };
}

export function taskHistory(id: string, signal: AbortSignal): Promise<TaskHistory> {
  return call<TaskHistory>("task_history", { task_id: id }, signal);
}

/** A task as it is to be written; its id follows from its environment and external id, as in the Python package. */
export interface NewTask {
  id: string;
  external_id: string;
  environment: string | null;
  name: string | null;
  description: string;
  expected_answer: string | null;
  split: string | null;
  metadata: Record<string, unknown>;
}

const NAMESPACE = "e2a7519d-8088-4d57-8dbf-f9f4cf31e13d";

export function taskId(environment: string | null, externalId: string): Promise<string> {
  return uuid5(NAMESPACE, `task:${environment ?? ""}:${externalId}`);
}

/** Which of these tasks are there already. */
export async function knownTasks(ids: string[], signal?: AbortSignal): Promise<Set<string>> {
  const known = new Set<string>();
  for (let from = 0; from < ids.length; from += 100) {
    const request = supabase().from("tasks").select("id").in("id", ids.slice(from, from + 100));
    for (const row of await answered(signal ? request.abortSignal(signal) : request)) known.add(row.id);
  }
  return known;
}

export interface Refusal {
  index: number;
  message: string;
}

/** Write tasks in batches; says which were refused and why. The rest is written. */
export async function writeTasks(tasks: NewTask[], progress: (written: number) => void): Promise<Refusal[]> {
  const refused: Refusal[] = [];
  const batch = 200;
  for (let from = 0; from < tasks.length; from += batch) {
    const part = tasks.slice(from, from + batch);
    const answer = await call<{ refused: Refusal[] }>("ingest", { batch: { tasks: part } });
    refused.push(...answer.refused.map(({ index, message }) => ({ index: index + from, message })));
    progress(Math.min(tasks.length, from + batch));
  }
  return refused;
}
