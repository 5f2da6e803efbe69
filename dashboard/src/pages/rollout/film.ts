/** Which turn a video shows at a time, and where in it a turn begins. */

export interface Film {
  /** The seconds at which turns begin, in order. */
  seconds: number[];
  /** The turns, in the same order. */
  steps: number[];
}

/** The clock of a video ends at microseconds, and rounds. */
const NEAR_SECONDS = 0.02;

/** The turns by when they begin; of those that begin together, by their numbers. */
export function filmOf({ step_numbers, seconds }: { step_numbers: number[]; seconds: number[] }): Film {
  const order = step_numbers.map((_step, index) => index)
    .sort((a, b) => seconds[a]! - seconds[b]! || step_numbers[a]! - step_numbers[b]!);
  return { seconds: order.map((index) => seconds[index]!), steps: order.map((index) => step_numbers[index]!) };
}

/** The turn that is shown at a time: the last that has begun; null before the first. */
export function turnAt({ seconds, steps }: Film, time: number): number | null {
  let [low, high] = [0, seconds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seconds[middle]! <= time + NEAR_SECONDS) low = middle + 1;
    else high = middle;
  }
  return steps[low - 1] ?? null;
}

export function secondsOf({ seconds, steps }: Film, step: number): number | null {
  return seconds[steps.indexOf(step)] ?? null;
}

export function isNear(time: number, other: number): boolean {
  return Math.abs(time - other) <= NEAR_SECONDS;
}

/** Seconds as a video shows them: 1:05, 1:02:03. */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}
