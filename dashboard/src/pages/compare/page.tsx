import { Code, Stack, Tabs, Text } from "@mantine/core";
import { Link } from "react-router";
import { readListedRun } from "@/api/runs.ts";
import { PageHead, Section } from "@/components/page.tsx";
import { Empty, Failed } from "@/components/states.tsx";
import { useLiveMany } from "@/live/query.ts";
import { plain } from "@/components/agent_text.tsx";
import { MetricCharts } from "@/pages/run/charts/metric_charts.tsx";
import { seriesColor } from "@/theme.ts";
import { shortId } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { AddRun } from "./add_run.tsx";
import { ConfigDifferences } from "./config_differences.tsx";
import { type Compared, Figures } from "./figures.tsx";
import { MOST_COMPARED } from "./limits.ts";

const DEFAULT_VIEW = { run: [] as string[], hidden: [] as string[], tab: "metrics" };

export default function ComparePage() {
  const [view, change] = useView(DEFAULT_VIEW);
  const asked = [...new Set(view.run)];
  const ids = asked.slice(0, MOST_COMPARED);
  const { runs, failed } = useCompared(ids, view.hidden);
  const setRuns = (run: string[]) => change({ run, hidden: view.hidden.filter((id) => run.includes(id)) });
  const toggle = (id: string) =>
    change({
      hidden: view.hidden.includes(id) ? view.hidden.filter((other) => other !== id) : [...view.hidden, id],
    });
  const known = runs.filter((run) => run.listed);
  return (
    <>
      <PageHead title="Compare runs" crumbs={[{ label: "Runs", to: "/runs" }]}>
        {asked.length > MOST_COMPARED && (
          <Text size="sm" c="dimmed">
            The first {MOST_COMPARED} of {asked.length} runs are compared; more lines could not be told apart.
          </Text>
        )}
      </PageHead>
      <Stack gap="md">
        <Section title="Runs" aside={<AddRun chosen={ids} add={(id) => setRuns([...ids, id])} />}>
          {failed && <Failed error={failed.error!} retry={() => void failed.refetch()} />}
          {!ids.length && <NothingChosen />}
          {ids.length > 0 && (
            <Figures
              runs={runs}
              toggle={toggle}
              remove={(id) => setRuns(ids.filter((other) => other !== id))}
            />
          )}
        </Section>
        {known.length > 0 && (
          // Apart: of thousands of metrics nobody would scroll to the end to find the configuration.
          <Tabs
            value={view.tab === "config" ? "config" : "metrics"}
            onChange={(tab) => change({ tab: tab ?? "metrics" })}
            keepMounted={false}
          >
            <Tabs.List mb="md">
              <Tabs.Tab value="metrics">Metrics</Tabs.Tab>
              <Tabs.Tab value="config">Configuration</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="metrics">
              <Charts runs={known} />
            </Tabs.Panel>
            <Tabs.Panel value="config">
              <ConfigDifferences runs={known} />
            </Tabs.Panel>
          </Tabs>
        )}
      </Stack>
    </>
  );
}

function useCompared(ids: string[], hidden: string[]) {
  const answers = useLiveMany(ids.map((id) => ({
    subject: id,
    key: ["listed run", id],
    read: (signal) => readListedRun(id, signal),
  })));
  const runs = ids.map((id, index): Compared => {
    const listed = answers[index]!.data;
    return {
      id,
      listed,
      name: listed ? plain(listed.name) : shortId(id),
      color: seriesColor(index),
      isShown: !hidden.includes(id),
    };
  });
  const failed = answers.find((answer) => answer.error && answer.data === undefined);
  return { runs, failed };
}

function Charts({ runs }: { runs: Compared[] }) {
  const charted = runs.filter((run) => run.isShown).map(({ id, name, color }) => ({ id, name, color }));
  if (!charted.length) return <Empty title="No run is shown">Switch one on in the table above.</Empty>;
  return <MetricCharts runs={charted} />;
}

function NothingChosen() {
  return (
    <Empty title="No runs to compare yet">
      Add some here, or select them in <Link to="/runs">the list of runs</Link> and press <Code>Compare</Code>.
    </Empty>
  );
}
