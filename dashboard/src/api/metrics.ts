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

export type Ask = (runId: string, names: string[], extent: Extent) => Promise<Record<string, Series>>;

/** Reads series one by one that are asked for together. */
export class SeriesReader {
  readonly #waiting = new Map<string, Asked[]>();

  constructor(readonly ask: Ask) {}

  /** The series of one metric, or null if it has no points there. */
  read(runId: string, name: string, extent: Extent): Promise<Series | null> {
    return new Promise((resolve, reject) => {
      const batch = JSON.stringify([runId, extent.maxPoints, extent.fromStep, extent.toStep]);
      const gathered = this.#waiting.get(batch);
      if (gathered) return gathered.push({ name, resolve, reject });
      const asked = [{ name, resolve, reject }];
      this.#waiting.set(batch, asked);
      setTimeout(() => {
        this.#waiting.delete(batch);
        for (let at = 0; at < asked.length; at += MAX_NAMES) {
          void this.#send(runId, asked.slice(at, at + MAX_NAMES), extent);
        }
      }, GATHER_MS);
    });
  }

  async #send(runId: string, asked: Asked[], extent: Extent): Promise<void> {
    try {
      const found = await this.ask(runId, [...new Set(asked.map(({ name }) => name))], extent);
      // A metric may be called "constructor", which every object has.
      asked.forEach(({ name, resolve }) => resolve(Object.hasOwn(found, name) ? found[name]! : null));
    } catch (error) {
      asked.forEach(({ reject }) => reject(error));
    }
  }
}

const reader = new SeriesReader((runId, names, { maxPoints, fromStep, toStep }) =>
  rpc("metric_series", {
    training_run_id: runId,
    names,
    max_points: maxPoints,
    from_step: fromStep,
    to_step: toStep,
  })
);

/** The series of one metric, or null if it has no points there; asked for together with its neighbours. */
export function metricSeries(runId: string, name: string, extent: Extent): Promise<Series | null> {
  return reader.read(runId, name, extent);
}
