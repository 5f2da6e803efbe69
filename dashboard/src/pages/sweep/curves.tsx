/** A metric of several runs as one curve with a band. */
import { Group, SegmentedControl, Select, Text } from "@mantine/core";
import { useMemo } from "react";
import { metricNames, metricSeries } from "@/api/metrics.ts";
import type { Trial } from "@/api/sweeps.ts";
import { Chart, type Line } from "@/components/chart/chart.tsx";
import { Loading } from "@/components/states.tsx";
import { useLive, useLiveMany } from "@/live/query.ts";
import { seriesColor } from "@/theme.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { useSame } from "../run/charts/same.ts";
import { bandOf, type Spread } from "./band.ts";

/** Each is a request: more would be a load, and no better band. */
export const MOST_CURVES = 50;
const MOST_LINES = 12;
const MAX_POINTS = 500;

export function Curves({ trials, metric }: { trials: Trial[]; metric: string }) {
  const runs = trials.flatMap(({ training_run_id }) => training_run_id ?? []).slice(0, MOST_CURVES);
  const [view, change] = useView({ metric: null as string | null, spread: "range" });
  const names = useLive(runs[0] ?? null, ["metric names", runs[0]], (signal) => metricNames(runs[0]!, signal), {
    enabled: runs.length > 0,
  }).data ?? [];
  const name = view.metric ?? metric;
  const spread: Spread = view.spread === "deviation" ? "deviation" : "range";
  const answers = useLiveMany(runs.map((id) => ({
    subject: id,
    key: ["metric series", id, name, MAX_POINTS],
    read: () => metricSeries(id, name, { maxPoints: MAX_POINTS, fromStep: null, toStep: null }),
  })));
  const series = useSame(answers.map(({ data }) => data));
  const lines = useMemo(() => linesOf(series.flatMap((each) => each ?? []), spread), [series, spread]);
  const withPoints = series.filter((each) => each).length;
  return (
    <>
      <Group gap="sm" mb="xs">
        <Select
          size="xs"
          w={260}
          aria-label="Metric"
          searchable
          allowDeselect={false}
          data={[...new Set([name, metric, ...names])]}
          value={name}
          onChange={(value) => change({ metric: value === metric ? null : value })}
        />
        <SegmentedControl
          size="xs"
          aria-label="What the band shows"
          data={[{ value: "range", label: "Lowest to highest" }, { value: "deviation", label: "± standard deviation" }]}
          value={spread}
          onChange={(value) => change({ spread: value })}
        />
      </Group>
      {answers.some(({ isPending }) => isPending) && withPoints === 0 ? <Loading what="Reading the metrics" /> : (
        <Chart
          title={`${name}, mean of ${withPoints} runs`}
          lines={lines}
          bands={lines.length >= 3 ? [{ upper: 2, lower: 1, fill: `${seriesColor(0)}33` }] : []}
          height={260}
        />
      )}
      <Text size="xs" c="dimmed" mt={4}>
        Mean of {number(withPoints)} {withPoints === 1 ? "run" : "runs"}{" "}
        at their common steps. Between the steps of a run its value is taken from the straight line between them; before
        its first and after its last step it does not count.
        {trials.length > runs.length &&
          ` Of ${number(trials.length)} trials the first ${runs.length} with a run are drawn.`}
      </Text>
    </>
  );
}

type Found = NonNullable<Awaited<ReturnType<typeof metricSeries>>>;

function linesOf(series: Found[], spread: Spread): Line[] {
  if (series.length === 0) return [];
  const band = bandOf(series, spread);
  const color = seriesColor(0);
  const edge = { x: band.steps, color, width: 0.6, faint: true };
  const each = series.length > MOST_LINES ? [] : series.map(({ steps, values }, place): Line => ({
    label: `run ${place + 1}`,
    x: steps,
    y: values.map((value) => Number.isFinite(Number(value)) ? Number(value) : null),
    color: seriesColor(place + 1),
    faint: true,
  }));
  return [
    { label: "mean", x: band.steps, y: band.mean, color, width: 2 },
    { ...edge, label: spread === "range" ? "lowest" : "mean − deviation", y: band.low },
    { ...edge, label: spread === "range" ? "highest" : "mean + deviation", y: band.high },
    ...each,
  ];
}
