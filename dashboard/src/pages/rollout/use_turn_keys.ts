/** Keys that go from turn to turn. */
import type { Outline } from "@/api/rollout.ts";
import { type Keys, useKeys } from "./keys.tsx";
import { indexOf } from "./use_current_turn.ts";

export const TURN_KEYS: readonly (readonly [readonly string[], string])[] = [
  [["j", "k"], "next, previous turn"],
  [["g", "G"], "first, last turn"],
  [["e", "E"], "next, previous turn in which a tool failed"],
  [["r", "R"], "next, previous turn with a reward"],
  [["/"], "search in this rollout"],
  [["n", "N"], "next, previous match; in the search box Enter and Shift+Enter"],
  [["?"], "this help"],
];

interface Place {
  /** The turn that is chosen, which may be out of sight. */
  current: number | null;
  /** Indexes of those in view. */
  first: number;
  last: number;
}

/** The index that keys go on from: the chosen turn while it is in sight, else the first that is. */
function startOf(outline: Outline, { current, first, last }: Place): number {
  const index = current === null ? -1 : indexOf(outline, current);
  if (index >= first && index <= last) return index;
  return current === null && first === 0 ? -1 : first;
}

export function useTurnKeys(outline: Outline, place: Place, select: (step: number) => void, others: Keys) {
  const go = (index: number) => {
    const step = outline.step_numbers[Math.max(0, Math.min(outline.turns - 1, index))];
    if (step !== undefined) select(step);
  };
  const start = () => startOf(outline, place);
  const seek = (by: number, has: (index: number) => boolean) => {
    for (let index = start() + by; index >= 0 && index < outline.turns; index += by) if (has(index)) return go(index);
  };
  const hasFailed = (index: number) => outline.tool_errors[index]! > 0;
  const hasReward = (index: number) => Number(outline.rewards[index] ?? 0) !== 0;
  useKeys({
    j: () => go(start() + 1),
    k: () => go(start() - 1),
    g: () => go(0),
    G: () => go(outline.turns - 1),
    e: () => seek(1, hasFailed),
    E: () => seek(-1, hasFailed),
    r: () => seek(1, hasReward),
    R: () => seek(-1, hasReward),
    ...others,
  });
  return go;
}
