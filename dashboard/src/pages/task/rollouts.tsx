import { Anchor, Checkbox, Table, Text, VisuallyHidden } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { findRollouts } from "@/api/rollouts.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { Found } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { ROLLOUT_STATUSES } from "@/database.ts";
import { useLive } from "@/live/query.ts";
import { agentAndModel } from "@/pages/rollouts/agent_and_model.ts";
import { CompareBar, toggled } from "@/pages/rollouts/compare_bar.tsx";
import { number, shortId, UNKNOWN } from "@/view/format.ts";

const SHOWN = 20;

/** Those that wait are in the queue, and may be thousands. */
const BEGUN = ROLLOUT_STATUSES.filter((status) => status !== "pending");

/** The newest rollouts of a task that have begun, of which two can be seen side by side; the rest is a search. */
export function NewestRollouts({ taskId }: { taskId: string }) {
  const found = useLive(
    "*",
    ["task-rollouts", taskId],
    (signal) => findRollouts({ task_id: taskId, status: BEGUN }, null, { pageSize: SHOWN, budgetMs: 300 }, signal),
  );
  const [selected, select] = useState<string[]>([]);
  return (
    <Section
      title="Newest rollouts"
      aside={<Anchor component={Link} to={`/rollouts?task=${taskId}`} size="sm">All of them</Anchor>}
    >
      <Found query={found} what="Loading rollouts">
        {({ rollouts }) =>
          rollouts.length === 0
            ? <Text size="sm" c="dimmed">No rollout of this task has begun yet.</Text>
            : (
              <ScrollTable label="Newest rollouts" minWidth={520}>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th w={34}>
                      <VisuallyHidden>Selected</VisuallyHidden>
                    </Table.Th>
                    <Table.Th>Rollout</Table.Th>
                    <Table.Th>Agent and model</Table.Th>
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
                        <Checkbox
                          size="xs"
                          checked={selected.includes(rollout.id)}
                          onChange={() => select(toggled(selected, rollout.id))}
                          aria-label={`Select rollout ${shortId(rollout.id)}`}
                        />
                      </Table.Td>
                      <Table.Td>
                        <Link to={`/rollouts/${rollout.id}`}>{shortId(rollout.id)}</Link>
                      </Table.Td>
                      <Table.Td maw={320}>
                        <Text size="sm" truncate title={plain(agentAndModel(rollout) ?? "")}>
                          {plain(agentAndModel(rollout) ?? UNKNOWN)}
                        </Text>
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
                      <Table.Td style={{ whiteSpace: "nowrap" }}>
                        <Ago time={rollout.created_at} />
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </ScrollTable>
            )}
      </Found>
      <CompareBar selected={selected} clear={() => select([])} />
    </Section>
  );
}
