/** Runs as lists and comparisons show them. */
import { answered, rpc, supabase, unwrap } from "@/supabase.ts";
import type { Results, ViewRows } from "./contract.ts";

/** The columns of a list; what can be large is not among them. */
const COLUMNS =
  "id,name,run_name,algorithm,environment,description,tags,status,shown_status,status_message,current_step,steps_done,total_steps,progress,heartbeat_at,archive_status,visibility,owner_id,owner_name,started_at,finished_at,created_at,updated_at,rollout_count,completed_count,success_rate,average_reward,average_turns" as const;

export type ListedRun = Omit<
  ViewRows["run_list"],
  "baseline_id" | "timeline" | "heartbeat_timeout_seconds" | "success_count" | "search_text"
>;

export interface RunFilters {
  search: string;
  status: string[];
  algorithm: string | null;
  environment: string | null;
  owner: string | null;
  /** Days, such as 2026-03-01, where the person is. */
  from: string | null;
  to: string | null;
}

export interface RunSort {
  column: string;
  direction: "asc" | "desc";
}

export type RunFacets = Results["run_facets"];

export interface RunPage {
  runs: ListedRun[];
  count: number;
  page: number;
}

export const RUNS_PER_PAGE = 50;
/** What the API says to a page that begins after the last row. */
const BEYOND_THE_END = "PGRST103";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A pattern that finds a text anywhere, each of its characters meaning itself. */
export function containing(text: string): string {
  // The API turns every * into %, and nothing keeps it from that: any one character stands for it.
  return `%${text.replace(/[\\%_]/g, "\\$&").replaceAll("*", "_")}%`;
}

/** The beginning of a day where the person is, or of a day after it. */
function startOfDay(day: string, later = 0): string | null {
  const [year, month, date] = day.split("-").map(Number);
  const time = new Date(year!, month! - 1, date! + later);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** The runs that match, and how many there are, in order from one of them on. */
function matching<Columns extends string>(columns: Columns, filters: RunFilters, sort: RunSort, first: number) {
  let query = supabase().from("run_list").select(columns, { count: "exact" });
  const from = filters.from && startOfDay(filters.from);
  const before = filters.to && startOfDay(filters.to, 1);
  if (filters.search.trim()) query = query.ilike("search_text", containing(filters.search.trim()));
  // An address may name any status; one that is none finds nothing.
  if (filters.status.length) query = query.in("shown_status", filters.status as ListedRun["shown_status"][]);
  if (filters.algorithm) query = query.eq("algorithm", filters.algorithm);
  if (filters.environment) query = query.eq("environment", filters.environment);
  if (filters.owner) query = query.eq("owner_id", filters.owner);
  if (from) query = query.gte("created_at", from);
  if (before) query = query.lt("created_at", before);
  const ascending = sort.direction === "asc";
  // Unknown last either way; a run always has the time at which it was made, and its index knows no such wish.
  const nullsFirst = sort.column === "created_at" ? undefined : false;
  return query.order(sort.column, { ascending, nullsFirst }).order("id").range(first, first + RUNS_PER_PAGE - 1);
}

/** One page of the runs that match, and how many there are; the first where there is no such page. */
export async function readRuns(
  filters: RunFilters,
  sort: RunSort,
  page: number,
  signal: AbortSignal,
): Promise<RunPage> {
  if (page === 1) {
    const response = await matching(COLUMNS, filters, sort, 0).abortSignal(signal);
    const runs = unwrap(response) ?? [];
    return { runs, count: response.count ?? runs.length, page };
  }
  // The database works out every figure of the rows that a later page skips, unless only ids are asked for.
  const response = await matching("id", filters, sort, (page - 1) * RUNS_PER_PAGE).abortSignal(signal);
  const found = response.error?.code === BEYOND_THE_END ? [] : unwrap(response) ?? [];
  if (found.length === 0) return readRuns(filters, sort, 1, signal);
  const runs = await readRunsById(found.map((run) => run.id), signal);
  return { runs, count: response.count ?? runs.length, page };
}

export function readRunFacets(signal: AbortSignal): Promise<RunFacets> {
  return rpc("run_facets", {}, signal);
}

/** These runs, in the order asked for; those that are gone or not to be seen are left out. */
export async function readRunsById(ids: string[], signal: AbortSignal): Promise<ListedRun[]> {
  const found = await answered(
    supabase().from("run_list").select(COLUMNS).in("id", ids).abortSignal(signal),
  );
  return ids.flatMap((id) => found.find((run) => run.id === id) ?? []);
}

/** A run as the list shows it; null where it is gone, or not to be seen. */
export async function readListedRun(id: string, signal: AbortSignal): Promise<ListedRun | null> {
  if (!UUID.test(id)) return null;
  return (await readRunsById([id], signal))[0] ?? null;
}

export type RunName = Pick<ListedRun, "id" | "name" | "run_name" | "shown_status" | "created_at">;

/** The newest runs that hold a text. */
export async function findRuns(search: string, limit: number, signal: AbortSignal): Promise<RunName[]> {
  let query = supabase().from("run_list").select("id,name,run_name,shown_status,created_at");
  if (search.trim()) query = query.ilike("search_text", containing(search.trim()));
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(limit).abortSignal(signal),
  );
}

/** What a run was configured with. */
export async function readConfig(id: string, signal: AbortSignal): Promise<unknown> {
  const rows = await answered(supabase().from("training_runs").select("config").eq("id", id).abortSignal(signal));
  return rows[0]?.config ?? null;
}
