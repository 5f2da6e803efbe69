/** Steps of training, their groups, and the rollouts of a group next to each other. */
import { answered, rpc, supabase } from "@/supabase.ts";
import type { Row } from "@/database.ts";
import type { Double } from "@/view/format.ts";
import type { Results } from "./contract.ts";
import type { FoundRollout } from "./rollouts.ts";

export type Step = Row<"training_steps">;

export async function stepOf(runId: string, step: number, signal: AbortSignal): Promise<Step | null> {
  const found = await answered(
    supabase().from("training_steps").select("*").eq("training_run_id", runId).eq("step", step).is("rewound_at", null)
      .limit(1).abortSignal(signal),
  );
  return found[0] ?? null;
}

export interface Neighbours {
  previous: number | null;
  next: number | null;
}

/** The nearest steps on both sides, by what is recorded of them or in them. */
export async function neighboursOf(runId: string, step: number, signal: AbortSignal): Promise<Neighbours> {
  const nearest = async (table: "training_steps" | "rollouts", isNext: boolean) => {
    const steps = supabase().from(table).select("step").eq("training_run_id", runId).is("rewound_at", null);
    const beyond = isNext ? steps.gt("step", step) : steps.lt("step", step);
    const found = await answered(beyond.order("step", { ascending: isNext }).limit(1).abortSignal(signal));
    return found.flatMap((row) => row.step === null ? [] : [row.step]);
  };
  const [before, loose, after, looseAfter] = await Promise.all([
    nearest("training_steps", false),
    nearest("rollouts", false),
    nearest("training_steps", true),
    nearest("rollouts", true),
  ]);
  return {
    previous: [...before, ...loose].sort((a, b) => b - a)[0] ?? null,
    next: [...after, ...looseAfter].sort((a, b) => a - b)[0] ?? null,
  };
}

const GROUP =
  "id, number, task_description, rollout_count, completed_count, success_count, reward_count, reward_mean, reward_std";
export type StepGroup = Pick<
  Row<"rollout_groups">,
  | "id"
  | "number"
  | "task_description"
  | "rollout_count"
  | "completed_count"
  | "success_count"
  | "reward_count"
  | "reward_mean"
  | "reward_std"
>;

export const GROUPS_PAGE = 50;
export const GROUP_SORTS = ["number", "mean_high", "mean_low", "std_high", "std_low"] as const;
export type GroupSort = (typeof GROUP_SORTS)[number];
export type GroupKind = "all" | "flat" | "mixed";

export interface GroupsPage {
  groups: StepGroup[];
  count: number;
}

export async function groupsOfStep(
  stepId: string,
  { page, sort, only }: { page: number; sort: GroupSort; only: GroupKind },
  signal: AbortSignal,
): Promise<GroupsPage> {
  let request = supabase().from("rollout_groups").select(GROUP, { count: "exact" }).eq("training_step_id", stepId);
  if (only === "flat") request = request.gte("reward_count", 2).eq("reward_std", 0);
  if (only === "mixed") request = request.gt("reward_std", 0);
  if (sort !== "number") {
    const column = sort.startsWith("mean") ? "reward_mean" : "reward_std";
    request = request.order(column, { ascending: sort.endsWith("low"), nullsFirst: false });
  }
  const from = (page - 1) * GROUPS_PAGE;
  const answer = await request.order("number").range(from, from + GROUPS_PAGE - 1).abortSignal(signal);
  // A page beyond the last one is empty, no error.
  if (answer.error?.code === "PGRST103") return { groups: [], count: 0 };
  return { groups: await answered(Promise.resolve(answer)), count: answer.count ?? 0 };
}

export function isFlat(group: { reward_count?: number; reward_std: Double | null }): boolean {
  return group.reward_std === 0 && (group.reward_count ?? 2) >= 2;
}

export interface GroupReward {
  id: string;
  group_id: string | null;
  status: string;
  total_reward: Double | null;
}

/** The API answers with so many rows at most. */
const MOST_ROWS = 1_000;

/** The rewards of all rollouts of these groups, in as many calls as their number needs. */
export async function rewardsOf(groups: StepGroup[], signal: AbortSignal): Promise<Map<string, GroupReward[]>> {
  const answers = await Promise.all(
    portions(groups).map((ids) =>
      answered(
        supabase().from("rollouts").select("id, group_id, status, total_reward").in("group_id", ids)
          .is("rewound_at", null).order("group_id").order("id").limit(MOST_ROWS).abortSignal(signal),
      )
    ),
  );
  const rewards = new Map<string, GroupReward[]>(groups.map((group) => [group.id, []]));
  for (const row of answers.flat()) rewards.get(row.group_id!)?.push(row);
  return rewards;
}

function portions(groups: StepGroup[]): string[][] {
  const made: string[][] = [];
  let room = 0;
  for (const group of groups) {
    if (room < group.rollout_count || made.length === 0) {
      made.push([]);
      room = MOST_ROWS;
    }
    made.at(-1)!.push(group.id);
    room -= group.rollout_count;
  }
  return made;
}

export const LOOSE_PAGE = 50;
const LOOSE =
  "id, training_run_id, group_id, task_id, task_description, environment, source, status, total_reward, step_count, step, episode_number, agent, model, policy_version, error, started_at, finished_at, created_at, rewound_at";
export type LooseRollout = Omit<FoundRollout, "run_name" | "overridden" | "match">;

/** Rollouts made at a step outside of any group, the oldest first. */
export async function looseRollouts(
  runId: string,
  step: number,
  after: string | null,
  signal: AbortSignal,
): Promise<LooseRollout[]> {
  let request = supabase().from("rollouts").select(LOOSE).eq("training_run_id", runId).eq("step", step)
    .is("rewound_at", null).is("group_id", null);
  if (after) request = request.gt("id", after);
  return await answered(request.order("id").limit(LOOSE_PAGE).abortSignal(signal));
}

export type GroupComparison = Results["group_comparison"];
export type ComparedRollout = GroupComparison["rollouts"][number];

export function compareGroup(groupId: string, signal: AbortSignal): Promise<GroupComparison> {
  return rpc("group_comparison", { group_id: groupId }, signal);
}

/** Whether any rollout was made at a step, in a group or not. */
export async function hasRollouts(runId: string, step: number, signal: AbortSignal): Promise<boolean> {
  const found = await answered(
    supabase().from("rollouts").select("id").eq("training_run_id", runId).eq("step", step).is("rewound_at", null)
      .limit(1).abortSignal(signal),
  );
  return found.length > 0;
}

export type StepEvaluation = Pick<
  Row<"evaluations">,
  "id" | "name" | "kind" | "model" | "status" | "success_rate" | "mean_reward"
>;

export async function evaluationsAt(runId: string, step: number, signal: AbortSignal): Promise<StepEvaluation[]> {
  return await answered(
    supabase().from("evaluations").select("id, name, kind, model, status, success_rate, mean_reward")
      .eq("training_run_id", runId).eq("step", step).is("rewound_at", null).order("created_at").limit(20)
      .abortSignal(signal),
  );
}
