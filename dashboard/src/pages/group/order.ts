/** Rollouts of a group in the order someone wants, and the ways they went. */
import type { ComparedRollout } from "@/api/groups.ts";

export const ORDERS = { recorded: "As recorded", reward_high: "Highest reward", reward_low: "Lowest reward" };
export type Order = keyof typeof ORDERS;

/** The reward, if it is one that can be compared. */
export function finite(value: ComparedRollout["total_reward"]): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** In that order; who has no reward comes last. */
export function ordered(rollouts: ComparedRollout[], order: Order): ComparedRollout[] {
  if (order === "recorded") return rollouts;
  const sign = order === "reward_high" ? -1 : 1;
  return [...rollouts].sort((a, b) => {
    const [left, right] = [finite(a.total_reward), finite(b.total_reward)];
    if (left === null || right === null) return (left === null ? 1 : 0) - (right === null ? 1 : 0);
    return sign * (left - right);
  });
}

/** Rollouts that saw and did the same at the turn where the group parts. */
export interface Way {
  key: string;
  observation: string | null;
  action: string | null;
  thought: string | null;
  /** They had ended before. */
  isEnd: boolean;
  rollouts: ComparedRollout[];
  meanReward: number | null;
}

/** The ways of a group, the most travelled first. */
export function waysOf(rollouts: ComparedRollout[]): Way[] {
  const ways = new Map<string, Way>();
  for (const rollout of rollouts) {
    const { observation = null, action = null, thought = null } = rollout.at_parting ?? {};
    const key = rollout.at_parting ? JSON.stringify([observation, action]) : "end";
    const way = ways.get(key) ??
      { key, observation, action, thought, isEnd: !rollout.at_parting, rollouts: [], meanReward: null };
    way.rollouts.push(rollout);
    ways.set(key, way);
  }
  for (const way of ways.values()) way.meanReward = mean(way.rollouts.map((rollout) => finite(rollout.total_reward)));
  return [...ways.values()].sort((a, b) => b.rollouts.length - a.rollouts.length);
}

function mean(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
