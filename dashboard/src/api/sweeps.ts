/** Sweeps: searches over the parameters of a run, and their trials. */
import type { Json, Row } from "@/database.ts";
import { answered, rpc, supabase } from "@/supabase.ts";
import type { Results } from "./contract.ts";
import { after, type Place, placeAfter } from "./paging.ts";

export type Sweep = Row<"sweeps">;
export type Trial = Results["sweep_overview"]["trials"][number];

export interface SweepOverview {
  sweep: Sweep;
  trials: Trial[];
}

const LISTED =
  "id, name, method, metric, direction, status, status_message, max_trials, next_trial, created_at, started_at, finished_at" as const;
export type ListedSweep = Pick<
  Sweep,
  | "id"
  | "name"
  | "method"
  | "metric"
  | "direction"
  | "status"
  | "status_message"
  | "max_trials"
  | "next_trial"
  | "created_at"
  | "started_at"
  | "finished_at"
>;

const PAGE = 50;

export async function readSweeps(from: Place | null, signal: AbortSignal): Promise<ListedSweep[]> {
  let query = supabase().from("sweeps").select(LISTED);
  if (from) query = query.or(after("created_at", from, "ascending"));
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  );
}

export function nextSweepPage(page: ListedSweep[]): Place | null {
  return placeAfter(page, PAGE, (sweep) => sweep.created_at);
}

export async function readSweep(id: string, signal: AbortSignal): Promise<SweepOverview> {
  return await rpc("sweep_overview", { sweep_id: id }, signal) as unknown as SweepOverview;
}

export function stopSweep(id: string): Promise<unknown> {
  return rpc("stop_sweep", { sweep_id: id });
}

/** What request_sweep takes. */
export interface SweepRequest {
  id: string;
  name: string;
  method: Sweep["method"];
  template: { name: string; algorithm: string | null; environment: string | null; config: Record<string, Json> };
  space: Record<string, Json>;
  metric: string;
  direction: Sweep["direction"];
  max_trials?: Json;
  max_concurrent?: Json;
  seed?: Json;
  early_stopping?: Record<string, Json>;
  job_config: Record<string, Json>;
}

/** Asking again with the same id makes nothing new. */
export function requestSweep(sweep: SweepRequest): Promise<unknown> {
  return rpc("request_sweep", { sweep: sweep as unknown as Json });
}

/** How many runs a request would make; what is wrong with it is told by its field. */
export function previewSweep(
  sweep: Omit<SweepRequest, "id">,
  signal: AbortSignal,
): Promise<Results["preview_sweep"]> {
  return rpc("preview_sweep", { sweep: sweep as unknown as Json }, signal);
}

/** The sweep that a run is a trial of, if it is of any. */
export async function sweepOfRun(runId: string, signal: AbortSignal) {
  const found = await answered(
    supabase().from("sweep_trials").select("trial, sweep_id").eq("training_run_id", runId).limit(1).abortSignal(signal),
  );
  return found[0] ?? null;
}
