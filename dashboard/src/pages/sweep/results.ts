/** What the trials of a sweep came to. */
import type { Sweep, Trial } from "@/api/sweeps.ts";

type Result = Pick<Trial, "value" | "status">;

/** A double may be written as a word. */
export function valueOf({ value }: Pick<Trial, "value">): number | null {
  const found = value === null ? NaN : Number(value);
  return Number.isFinite(found) ? found : null;
}

/** The trial with the best value, of those that did not fail; null while none has one. */
export function bestOf<T extends Result>(trials: readonly T[], direction: Sweep["direction"]): T | null {
  const sign = direction === "maximize" ? 1 : -1;
  return trials.reduce<T | null>((best, trial) => {
    const value = valueOf(trial);
    if (value === null || trial.status === "failed") return best;
    return best === null || sign * value > sign * valueOf(best)! ? trial : best;
  }, null);
}
