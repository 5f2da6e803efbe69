/** What of an archived run is in the database, and loading the rest of it to be read. */
import { answered, invoke, supabase } from "@/supabase.ts";

/** How many rows of each table were added. */
export type Loaded = Record<string, number>;

/** Copy the turns of a rollout, or the metric points of a run, back from the archive. */
export async function loadArchive(what: { rollout_id: string } | { training_run_id: string }): Promise<Loaded> {
  return (await invoke<{ rows: Loaded }>("load-archive", what)).rows;
}

/** Whether metric points of the run are in the database. */
export async function hasMetrics(runId: string, signal: AbortSignal): Promise<boolean> {
  const chunks = supabase().from("metric_chunks").select("id").eq("training_run_id", runId);
  return (await answered(chunks.limit(1).abortSignal(signal))).length > 0;
}
