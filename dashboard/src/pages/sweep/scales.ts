/** The axes of parallel coordinates: one for each parameter, and one for what came of it. */
import { number, UNKNOWN } from "@/view/format.ts";

export interface Point {
  parameters: Record<string, unknown>;
  value: number | null;
}

export interface Tick {
  at: number;
  label: string;
}

/** From 0, the foot of an axis, to 1, its head. */
export interface Axis {
  name: string;
  label: string;
  kind: "linear" | "log" | "category";
  /** Null where a trial has no such value, or one that cannot be placed. */
  place: (value: unknown) => number | null;
  /** What is at a place, in words. */
  words: (place: number) => string;
  ticks: Tick[];
}

/** The name of the axis of what came of a trial; no parameter has an empty path. */
export const RESULT = "";
const MOST_CATEGORIES = 24;
const TICKS = 5;
const MOST_MARKED = 8;

/** The axes for these trials; `space` says what the values of a parameter can be. */
export function axesOf(points: Point[], space: Record<string, unknown>, metric: string): Axis[] {
  const names = [...new Set([...Object.keys(space), ...points.flatMap(({ parameters }) => Object.keys(parameters))])];
  const axes = names.map((name) => {
    const values = points.map(({ parameters }) => parameters[name]).filter((value) => value !== undefined);
    return parameterAxis(name, values, space[name]);
  });
  const results = points.flatMap(({ value }) => value === null || !Number.isFinite(value) ? [] : [value]);
  return [...axes, { ...numberAxis(RESULT, extent(results), false), label: metric.split("/").at(-1)! }];
}

interface Described {
  min?: unknown;
  max?: unknown;
  log?: unknown;
  values?: unknown;
}

function parameterAxis(name: string, values: unknown[], description: unknown): Axis {
  const given = (typeof description === "object" && description !== null ? description : {}) as Described;
  if (typeof given.min === "number" && typeof given.max === "number") {
    return numberAxis(name, extent([given.min, given.max, ...numbersOf(values)]), given.log === true);
  }
  const choices = [...(Array.isArray(given.values) ? given.values : []), ...values];
  if (choices.length > 0 && choices.every((value) => typeof value === "number" && Number.isFinite(value))) {
    const [low, high] = extent(choices as number[]);
    const axis = numberAxis(name, [low, high], low > 0 && high / low >= 100);
    const few = [...new Set(choices as number[])];
    // Of few values each is marked, where it is.
    return few.length > MOST_MARKED
      ? axis
      : { ...axis, ticks: few.map((value) => ({ at: axis.place(value)!, label: number(value, 3) })) };
  }
  return categoryAxis(name, choices);
}

function numbersOf(values: unknown[]): number[] {
  return values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
}

/** The lowest and the highest; where there is none, or they are the same, some room. */
function extent(values: number[]): [number, number] {
  if (values.length === 0) return [0, 1];
  const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  if (low < high) return [low, high];
  return low === 0 ? [-0.5, 0.5] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
}

function numberAxis(name: string, [low, high]: [number, number], wantsLog: boolean): Axis {
  const isLog = wantsLog && low > 0;
  const [from, to] = isLog ? [Math.log10(low), Math.log10(high)] : [low, high];
  const back = (at: number) => {
    const value = from + at * (to - from);
    return isLog ? 10 ** value : value;
  };
  return {
    name,
    label: shortName(name),
    kind: isLog ? "log" : "linear",
    place: (value) => {
      if (typeof value !== "number" || !Number.isFinite(value) || (isLog && value <= 0)) return null;
      return ((isLog ? Math.log10(value) : value) - from) / (to - from);
    },
    words: (at) => number(back(at), 3),
    ticks: Array.from({ length: TICKS }, (_, place) => {
      const at = place / (TICKS - 1);
      return { at, label: number(back(at), 3) };
    }),
  };
}

function categoryAxis(name: string, values: unknown[]): Axis {
  const words = [...new Set(values.map(wordOf))];
  const at = (place: number) => words.length === 1 ? 0.5 : place / (words.length - 1);
  const places = new Map(words.map((word, place) => [word, at(place)]));
  const step = Math.ceil(words.length / MOST_CATEGORIES);
  return {
    name,
    label: shortName(name),
    kind: "category",
    place: (value) => value === undefined ? null : places.get(wordOf(value)) ?? null,
    words: (place) => words[Math.round(place * (words.length - 1))] ?? UNKNOWN,
    ticks: words.map((label, place) => ({ at: at(place), label })).filter((_, place) => place % step === 0),
  };
}

export function wordOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? UNKNOWN;
}

/** hyperparameters.learning_rate is known by its last part. */
export function shortName(path: string): string {
  return path.split(".").at(-1)!;
}

/** Stretches of axes by name, from 0 to 1. */
export type Brushes = Record<string, [from: number, to: number]>;

/** Where a trial crosses each axis. */
export function placesOf(axes: Axis[], { parameters, value }: Point): (number | null)[] {
  return axes.map((axis) => axis.place(axis.name === RESULT ? value : parameters[axis.name]));
}

const EDGE = 1e-9;

export function passes(axes: Axis[], places: (number | null)[], brushes: Brushes): boolean {
  return axes.every((axis, number) => {
    const brush = brushes[axis.name];
    const place = places[number] ?? null;
    return !brush || (place !== null && place >= brush[0] - EDGE && place <= brush[1] + EDGE);
  });
}

/** The trial whose line is nearest to a point between axes; null where none is near. x counts axes, y is from 0 to 1. */
export function nearestLine(lines: (number | null)[][], x: number, y: number, within: number): number | null {
  const left = Math.max(0, Math.floor(x));
  let [found, least]: [number | null, number] = [null, within];
  lines.forEach((places, number) => {
    const from = places[left] ?? null;
    const to = places[left + 1] ?? from;
    if (from === null || to === null) return;
    const distance = Math.abs(from + (to - from) * (x - left) - y);
    if (distance < least) [found, least] = [number, distance];
  });
  return found;
}

const COLORS = [[91, 107, 214], [42, 157, 143], [217, 98, 43]] as const;

/** A colour from cold to warm; grey where there is no value. */
export function colorAt(place: number | null): string {
  if (place === null) return "#8d969f";
  const scaled = Math.min(1, Math.max(0, place)) * (COLORS.length - 1);
  const below = Math.min(COLORS.length - 2, Math.floor(scaled));
  const mixed = COLORS[below]!.map((part, channel) =>
    Math.round(part + (COLORS[below + 1]![channel]! - part) * (scaled - below))
  );
  return `rgb(${mixed.join(" ")})`;
}
