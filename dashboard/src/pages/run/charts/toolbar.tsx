import { Button, CloseButton, Group, SegmentedControl, Slider, Switch, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch, IconZoomReset } from "@tabler/icons-react";
import { type ReactNode, useEffect, useState } from "react";
import { plain } from "@/components/agent_text.tsx";
import classes from "./charts.module.css";
import { nameTest } from "./groups.ts";
import type { ChartedRun, XAxis } from "./lines.ts";
import type { ChangeChartView, ChartView } from "./view.ts";

const AXES: { value: XAxis; label: string }[] = [
  { value: "step", label: "Step" },
  { value: "elapsed", label: "Elapsed" },
  { value: "time", label: "Clock" },
];

interface Props {
  view: ChartView;
  change: ChangeChartView;
  runs: ChartedRun[];
  onRemove?: (runId: string) => void;
  /** How many of how many metrics are listed. */
  listed: number;
  total: number;
  children?: ReactNode;
}

export function Toolbar({ view, change, runs, onRemove, listed, total, children }: Props) {
  return (
    <div className={classes.toolbar} role="group" aria-label="How charts are shown">
      <Filter value={view.filter} onChange={change.filter} />
      <Smoothing value={view.smoothing} onChange={change.smoothing} />
      <SegmentedControl
        size="xs"
        aria-label="Horizontal axis"
        data={AXES}
        value={view.axis}
        onChange={(axis) => change.axis(axis as XAxis)}
      />
      <Switch
        size="sm"
        label="Log scale"
        checked={view.isLog}
        onChange={(event) => change.isLog(event.currentTarget.checked)}
      />
      {children}
      {view.zoom && (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconZoomReset size={15} aria-hidden />}
          onClick={() => change.zoom(null)}
        >
          Reset zoom
        </Button>
      )}
      <Text size="sm" c="dimmed" role="status">
        {listed === total
          ? `${total.toLocaleString("en-US")} metrics`
          : `${listed.toLocaleString("en-US")} of ${total.toLocaleString("en-US")} metrics`}
      </Text>
      {runs.length > 1 && (
        <Group
          gap="md"
          component="ul"
          m={0}
          p={0}
          aria-label="Runs in the charts"
          style={{ listStyle: "none", flexBasis: "100%" }}
        >
          {runs.map((run, place) => (
            <Group key={run.id} component="li" gap={6} wrap="nowrap" miw={0}>
              <span className={classes.dot} style={{ background: run.color }} />
              <Text size="sm" truncate maw={260}>{plain(run.name)}</Text>
              {onRemove && place > 0 && (
                <CloseButton
                  size="xs"
                  aria-label={`Do not compare with ${plain(run.name)}`}
                  onClick={() => onRemove(run.id)}
                />
              )}
            </Group>
          ))}
        </Group>
      )}
    </div>
  );
}

/** The text at once, what it stands for a moment later: each change of the address draws the page anew. */
function useDraft<T>(value: T, onChange: (value: T) => void, wait: number): [T, (value: T) => void] {
  const [draft, setDraft] = useState(value);
  const send = useDebouncedCallback(onChange, wait);
  useEffect(() => setDraft(value), [value]);
  return [draft, (next) => {
    setDraft(next);
    send(next);
  }];
}

function Filter({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [draft, setDraft] = useDraft(value, onChange, 150);
  return (
    <TextInput
      size="xs"
      w={220}
      type="search"
      aria-label="Filter metrics by name"
      placeholder="Filter, or /regex/"
      leftSection={<IconSearch size={14} aria-hidden />}
      value={draft}
      error={nameTest(draft) ? null : "Not a valid expression"}
      onChange={(event) => setDraft(event.currentTarget.value)}
    />
  );
}

function Smoothing({ value, onChange }: { value: number; onChange: (weight: number) => void }) {
  const [draft, setDraft] = useDraft(value, onChange, 60);
  return (
    <Group gap={8} wrap="nowrap">
      <Text size="sm" id="smoothing">Smoothing</Text>
      <Slider
        w={120}
        size="sm"
        min={0}
        max={0.99}
        step={0.01}
        label={null}
        value={draft}
        onChange={setDraft}
        thumbProps={{ "aria-labelledby": "smoothing" }}
      />
      <Text size="sm" w={36} style={{ whiteSpace: "nowrap", fontVariantNumeric: "tabular-nums" }}>
        {draft.toFixed(2)}
      </Text>
    </Group>
  );
}
