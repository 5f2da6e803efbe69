/** Reads the series of a chart, at the resolution and in the stretch that is looked at. */
import { useRef } from "react";
import { type Extent, metricSeries, type Series } from "@/api/metrics.ts";
import type { Range } from "@/components/chart/chart.tsx";
import { useLiveMany } from "@/live/query.ts";
import { type ChartedRun, type Shown, stepsWithin, type XAxis } from "./lines.ts";
import { useSame } from "./same.ts";

interface Asked {
  runs: ChartedRun[];
  name: string;
  axis: XAxis;
  zoom: Range | null;
  maxPoints: number;
}

interface Found {
  shown: Shown[];
  error: Error | null;
  isLoading: boolean;
}

export function useSeries({ runs, name, axis, zoom, maxPoints }: Asked): Found {
  const answers = useLiveMany(runs.map((run) => ({
    subject: run.id,
    key: ["series", run.id, name, zoom && [axis, ...zoom], maxPoints],
    read: () => read(run, name, axis, zoom, maxPoints),
  })));
  // While another stretch is read, the last one stays: a chart that vanishes for a moment flickers.
  const last = useRef(new Map<string, Series | null>());
  const shown = runs.flatMap((run, place) => {
    const series = answers[place]!.data ?? last.current.get(`${run.id} ${name}`) ?? null;
    last.current.set(`${run.id} ${name}`, series);
    return series ? [{ run, series }] : [];
  });
  return {
    shown: useSame(shown, isSame),
    error: answers.find((answer) => answer.error)?.error ?? null,
    isLoading: answers.some((answer) => answer.isPending),
  };
}

function isSame(a: Shown, b: Shown): boolean {
  return a.series === b.series && a.run.name === b.run.name && a.run.color === b.run.color &&
    a.run.startedAt === b.run.startedAt && a.run.id === b.run.id;
}

async function read(run: ChartedRun, name: string, axis: XAxis, zoom: Range | null, maxPoints: number) {
  const whole: Extent = { maxPoints, fromStep: null, toStep: null };
  if (!zoom) return await metricSeries(run.id, name, whole);
  if (axis === "step") {
    // A little more than is seen, so that lines go on at the edges.
    const margin = Math.ceil((zoom[1] - zoom[0]) * 0.02) + 1;
    return await metricSeries(run.id, name, {
      maxPoints,
      fromStep: Math.max(0, Math.floor(zoom[0]) - margin),
      toStep: Math.ceil(zoom[1]) + margin,
    });
  }
  // The server knows stretches of steps only: the whole series says which steps lie in this stretch of time.
  const overview = await metricSeries(run.id, name, whole);
  if (!overview) return null;
  return await metricSeries(run.id, name, {
    maxPoints,
    ...stepsWithin(overview, axis, run.startedAt, zoom[0], zoom[1]),
  });
}
