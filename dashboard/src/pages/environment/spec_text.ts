/** Specs as texts that people edit. */
import type { Fields } from "./problems.ts";
import { asObject } from "./problems.ts";

/** JSON with cells and short lists of numbers on one line. */
export function specText(spec: unknown): string {
  return JSON.stringify(spec, null, 2).replace(
    /\[\s+(-?[\d.e+]+(?:,\s+-?[\d.e+]+){0,3})\s+\]/g,
    (_all, numbers: string) => `[${numbers.replace(/\s+/g, " ")}]`,
  );
}

/** The object that a text stands for, or why it is none. */
export function parseSpec(text: string): { spec: Fields | null; error: string | null } {
  try {
    const spec = asObject(JSON.parse(text || "{}"));
    return { spec, error: spec ? null : "must be a JSON object" };
  } catch (error) {
    return { spec: null, error: (error as Error).message };
  }
}

export const STARTS: Record<string, Fields> = {
  grid: {
    map: ["########", "#A.....#", "#.###..#", "#...#T.#", "#.o.#.G#", "########"],
    rewards: { step: -0.01, item: 0.5 },
    ends: { max_steps: 100 },
  },
  gymnasium: { id: "CartPole-v1", arguments: {}, wrappers: [] },
};
