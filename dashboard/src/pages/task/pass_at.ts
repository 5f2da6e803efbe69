/** pass@k of agents and models, as lines of a chart. */
import type { TaskResults } from "@/api/tasks.ts";
import type { Line } from "@/components/chart/chart.tsx";
import { agentAndModel } from "@/pages/rollouts/agent_and_model.ts";
import { seriesColor } from "@/theme.ts";

/** More lines than this cannot be told apart. */
export const MOST_LINES = 8;

export function nameOf(found: { agent: string | null; model: string | null }): string {
  return agentAndModel(found) ?? "Recorded";
}

/** The k that any of them has, in order. */
export function ksOf(results: TaskResults): number[] {
  const all = results.flatMap(({ pass_at }) => Object.keys(pass_at ?? {}).map(Number));
  return [...new Set(all)].sort((a, b) => a - b);
}

/** A line for each that has at least two points. */
export function linesOf(results: TaskResults): Line[] {
  return results.filter(({ pass_at }) => Object.keys(pass_at ?? {}).length > 1).slice(0, MOST_LINES).map(
    (found, index) => {
      const points = Object.entries(found.pass_at!).map(([k, value]) => [Number(k), value] as const)
        .sort(([a], [b]) => a - b);
      return {
        label: nameOf(found),
        x: points.map(([k]) => k),
        y: points.map(([, value]) => value),
        color: seriesColor(index),
        points: true,
      };
    },
  );
}
