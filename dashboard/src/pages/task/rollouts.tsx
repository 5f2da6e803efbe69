import { Table, Text } from "@mantine/core";
import { Link } from "react-router";
import { findRollouts } from "@/api/rollouts.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { Found } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive } from "@/live/query.ts";
import { number, shortId } from "@/view/format.ts";

const SHOWN = 20;

/** The newest rollouts of a task; the rest is a search. */
export function NewestRollouts({ taskId }: { taskId: string }) {
  const found = useLive(
    "*",
    ["task-rollouts", taskId],
    (signal) => findRollouts({ task_id: taskId }, null, { pageSize: SHOWN, budgetMs: 300 }, signal),
  );
  return (
    <Section title="Newest rollouts" aside={<Link to={`/rollouts?task=${taskId}`}>All of them</Link>}>
      <Found query={found} what="Loading rollouts">
        {({ rollouts }) =>
          rollouts.length === 0
            ? <Text size="sm" c="dimmed">No rollout of this task yet.</Text>
            : (
              <ScrollTable label="Newest rollouts" minWidth={520}>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Rollout</Table.Th>
                    <Table.Th>Run</Table.Th>
                    <Table.Th>Status</Table.Th>
                    <Table.Th ta="right">Reward</Table.Th>
                    <Table.Th ta="right">Turns</Table.Th>
                    <Table.Th>When</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {rollouts.map((rollout) => (
                    <Table.Tr key={rollout.id}>
                      <Table.Td>
                        <Link to={`/rollouts/${rollout.id}`}>{shortId(rollout.id)}</Link>
                      </Table.Td>
                      <Table.Td>
                        {rollout.training_run_id && (
                          <Link to={`/runs/${rollout.training_run_id}`}>
                            {plain(rollout.run_name ?? shortId(rollout.training_run_id))}
                          </Link>
                        )}
                      </Table.Td>
                      <Table.Td>
                        <StatusBadge status={rollout.status} />
                      </Table.Td>
                      <Table.Td ta="right">{number(rollout.total_reward)}</Table.Td>
                      <Table.Td ta="right">{number(rollout.step_count)}</Table.Td>
                      <Table.Td>
                        <Ago time={rollout.created_at} />
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </ScrollTable>
            )}
      </Found>
    </Section>
  );
}
