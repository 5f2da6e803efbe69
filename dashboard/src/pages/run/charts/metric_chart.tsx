import { Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconArrowsMaximize, IconDownload } from "@tabler/icons-react";
import { memo, useEffect, useMemo, useState } from "react";
import { download, plain } from "@/components/agent_text.tsx";
import { Chart } from "@/components/chart/chart.tsx";
import { number, UNKNOWN } from "@/view/format.ts";
import classes from "./charts.module.css";
import { type ChartedRun, draw, type Drawn, type Shown, stepAt, toCsv } from "./lines.ts";
import { useSeries } from "./series.ts";
import type { ChangeChartView, ChartView } from "./view.ts";

export interface MetricChartProps {
  name: string;
  runs: ChartedRun[];
  /** How wide the chart is: what it shows is thinned accordingly. */
  width: number;
  view: ChartView;
  change: ChangeChartView;
  onPick?: (step: number) => void;
}

export const CHART_HEIGHT = 190;
const SETTLE_MS = 150;

/** One metric of the runs, with its latest value. */
export const MetricChart = memo(function MetricChart(props: MetricChartProps & { isPassing: boolean }) {
  const [isLarge, large] = useDisclosure(false);
  const { name, isPassing } = props;
  if (!useSettled(isPassing)) return <div className={classes.card} />;
  return (
    <>
      <Body {...props} height={CHART_HEIGHT} onExpand={large.open} />
      {isLarge && (
        <Modal
          opened
          onClose={large.close}
          size="95vw"
          title={plain(name)}
          closeButtonProps={{ "aria-label": "Close" }}
        >
          <Body {...props} width={innerWidth * 0.9} height={Math.max(240, Math.round(innerHeight * 0.65))} />
        </Modal>
      )}
    </>
  );
});

/** Whether the chart stays: those that only pass by in a quick scroll are not worth drawing. */
function useSettled(isPassing: boolean): boolean {
  const [isSettled, setIsSettled] = useState(!isPassing);
  useEffect(() => {
    const timer = setTimeout(() => setIsSettled(true), SETTLE_MS);
    return () => clearTimeout(timer);
  }, []);
  return isSettled;
}

function Body({ name, runs, width, view, change, onPick, height, onExpand }: MetricChartProps & {
  height: number;
  onExpand?: () => void;
}) {
  // In steps of 200, so that a wider window need not read all charts again.
  const maxPoints = Math.min(2000, Math.max(400, Math.ceil(width / 200) * 200));
  const { shown, error, isLoading } = useSeries({ runs, name, axis: view.axis, zoom: view.zoom, maxPoints });
  const { axis, smoothing, isLog } = view;
  const drawn = useMemo(() => draw(shown, { axis, smoothing, isLog }), [axis, smoothing, isLog, shown]);
  const pick = (x: number) => {
    const step = axis === "step" ? x : stepAt(shown, axis, x);
    if (step !== null) onPick?.(step);
  };
  return (
    <article className={classes.card} aria-label={plain(name)}>
      <Group justify="space-between" wrap="nowrap" gap={4} mb={2}>
        {onExpand
          ? <Text component="h3" size="sm" fw={600} truncate title={plain(name)} m={0}>{plain(name)}</Text>
          : <span />}
        <Group gap={2} wrap="nowrap">
          {runs.length === 1 && shown.length === 1 && (
            <Text size="sm" className={classes.last}>{lastValue(shown[0]!)}</Text>
          )}
          <button
            type="button"
            className={classes.tool}
            title="Download what is shown as CSV"
            aria-label={`Download ${plain(name)} as CSV`}
            disabled={!shown.length}
            onClick={() => download(toCsv(shown, name), `${name.replaceAll("/", "_")}.csv`, "text/csv")}
          >
            <IconDownload size={14} aria-hidden />
          </button>
          {onExpand && (
            <button
              type="button"
              className={classes.tool}
              title="Enlarge"
              aria-label={`Enlarge ${plain(name)}`}
              onClick={onExpand}
            >
              <IconArrowsMaximize size={14} aria-hidden />
            </button>
          )}
        </Group>
      </Group>
      {!shown.length ? <div style={{ height }} /> : (
        <Chart
          title={plain(name)}
          lines={drawn.lines}
          height={height}
          axis={axis === "step" ? "number" : axis}
          isLog={isLog}
          zoom={view.zoom}
          onZoom={change.zoom}
          onPick={onPick && pick}
          cursorGroup="metrics"
        />
      )}
      <Text size="xs" c="dimmed" className={classes.note}>
        {note(drawn, { error, isLoading, isEmpty: !shown.length })}
      </Text>
    </article>
  );
}

function lastValue({ series }: Shown): string {
  const value = series.values.at(-1);
  return value === undefined ? UNKNOWN : number(value);
}

/** What the lines themselves do not say. */
function note(drawn: Drawn, state: { error: Error | null; isLoading: boolean; isEmpty: boolean }): string {
  if (state.isEmpty && state.error) return state.error.message;
  if (state.isEmpty) return state.isLoading ? "Reading…" : "No points in this stretch";
  const notes = Object.entries(drawn.strange).map(([what, count]) => `${count.toLocaleString("en-US")} ${what}`);
  if (drawn.notPositive) notes.push(`${drawn.notPositive.toLocaleString("en-US")} not above 0, not on this scale`);
  return notes.join(" · ");
}
