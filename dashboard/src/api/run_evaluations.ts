/** Evaluations of a run, and how they compare with its baseline. */
import { answered, call, type Row, supabase } from "@/supabase.ts";
import type { Double } from "@/view/format.ts";
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

/** The evaluations made before a time, the latest first. */
export async function readEvaluations(
  runId: string,
  before: string | null,
  signal: AbortSignal,
): Promise<Evaluation[]> {
  let query = supabase().from("evaluations").select(COLUMNS).eq("training_run_id", runId).is("rewound_at", null);
  if (before) query = query.lt("created_at", before);
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  ) as Evaluation[];
}

export function nextEvaluationPage(page: Evaluation[]): string | null {
  return page.length < PAGE ? null : page.at(-1)!.created_at;
}

export interface Baseline {
  evaluation: Evaluation;
  isPinned: boolean;
}

/** What the run is measured against: what was pinned, else its own latest baseline, else that of its environment. */
export async function readBaseline(run: Run, signal: AbortSignal): Promise<Baseline | null> {
  const evaluations = () => supabase().from("evaluations").select(COLUMNS);
  const first = async (query: ReturnType<typeof evaluations>) =>
    (await answered(query.order("created_at", { ascending: false }).limit(1).abortSignal(signal)) as Evaluation[])[0];
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

export interface ComparedEvaluation {
  id: string;
  name: string | null;
  kind: string;
  step: number | null;
  model: string | null;
  status: string;
  success_rate: number | null;
  mean_reward: Double | null;
  mean_turns: number | null;
  created_at: string;
}

export interface ComparedTask {
  task_id: string | null;
  task: string | null;
  baseline_rate: number | null;
  rate: number | null;
  baseline_rollouts: number;
  rollouts: number;
  change: "solved" | "broken" | "same" | "new" | "missing";
}

export interface Comparison {
  evaluation: ComparedEvaluation;
  baseline: ComparedEvaluation;
  tasks: ComparedTask[];
  newly_solved: number;
  newly_broken: number;
}

export function compareEvaluations(evaluationId: string, baselineId: string, signal: AbortSignal): Promise<Comparison> {
  return call<Comparison>("compare_evaluations", { evaluation_id: evaluationId, baseline_id: baselineId }, signal);
}
