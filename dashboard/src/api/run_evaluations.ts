/** Evaluations of a run, and how they compare with its baseline. */
import type { Row } from "@/database.ts";
import { answered, rpc, supabase } from "@/supabase.ts";
import type { Double } from "@/view/format.ts";
import type { Results } from "./contract.ts";
import { after, type Place, placeAfter } from "./paging.ts";
import { changeRun, type Run } from "./run.ts";

const COLUMNS =
  "id, training_run_id, checkpoint_id, kind, name, step, model, environment, status, progress, success_rate, mean_reward, mean_turns, created_at" as const;

export type Evaluation =
  & Pick<
    Row<"evaluations">,
    | "id"
    | "training_run_id"
    | "checkpoint_id"
    | "kind"
    | "name"
    | "step"
    | "model"
    | "environment"
    | "status"
    | "progress"
    | "success_rate"
    | "mean_turns"
    | "created_at"
  >
  & { mean_reward: Double | null };

const PAGE = 100;

/** A page of evaluations, the latest first. */
export async function readEvaluations(
  runId: string,
  from: Place | null,
  signal: AbortSignal,
): Promise<Evaluation[]> {
  let query = supabase().from("evaluations").select(COLUMNS).eq("training_run_id", runId).is("rewound_at", null);
  // Those of one batch were made at the same time.
  if (from) query = query.or(after("created_at", from, "ascending"));
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  );
}

export function nextEvaluationPage(page: Evaluation[]): Place | null {
  return placeAfter(page, PAGE, (evaluation) => evaluation.created_at);
}

export interface Baseline {
  evaluation: Evaluation;
  isPinned: boolean;
}

/** What the run is measured against: what was pinned, else its own latest baseline, else that of its environment. */
export async function readBaseline(run: Run, signal: AbortSignal): Promise<Baseline | null> {
  const evaluations = () => supabase().from("evaluations").select(COLUMNS);
  const first = async (query: ReturnType<typeof evaluations>) =>
    (await answered(query.order("created_at", { ascending: false }).limit(1).abortSignal(signal)))[0];
  if (run.baseline_id) {
    const pinned = await first(evaluations().eq("id", run.baseline_id));
    if (pinned) return { evaluation: pinned, isPinned: true };
  }
  const baselines = () => evaluations().eq("kind", "baseline").is("rewound_at", null);
  const own = await first(baselines().eq("training_run_id", run.id));
  const found = own ?? (run.environment ? await first(baselines().eq("environment", run.environment)) : undefined);
  return found ? { evaluation: found, isPinned: false } : null;
}

export async function pinBaseline(runId: string, evaluationId: string | null): Promise<void> {
  await changeRun(runId, { baseline_id: evaluationId });
}

export type Comparison = Results["compare_evaluations"];
export type ComparedTask = Comparison["tasks"][number];

export function compareEvaluations(evaluationId: string, baselineId: string, signal: AbortSignal): Promise<Comparison> {
  return rpc("compare_evaluations", { evaluation_id: evaluationId, baseline_id: baselineId }, signal);
}
