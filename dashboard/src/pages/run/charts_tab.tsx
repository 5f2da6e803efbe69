import { useMemo } from "react";
import { hasMetrics } from "@/api/archives.ts";
import type { Run } from "@/api/run.ts";
import { readListedRun } from "@/api/runs.ts";
import { LoadFromArchive } from "@/components/archived.tsx";
import { Empty } from "@/components/states.tsx";
import { useLive, useLiveMany } from "@/live/query.ts";
import { seriesColor } from "@/theme.ts";
import { useView } from "@/view/url_state.ts";
import { type ChartedRun, MetricCharts } from "./charts/metric_charts.tsx";
import { useSame } from "./charts/same.ts";
import { RunSelect } from "./run_select.tsx";

const MOST_OTHERS = 9;

/** The metrics of the run, and of those it is compared with. */
export function ChartsTab({ run }: { run: Run }) {
  const [view, change] = useView({ with: [] as string[] });
  const others = useMemo(() => view.with.filter((id) => id !== run.id).slice(0, MOST_OTHERS), [view.with, run.id]);
  const answers = useLiveMany(others.map((id) => ({
    subject: id,
    key: ["listed run", id],
    read: (signal) => readListedRun(id, signal),
  })));
  const found = useSame(answers.map((answer) => answer.data));
  const points = useLive(run.id, ["has metrics", run.id], (signal) => hasMetrics(run.id, signal));
  const startedAt = run.started_at ?? run.created_at;
  const runs = useMemo(() => {
    const charted: ChartedRun[] = [{ id: run.id, name: run.name, color: seriesColor(0), startedAt }];
    others.forEach((id, place) => {
      const other = found[place];
      if (!other) return;
      const name = other.name === run.name ? `${other.name} (${other.id.slice(-4)})` : other.name;
      charted.push({ id, name, color: seriesColor(place + 1), startedAt: other.started_at ?? other.created_at });
    });
    return charted;
  }, [run.id, run.name, startedAt, others, found]);
  if (run.archive_status === "archived" && points.data === false) {
    return (
      <LoadFromArchive
        title="The metric points are in the archive"
        what={{ training_run_id: run.id }}
        onLoaded={() => void points.refetch()}
        nothing={<Empty title="No metrics were recorded">The run ended without any.</Empty>}
      >
        This run was archived: its figures are here, and its curves are loaded on request.
      </LoadFromArchive>
    );
  }
  return (
    <MetricCharts runs={runs} onRemove={(id) => change({ with: others.filter((other) => other !== id) })}>
      {others.length < MOST_OTHERS && (
        <RunSelect
          label="Compare with…"
          without={[run.id, ...others]}
          onChoose={(id) => change({ with: [...others, id] })}
        />
      )}
    </MetricCharts>
  );
}
