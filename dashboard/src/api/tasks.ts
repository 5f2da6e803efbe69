/** Tasks: what agents are asked, how they do, and bringing in more of them. */
import type { Row } from "@/database.ts";
import { answered, rpc, supabase } from "@/supabase.ts";
import { uuid5 } from "../../../supabase/functions/_shared/ids.ts";
import type { Filters, Results } from "./contract.ts";

export type Task = Row<"tasks">;
export type Validator = Row<"validators">;

export type TaskFilters = Filters["list_tasks"];
export type TaskPage = Results["list_tasks"];
export type ListedTask = TaskPage["tasks"][number];
export type TaskCursor = NonNullable<TaskPage["next"]>;
export type TaskHistory = Results["task_history"];
export type TaskResults = Results["task_results"];

export function listTasks(filters: TaskFilters, after: TaskCursor | null, signal: AbortSignal): Promise<TaskPage> {
  return rpc("list_tasks", { filters, after, page_size: 50 }, signal);
}

export function taskFacets(signal: AbortSignal): Promise<Results["task_facets"]> {
  return rpc("task_facets", {}, signal);
}

export async function readTask(id: string, signal: AbortSignal): Promise<Task & { validators: Validator[] }> {
  const task = await answered(supabase().from("tasks").select("*").eq("id", id).abortSignal(signal).single());
  const validators = await answered(
    supabase().from("validators").select("*").eq("task_id", id).order("external_id").limit(200).abortSignal(signal),
  );
  return { ...task, validators };
}

export function taskHistory(id: string, signal: AbortSignal): Promise<TaskHistory> {
  return rpc("task_history", { task_id: id }, signal);
}

/** How the newest rollouts of a task went, by agent and model. */
export function taskResults(id: string, signal: AbortSignal): Promise<TaskResults> {
  return rpc("task_results", { task_id: id }, signal);
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
    // Null would clear what an earlier upload said.
    const part = tasks.slice(from, from + batch).map((task) =>
      Object.fromEntries(Object.entries(task).filter(([, value]) => value !== null))
    );
    const answer = await rpc("ingest", { batch: { tasks: part } });
    refused.push(...answer.refused.map(({ index, message }) => ({ index: index + from, message })));
    progress(Math.min(tasks.length, from + batch));
  }
  return refused;
}
