import { CloseButton, Group, Text } from "@mantine/core";
import { useMemo } from "react";
import type { Run } from "@/api/run.ts";
import { readListedRun } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { useLiveMany } from "@/live/query.ts";
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
  return (
    <MetricCharts runs={runs}>
      {others.length < MOST_OTHERS && (
        <RunSelect
          label="Compare with…"
          without={[run.id, ...others]}
          onChoose={(id) => change({ with: [...others, id] })}
        />
      )}
      {runs.slice(1).map((other) => (
        <Group key={other.id} gap={2} wrap="nowrap" miw={0}>
          <Text size="sm" truncate maw={180}>{plain(other.name)}</Text>
          <CloseButton
            size="xs"
            aria-label={`Do not compare with ${plain(other.name)}`}
            onClick={() => change({ with: others.filter((id) => id !== other.id) })}
          />
        </Group>
      ))}
    </MetricCharts>
  );
}
