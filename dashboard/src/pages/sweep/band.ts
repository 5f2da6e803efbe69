/** Several runs of one configuration as one curve: their mean, and how far apart they are. */
import type { Double } from "@/view/format.ts";

export interface Curve {
  steps: ArrayLike<number>;
  values: ArrayLike<Double | null>;
}

export type Spread = "range" | "deviation";

export interface BandCurve {
  steps: number[];
  mean: number[];
  low: number[];
  high: number[];
  /** How many curves there are at each step. */
  counts: number[];
}

const MOST_STEPS = 400;

interface Points {
  steps: number[];
  values: number[];
}

/**
 * The band of these curves.
 *
 * At a step where a curve has no value, it counts with the value on the straight line between its neighbours; before its
 * first and after its last step it does not count at all.
 */
export function bandOf(curves: Curve[], spread: Spread, most = MOST_STEPS): BandCurve {
  const known = curves.map(pointsOf).filter(({ steps }) => steps.length > 0);
  const band: BandCurve = { steps: [], mean: [], low: [], high: [], counts: [] };
  const places = known.map(() => 0);
  for (const step of commonSteps(known, most)) {
    const values = known.flatMap((points, number) => valueAt(points, step, places, number) ?? []);
    if (values.length === 0) continue;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const [low, high] = spread === "range" ? [Math.min(...values), Math.max(...values)] : around(mean, values);
    band.steps.push(step);
    band.mean.push(mean);
    band.low.push(low);
    band.high.push(high);
    band.counts.push(values.length);
  }
  return band;
}

/** A standard deviation below and above, of a sample. */
function around(mean: number, values: number[]): [number, number] {
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const deviation = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0;
  return [mean - deviation, mean + deviation];
}

/** The points with a value that can be drawn. */
function pointsOf({ steps, values }: Curve): Points {
  const points: Points = { steps: [], values: [] };
  for (let place = 0; place < steps.length; place++) {
    const value = values[place] === null ? NaN : Number(values[place]);
    if (!Number.isFinite(value)) continue;
    points.steps.push(steps[place]!);
    points.values.push(value);
  }
  return points;
}

/** All steps of all curves; of too many, as many at equal distances. */
function commonSteps(curves: Points[], most: number): number[] {
  const all = [...new Set(curves.flatMap(({ steps }) => steps))].sort((a, b) => a - b);
  if (all.length <= most) return all;
  const [first, last] = [all[0]!, all.at(-1)!];
  return Array.from({ length: most }, (_, place) => first + (last - first) * place / (most - 1));
}

/** The value of a curve at a step that is not before the last one asked for. */
function valueAt({ steps, values }: Points, step: number, places: number[], number: number): number | null {
  if (step < steps[0]! || step > steps.at(-1)!) return null;
  let place = places[number]!;
  while (place + 1 < steps.length && steps[place + 1]! <= step) place++;
  places[number] = place;
  const [from, to] = [steps[place]!, steps[place + 1]];
  if (to === undefined || from === step) return values[place]!;
  return values[place]! + (values[place + 1]! - values[place]!) * (step - from) / (to - from);
}
