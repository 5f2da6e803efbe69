/** Metrics of runs: their names, and series thinned by the server. */
import { rpc } from "@/supabase.ts";
import type { Results } from "./contract.ts";

export type Series = Results["metric_series"][string];

export interface Extent {
  maxPoints: number;
  fromStep: number | null;
  toStep: number | null;
}

export function metricNames(runId: string, signal?: AbortSignal): Promise<string[]> {
  return rpc("metric_names", { training_run_id: runId }, signal);
}

/** Few enough that of long series the first are shown while the others are read. */
const MAX_NAMES = 8;
/** Long enough that all charts of a screen ask in one request, too short to notice. */
const GATHER_MS = 12;

interface Asked {
  name: string;
  resolve: (series: Series | null) => void;
  reject: (error: unknown) => void;
}

const waiting = new Map<string, Asked[]>();

/** The series of one metric, or null if it has no points there; asked for together with its neighbours. */
export function metricSeries(runId: string, name: string, extent: Extent): Promise<Series | null> {
  return new Promise((resolve, reject) => {
    const batch = JSON.stringify([runId, extent.maxPoints, extent.fromStep, extent.toStep]);
    const gathered = waiting.get(batch);
    if (gathered) return gathered.push({ name, resolve, reject });
    const asked = [{ name, resolve, reject }];
    waiting.set(batch, asked);
    setTimeout(() => {
      waiting.delete(batch);
      for (let at = 0; at < asked.length; at += MAX_NAMES) void send(runId, asked.slice(at, at + MAX_NAMES), extent);
    }, GATHER_MS);
  });
}

async function send(runId: string, asked: Asked[], { maxPoints, fromStep, toStep }: Extent): Promise<void> {
  try {
    const found = await rpc("metric_series", {
      training_run_id: runId,
      names: [...new Set(asked.map(({ name }) => name))],
      max_points: maxPoints,
      from_step: fromStep,
      to_step: toStep,
    });
    asked.forEach(({ name, resolve }) => resolve(found[name] ?? null));
  } catch (error) {
    asked.forEach(({ reject }) => reject(error));
  }
}
