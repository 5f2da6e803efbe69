/** How training comes along: success and rewards over its steps. */
import { Button, Code, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useNavigate } from "react-router";
import { type ProgressBucket, readProgress, type Run, type RunProgress } from "@/api/run.ts";
import { type Band, Chart, type Line, type Range } from "@/components/chart/chart.tsx";
import { Section } from "@/components/page.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { SERIES } from "@/theme.ts";
import { number, percent, share } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import classes from "./page.module.css";

const BUCKETS = 200;

export function ProgressTab({ run }: { run: Run }) {
  const query = useLive(run.id, ["run progress", run.id], (signal) => readProgress(run.id, BUCKETS, signal));
  return (
    <Found query={query} what="Reading the progress">
      {(progress) =>
        progress.buckets.length ? <Charts run={run} progress={progress} /> : <Nothing progress={progress} />}
    </Found>
  );
}

function Nothing({ progress }: { progress: RunProgress }) {
  return progress.without_step
    ? (
      <Empty title="The rollouts say no step">
        {number(progress.without_step)} rollouts were recorded without one. Record them within <Code>run.step(n)</Code>.
      </Empty>
    )
    : (
      <Empty title="No training rollouts yet">
        Record them within a step, and they show here:{" "}
        <Code>with run.step(n) as step, step.group() as group, group.rollout() as rollout: …</Code>
      </Empty>
    );
}

interface Drawn {
  title: string;
  help: string;
  lines: (buckets: ProgressBucket[], x: number[]) => Line[];
  bands?: Band[];
  isShare?: boolean;
}

function line(label: string, color: string, x: number[], y: (number | null)[], more: Partial<Line> = {}): Line {
  return { label, color, x, y, ...more };
}

const [BLUE, ORANGE, GREEN, VIOLET, RED] = SERIES as [string, string, string, string, string];

const MAIN: Drawn[] = [
  {
    title: "Success rate",
    help: "Share of finished rollouts that were solved.",
    isShare: true,
    lines: (buckets, x) => [line("success rate", GREEN, x, buckets.map((one) => share(one.solved, one.completed)))],
  },
  {
    title: "Reward distribution",
    help: "Half of the rewards lie in the darker band, eight of ten in the lighter one.",
    // Bands lie between lines by their places.
    bands: [{ upper: 0, lower: 1, fill: `${BLUE}26` }, { upper: 2, lower: 3, fill: `${BLUE}40` }],
    lines: (buckets, x) => [
      line("p90", BLUE, x, buckets.map((one) => one.reward_p90), { width: 0.5 }),
      line("p10", BLUE, x, buckets.map((one) => one.reward_p10), { width: 0.5 }),
      line("p75", BLUE, x, buckets.map((one) => one.reward_p75), { width: 0.5 }),
      line("p25", BLUE, x, buckets.map((one) => one.reward_p25), { width: 0.5 }),
      line("median", BLUE, x, buckets.map((one) => one.reward_p50), { width: 2 }),
      line("mean", ORANGE, x, buckets.map((one) => one.reward_mean), { dash: [6, 4] }),
    ],
  },
];

const MORE: Drawn[] = [
  {
    title: "Groups without reward variance",
    help: "Share of groups in which all rewards are equal: they teach nothing.",
    isShare: true,
    lines: (buckets, x) => [line("no variance", VIOLET, x, buckets.map((one) => share(one.flat_groups, one.groups)))],
  },
  {
    title: "Truncated and errors",
    help: "Share of finished rollouts that were cut off, and that ended with an error.",
    isShare: true,
    lines: (buckets, x) => [
      line("truncated", ORANGE, x, buckets.map((one) => share(one.truncated, one.completed))),
      line("errors", RED, x, buckets.map((one) => share(one.errors, one.completed))),
    ],
  },
  {
    title: "Mean turns",
    help: "Turns of a finished rollout.",
    lines: (buckets, x) => [line("turns", BLUE, x, buckets.map((one) => one.mean_turns))],
  },
];

function Charts({ run, progress: { buckets, without_step } }: { run: Run; progress: RunProgress }) {
  const navigate = useNavigate();
  // The zoom of the metrics, where those lie over steps too.
  const [view, change] = useView({ axis: "step", from: null as string | null, to: null as string | null });
  const zoom = useMemo<Range | null>(
    () => view.axis === "step" && view.from && view.to ? [Number(view.from), Number(view.to)] : null,
    [view.axis, view.from, view.to],
  );
  const onZoom = (range: Range | null) =>
    change({ axis: "step", from: range && range[0].toFixed(2), to: range && range[1].toFixed(2) });
  const x = useMemo(() => buckets.map((one) => (one.from_step + one.to_step) / 2), [buckets]);
  const open = (place: number) => {
    const bucket = buckets.find((one) => (one.from_step + one.to_step) / 2 === place);
    if (!bucket) return;
    const { from_step, to_step } = bucket;
    void navigate(
      from_step === to_step
        ? `/runs/${run.id}/steps/${from_step}`
        : `/rollouts?run=${run.id}&step_from=${from_step}&step_to=${to_step}`,
    );
  };
  const width = buckets[0]!.to_step - buckets[0]!.from_step + 1;
  const shown = (drawn: Drawn, height: number) => (
    <OneChart key={drawn.title} drawn={drawn} {...{ buckets, x, zoom, onZoom, height }} onPick={open} />
  );
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">
        {width === 1
          ? "One point a step; a click opens it."
          : `One point for ${number(width)} steps; a click opens their rollouts.`}
        {without_step > 0 && ` ${number(without_step)} rollouts without a step are not shown.`}{" "}
        {zoom && <Button size="compact-xs" variant="default" onClick={() => onZoom(null)}>Reset zoom</Button>}
      </Text>
      <div className={classes.twin}>{MAIN.map((drawn) => shown(drawn, 260))}</div>
      <div className={classes.twin}>{MORE.map((drawn) => shown(drawn, 180))}</div>
    </Stack>
  );
}

function OneChart({ drawn, buckets, x, zoom, onZoom, onPick, height }: {
  drawn: Drawn;
  buckets: ProgressBucket[];
  x: number[];
  zoom: Range | null;
  onZoom: (range: Range | null) => void;
  onPick: (x: number) => void;
  height: number;
}) {
  const lines = useMemo(() => drawn.lines(buckets, x), [drawn, buckets, x]);
  return (
    <Section title={drawn.title}>
      <Chart
        title={drawn.title}
        lines={lines}
        bands={drawn.bands}
        height={height}
        yRange={drawn.isShare ? [0, 1] : undefined}
        formatY={drawn.isShare ? (value) => percent(value, 0) : undefined}
        zoom={zoom}
        onZoom={onZoom}
        onPick={onPick}
        cursorGroup="progress"
      />
      <Text size="xs" c="dimmed">{drawn.help}</Text>
    </Section>
  );
}
