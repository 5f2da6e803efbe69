/** How a task went: over time, by checkpoint, by run. */
import { SimpleGrid, Table, Text } from "@mantine/core";
import { Link } from "react-router";
import type { TaskHistory } from "@/api/tasks.ts";
import { plain } from "@/components/agent_text.tsx";
import { Chart } from "@/components/chart/chart.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { RateBar } from "@/components/rate.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { seriesColor } from "@/theme.ts";
import { number, percent, share, shortId } from "@/view/format.ts";

export function OverTime({ history }: { history: TaskHistory }) {
  const stretches = history.over_time.filter((stretch) => stretch.rollouts > 0);
  if (stretches.length === 0) {
    return (
      <Section title="Over time">
        <Text size="sm" c="dimmed">No rollout of this task yet.</Text>
      </Section>
    );
  }
  const times = stretches.map(({ from, to }) => (Date.parse(from) + Date.parse(to)) / 2000);
  // Of less than a minute the time of day tells nothing.
  const isBrief = times.at(-1)! - times[0]! < 60;
  const axis = isBrief ? "elapsed" : "time";
  const x = isBrief ? times.map((time) => time - times[0]!) : times;
  const rates = stretches.map(({ solved, completed }) => share(solved, completed));
  const rewards = stretches.map(({ mean_reward }) => mean_reward);
  return (
    <Section
      title="Over time"
      aside={
        <Text size="sm" c="dimmed">
          {history.sample === 1 ? "One rollout" : `The newest ${number(history.sample)} rollouts`}
        </Text>
      }
    >
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <div>
          <Text size="sm" mb={4}>Solved</Text>
          <Chart
            title="Share of rollouts that solved the task, over time"
            axis={axis}
            yRange={[0, 1]}
            formatY={(value) => percent(value, 0)}
            lines={[{ label: "Solved", x, y: rates, color: seriesColor(0), points: true }]}
          />
        </div>
        <div>
          <Text size="sm" mb={4}>Mean reward</Text>
          <Chart
            title="Mean reward over time"
            axis={axis}
            lines={[{ label: "Mean reward", x, y: rewards, color: seriesColor(1), points: true }]}
          />
        </div>
      </SimpleGrid>
    </Section>
  );
}

export function ByCheckpoint({ history }: { history: TaskHistory }) {
  return (
    <Section title="By checkpoint">
      {history.by_checkpoint.length === 0
        ? <Text size="sm" c="dimmed">No evaluation of a checkpoint includes this task.</Text>
        : (
          <ScrollTable label="By checkpoint" minWidth={420} maxHeight={360}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Run</Table.Th>
                <Table.Th ta="right">Checkpoint</Table.Th>
                <Table.Th ta="right">Step</Table.Th>
                <Table.Th>Solved</Table.Th>
                <Table.Th ta="right">Mean reward</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {history.by_checkpoint.map((found) => (
                <Table.Tr key={found.checkpoint_id}>
                  <Table.Td>
                    <Link to={`/runs/${found.training_run_id}?tab=checkpoints`}>{plain(found.run_name)}</Link>
                  </Table.Td>
                  <Table.Td ta="right">{number(found.checkpoint_number)}</Table.Td>
                  <Table.Td ta="right">{number(found.step)}</Table.Td>
                  <Table.Td>
                    <RateBar rate={found.success_rate} part={found.solved} whole={found.completed} />
                  </Table.Td>
                  <Table.Td ta="right">{number(found.mean_reward)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </ScrollTable>
        )}
    </Section>
  );
}

export function ByRun({ history, taskId }: { history: TaskHistory; taskId: string }) {
  return (
    <Section title="By run">
      {history.by_run.length === 0
        ? <Text size="sm" c="dimmed">No run has tried this task yet.</Text>
        : (
          <ScrollTable label="By run" minWidth={420} maxHeight={360}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Run</Table.Th>
                <Table.Th ta="right">Rollouts</Table.Th>
                <Table.Th>Solved</Table.Th>
                <Table.Th ta="right">Mean reward</Table.Th>
                <Table.Th>Last</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {history.by_run.map((found) => (
                <Table.Tr key={found.training_run_id ?? "none"}>
                  <Table.Td>
                    {found.training_run_id
                      ? (
                        <Link to={`/runs/${found.training_run_id}`}>
                          {plain(found.run_name ?? shortId(found.training_run_id))}
                        </Link>
                      )
                      : "Without a run"}
                  </Table.Td>
                  <Table.Td ta="right">
                    {found.training_run_id
                      ? (
                        <Link
                          to={`/rollouts?task=${taskId}&run=${found.training_run_id}`}
                          aria-label={`${found.rollouts} rollouts of this run`}
                        >
                          {number(found.rollouts)}
                        </Link>
                      )
                      : number(found.rollouts)}
                  </Table.Td>
                  <Table.Td>
                    <RateBar
                      rate={share(found.solved, found.completed)}
                      part={found.solved}
                      whole={found.completed}
                    />
                  </Table.Td>
                  <Table.Td ta="right">{number(found.mean_reward)}</Table.Td>
                  <Table.Td>
                    <Ago time={found.last_at} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </ScrollTable>
        )}
    </Section>
  );
}
