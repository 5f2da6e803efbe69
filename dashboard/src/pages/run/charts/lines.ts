/** From series as the server sends them to lines of a chart. */
import type { Series } from "@/api/metrics.ts";
import type { Line } from "@/components/chart/chart.tsx";
import type { Double } from "@/view/format.ts";

export type XAxis = "step" | "elapsed" | "time";

export interface ChartedRun {
  id: string;
  name: string;
  color: string;
  /** Where elapsed time begins. */
  startedAt?: string | null;
}

export interface Shown {
  run: ChartedRun;
  series: Series;
}

interface Look {
  axis: XAxis;
  /** 0 is none, 0.99 very much. */
  smoothing: number;
  isLog: boolean;
}

export interface Drawn {
  lines: Line[];
  /** Points that are no number, by what they are: { NaN: 3 }. */
  strange: Record<string, number>;
  /** Points that a logarithmic scale cannot show. */
  notPositive: number;
}

export function draw(shown: Shown[], { axis, smoothing, isLog }: Look): Drawn {
  const strange: Record<string, number> = {};
  let notPositive = 0;
  const lines = shown.flatMap(({ run, series }) => {
    const x = xOf(series, axis, run.startedAt);
    const marks: number[] = [];
    const raw = series.values.map((value, place) => {
      const finite = finiteOf(value);
      if (finite === null) {
        strange[String(value)] = (strange[String(value)] ?? 0) + 1;
        marks.push(x[place]!);
      }
      return finite;
    });
    const positive = (values: (number | null)[]) =>
      isLog ? values.map((value) => (value !== null && value > 0 ? value : null)) : values;
    if (isLog) notPositive += raw.filter((value) => value !== null && value <= 0).length;
    const line = { label: run.name, color: run.color, x, gaps: true };
    if (!smoothing) return [{ ...line, y: positive(raw), marks }];
    return [
      { ...line, y: positive(raw), faint: true },
      { ...line, y: positive(smoothed(raw, smoothing)), marks },
    ];
  });
  return { lines, strange, notPositive };
}

function finiteOf(value: Double): number | null {
  const given = Number(value);
  return value !== null && Number.isFinite(given) ? given : null;
}

export function xOf({ steps, times }: Series, axis: XAxis, startedAt?: string | null): number[] {
  if (axis === "step") return steps;
  const seconds = times.map((time) => Date.parse(time) / 1000);
  const start = axis === "elapsed" ? (startedAt ? Date.parse(startedAt) / 1000 : seconds[0] ?? 0) : 0;
  // A chart needs its x in order; processes that log the same metric may not have been.
  let last = -Infinity;
  return seconds.map((second) => (last = Math.max(last, second - start)));
}

/** An exponential average whose beginning does not lean towards zero. Gaps stay gaps. */
export function smoothed(values: (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let scale = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    scale = weight * scale + (1 - weight);
    return sum / scale;
  });
}

/** The step of the point that is nearest to a place on the axis. */
export function stepAt(shown: Shown[], axis: XAxis, x: number): number | null {
  let nearest: number | null = null;
  let distance = Infinity;
  for (const { run, series } of shown) {
    xOf(series, axis, run.startedAt).forEach((place, index) => {
      if (Math.abs(place - x) >= distance) return;
      distance = Math.abs(place - x);
      nearest = series.steps[index]!;
    });
  }
  return nearest;
}

/** The steps that lie in a stretch of time, one more on each side. */
export function stepsWithin(
  series: Series,
  axis: XAxis,
  startedAt: string | null | undefined,
  from: number,
  to: number,
) {
  const x = xOf(series, axis, startedAt);
  const first = x.findIndex((place) => place >= from);
  const after = x.findIndex((place) => place > to);
  return {
    fromStep: first < 0 ? series.steps.at(-1)! : series.steps[Math.max(0, first - 1)]!,
    toStep: after < 0 ? null : series.steps[after]!,
  };
}

export function toCsv(shown: Shown[], name: string): string {
  const quoted = (text: string) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = shown.flatMap(({ run, series }) =>
    series.steps.map((step, place) =>
      [quoted(run.name), quoted(name), step, series.values[place], series.times[place]].join(",")
    )
  );
  return ["run,metric,step,value,time", ...rows].join("\n") + "\n";
}
