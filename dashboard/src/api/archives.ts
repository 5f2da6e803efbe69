/** What of an archived run is in the database, and loading the rest of it to be read. */
import { answered, RequestError, supabase } from "@/supabase.ts";

/** How many rows of each table were added. */
export type Loaded = Record<string, number>;

/** Copy the turns of a rollout, or the metric points of a run, back from the archive. */
export async function loadArchive(what: { rollout_id: string } | { training_run_id: string }): Promise<Loaded> {
  const { data, error } = await supabase().functions.invoke<{ rows: Loaded }>("load-archive", { body: what });
  if (error) throw new RequestError(await reasonOf(error), null);
  return data!.rows;
}

/** Whether metric points of the run are in the database. */
export async function hasMetrics(runId: string, signal: AbortSignal): Promise<boolean> {
  const chunks = supabase().from("metric_chunks").select("id").eq("training_run_id", runId);
  return (await answered(chunks.limit(1).abortSignal(signal))).length > 0;
}

/** What the function said when it refused; its error holds the answer unread. */
async function reasonOf(error: { message: string; context?: unknown }): Promise<string> {
  if (!(error.context instanceof Response)) return error.message;
  const answer = await error.context.json().catch(() => null) as { error?: { message?: string } } | null;
  if (error.context.status === 404 && !answer?.error) return "This server has no function load-archive.";
  return answer?.error?.message ?? error.message;
}
