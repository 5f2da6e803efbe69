/** The page of one run. */
import { Stack, Tabs } from "@mantine/core";
import type { ReactNode } from "react";
import { useParams } from "react-router";
import { readRun, type Run } from "@/api/run.ts";
import { Empty, Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { useView } from "@/view/url_state.ts";
import { ChartsTab } from "./charts_tab.tsx";
import { CheckpointsTab } from "./checkpoints_tab.tsx";
import { ConfigurationTab } from "./configuration/tab.tsx";
import { EvaluationsTab } from "./evaluations/tab.tsx";
import { FilesTab } from "./files_tab.tsx";
import { RunHead } from "./head.tsx";
import { Health } from "./health.tsx";
import { HistoryTab } from "./history_tab.tsx";
import { JobBar } from "./job/bar.tsx";
import { FramesTab } from "./job/frames_tab.tsx";
import { JobTab } from "./job/tab.tsx";
import { LogTab } from "./log_tab.tsx";
import { ProgressTab } from "./progress_tab.tsx";
import { RolloutsTab } from "./rollouts_tab.tsx";

const TABS: { name: string; label: string; show: (run: Run) => ReactNode }[] = [
  { name: "charts", label: "Charts", show: (run) => <ChartsTab run={run} /> },
  { name: "progress", label: "Progress", show: (run) => <ProgressTab run={run} /> },
  { name: "rollouts", label: "Rollouts", show: (run) => <RolloutsTab run={run} /> },
  { name: "evaluations", label: "Evaluations", show: (run) => <EvaluationsTab run={run} /> },
  { name: "checkpoints", label: "Checkpoints", show: (run) => <CheckpointsTab run={run} /> },
  { name: "frames", label: "Frames", show: (run) => <FramesTab run={run} /> },
  { name: "job", label: "Job", show: (run) => <JobTab run={run} /> },
  { name: "files", label: "Files", show: (run) => <FilesTab run={run} /> },
  { name: "configuration", label: "Configuration", show: (run) => <ConfigurationTab run={run} /> },
  { name: "history", label: "History", show: (run) => <HistoryTab run={run} /> },
  { name: "log", label: "Log", show: (run) => <LogTab run={run} /> },
];

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export default function RunPage() {
  const { runId = "" } = useParams();
  if (!ID.test(runId)) {
    return <Empty title="This is not the id of a run">The address may be incomplete.</Empty>;
  }
  return <KnownRun key={runId} runId={runId} />;
}

function KnownRun({ runId }: { runId: string }) {
  const query = useLive(runId, ["run", runId], (signal) => readRun(runId, signal));
  const [view, change] = useView({ tab: "charts" });
  const shown = TABS.find(({ name }) => name === view.tab) ?? TABS[0]!;
  return (
    <Found query={query} what="Reading the run">
      {(run) => (
        <Stack gap="sm">
          <RunHead run={run} />
          <JobBar run={run} />
          <Health run={run} />
          <Tabs
            value={shown.name}
            onChange={(tab) => change({ tab: tab ?? "charts" }, { push: true })}
            keepMounted={false}
          >
            <Tabs.List aria-label="Parts of the run" mb="sm">
              {TABS.map(({ name, label }) => <Tabs.Tab key={name} value={name}>{label}</Tabs.Tab>)}
            </Tabs.List>
            {TABS.map(({ name, show }) => (
              <Tabs.Panel key={name} value={name} tabIndex={-1}>{name === shown.name && show(run)}</Tabs.Panel>
            ))}
          </Tabs>
        </Stack>
      )}
    </Found>
  );
}
