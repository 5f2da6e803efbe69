/** Tasks: what agents are asked, how they do, and bringing in more of them. */
import type { Row } from "@/database.ts";
import { answered, refusalOf, RequestError, rpc, supabase } from "@/supabase.ts";
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
    supabase().from("validators").select("*").eq("task_id", id).is("retired_at", null).order("external_id").limit(200)
      .abortSignal(signal),
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

/** An entry of a file, and where in it. */
export interface Entry {
  /** From 0. */
  place: number;
  value: unknown;
}

/** Why an entry is not taken. */
export interface Problem {
  /** null: the file as a whole. */
  place: number | null;
  field: string | null;
  message: string;
}

export interface Uploaded {
  written: number;
  problems: Problem[];
  /** Entries that nothing is wrong with, but that came with some that are. */
  left: Entry[];
}

const MOST_AT_ONCE = 5_000;
const MOST_CHARS = 4_000_000;

/** Entries in parts that the function takes, as JSON. */
export function partsOf(entries: Entry[]): { entries: Entry[]; json: string }[] {
  const parts: { entries: Entry[]; texts: string[]; chars: number }[] = [];
  for (const entry of entries) {
    const text = JSON.stringify(entry.value);
    const last = parts.at(-1);
    if (last && last.entries.length < MOST_AT_ONCE && last.chars + text.length <= MOST_CHARS) {
      last.entries.push(entry);
      last.texts.push(text);
      last.chars += text.length;
    } else parts.push({ entries: [entry], texts: [text], chars: text.length });
  }
  return parts.map(({ entries, texts }) => ({ entries, json: `[${texts.join(",")}]` }));
}

/** Send entries; of a part in which one is wrong nothing is written. */
export async function uploadTasks(
  entries: Entry[],
  environment: string | null,
  key: string,
  progress: (sent: number) => void,
): Promise<Uploaded> {
  const outcome: Uploaded = { written: 0, problems: [], left: [] };
  let sent = 0;
  for (const [number, part] of partsOf(entries).entries()) {
    const problems = await send(part, environment, `${key} ${number}`);
    const wrong = new Set(problems.map(({ place }) => place));
    if (problems.length === 0) outcome.written += part.entries.length;
    else outcome.left.push(...part.entries.filter(({ place }) => !wrong.has(place)));
    outcome.problems.push(...problems);
    progress(sent += part.entries.length);
  }
  return outcome;
}

async function send(part: { entries: Entry[]; json: string }, environment: string | null, key: string) {
  const { error } = await supabase().functions.invoke("tasks/upload", {
    body: `{"tasks":${part.json},"environment":${JSON.stringify(environment)}}`,
    headers: { "content-type": "application/json", "idempotency-key": key },
  });
  if (!error) return [];
  const { refusal, status } = await refusalOf(error);
  const details = Array.isArray(refusal?.details) ? refusal.details as { index: number }[] : [];
  if (details.length === 0) {
    throw new RequestError(refusal?.message ?? `The server refused it (${status}).`, refusal?.code ?? null);
  }
  return details.map(({ index, ...told }) => ({ ...told, place: part.entries[index]?.place ?? null })) as Problem[];
}
