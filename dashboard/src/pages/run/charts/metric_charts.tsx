/** All metrics of one or several runs. How they are looked at is in the URL: metric, smooth, log, axis, from, to, closed. */
import { Code } from "@mantine/core";
import { type ReactNode, useCallback, useMemo } from "react";
import { useNavigate } from "react-router";
import { metricNames } from "@/api/metrics.ts";
import { Empty, Failed, Loading } from "@/components/states.tsx";
import { useLiveMany } from "@/live/query.ts";
import { NothingYet } from "../nothing_yet.tsx";
import { ChartList } from "./chart_list.tsx";
import { nameTest, sectionsOf } from "./groups.ts";
import type { ChartedRun } from "./lines.ts";
import { useSame } from "./same.ts";
import { Toolbar } from "./toolbar.tsx";
import { useChartView } from "./view.ts";

export type { ChartedRun };

interface Props {
  runs: ChartedRun[];
  /** Where the runs after the first can be taken away. */
  onRemove?: (runId: string) => void;
  /** More controls, beside those of the charts. */
  children?: ReactNode;
}

export function MetricCharts({ runs, onRemove, children }: Props) {
  const [view, change] = useChartView();
  const navigate = useNavigate();
  const answers = useLiveMany(runs.map((run) => ({
    subject: run.id,
    key: ["metric names", run.id],
    read: (signal) => metricNames(run.id, signal),
  })));
  const found = useSame(answers.map((answer) => answer.data));
  const names = useMemo(() => [...new Set(found.flatMap((some) => some ?? []))], [found]);
  const listed = useMemo(() => names.filter(nameTest(view.filter) ?? (() => true)), [names, view.filter]);
  const sections = useMemo(() => sectionsOf(listed), [listed]);
  const single = runs.length === 1 ? runs[0]!.id : null;
  const open = useCallback((step: number) => void navigate(`/runs/${single}/steps/${step}`), [navigate, single]);
  const failed = answers.find((answer) => answer.error && !answer.data);

  if (failed?.error) return <Failed error={failed.error} retry={() => void failed.refetch()} />;
  if (!names.length && answers.some((answer) => answer.isPending)) return <Loading what="Reading the metrics" />;
  return (
    <>
      <Toolbar {...{ view, change, runs, onRemove }} listed={listed.length} total={names.length}>{children}</Toolbar>
      {!names.length && runs.length > 0 && (
        <NothingYet runId={runs[0]!.id} title="No metrics yet" trained="They come as training goes on.">
          Log some from training, and they appear here: <Code>run.log({`{"train/loss": loss}`}, step=step)</Code>
        </NothingYet>
      )}
      {names.length > 0 && !listed.length && (
        <Empty title="No metric has such a name">Change or clear the filter.</Empty>
      )}
      <ChartList
        sections={sections}
        runs={runs}
        view={view}
        change={change}
        onPick={single ? open : undefined}
      />
    </>
  );
}
