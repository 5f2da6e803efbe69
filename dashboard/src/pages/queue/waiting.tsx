/** What waits, in the order in which workers take it. */
import { Anchor, Checkbox, Code, Table, Text, VisuallyHidden } from "@mantine/core";
import { memo } from "react";
import { Link } from "react-router";
import type { QueueOverview } from "@/api/queue.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { RolloutActions } from "@/components/queue/actions.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import type { Chosen } from "@/components/queue/selection.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { number, shortId } from "@/view/format.ts";
import { More } from "./more.tsx";
import { AgentName, SelectAll } from "./running.tsx";

interface Props {
  queue: QueueOverview;
  chosen: Chosen;
  more: (() => void) | null;
}

export function Waiting({ queue: { next, waiting }, chosen, more }: Props) {
  return (
    <Section title="Waiting" aside={<Text size="sm" c="dimmed">By priority, then the oldest first</Text>}>
      {next.length === 0
        ? (
          <Text size="sm" c="dimmed">
            Nothing waits. Choose <Link to="/tasks">tasks</Link> and press “New rollout”, or use{" "}
            <Code>openmanus-rl rollouts new --task ID</Code>.
          </Text>
        )
        : (
          <>
            <ScrollTable label="Waiting" minWidth={760} maxHeight={420}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th w={34}>
                    <SelectAll ids={next.map(({ id }) => id)} chosen={chosen} what="waiting" />
                  </Table.Th>
                  <Table.Th ta="right" w={50}>Place</Table.Th>
                  <Table.Th>Rollout</Table.Th>
                  <Table.Th>Agent</Table.Th>
                  <Table.Th>Environment</Table.Th>
                  <Table.Th ta="right">Priority</Table.Th>
                  <Table.Th ta="right">Waits for</Table.Th>
                  <Table.Th>
                    <VisuallyHidden>Actions</VisuallyHidden>
                  </Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {next.map((rollout, index) => (
                  <Row
                    key={rollout.id}
                    rollout={rollout}
                    place={index + 1}
                    isChosen={chosen.ids.has(rollout.id)}
                    toggle={chosen.toggle}
                  />
                ))}
              </Table.Tbody>
            </ScrollTable>
            <More shown={next.length} total={waiting} what="waiting rollouts" more={more} />
          </>
        )}
    </Section>
  );
}

interface RowProps {
  rollout: QueueOverview["next"][number];
  place: number;
  isChosen: boolean;
  toggle: (id: string) => void;
}

const Row = memo(function Row({ rollout, place, isChosen, toggle }: RowProps) {
  return (
    <Table.Tr>
      <Table.Td>
        <Checkbox
          size="xs"
          checked={isChosen}
          onChange={() => toggle(rollout.id)}
          aria-label={`Select rollout ${shortId(rollout.id)}`}
        />
      </Table.Td>
      <Table.Td ta="right">{number(place)}</Table.Td>
      <Table.Td maw={420}>
        <Anchor component={Link} to={`/rollouts/${rollout.id}`} size="sm" lineClamp={1}>
          {plain(rollout.task_description)}
        </Anchor>
        {rollout.status_message && (
          <Text size="xs" c="dimmed" lineClamp={1}>
            attempt {rollout.attempt} of {rollout.max_attempts}: {plain(rollout.status_message)}
          </Text>
        )}
      </Table.Td>
      <Table.Td maw={200}>
        <AgentName agent={rollout.agent} model={rollout.model} />
      </Table.Td>
      <Table.Td maw={180}>
        <Text size="sm" truncate title={plain(rollout.environment)}>{plain(rollout.environment)}</Text>
        {rollout.provider !== "none" && <Text size="xs" c="dimmed">{plain(rollout.provider)}</Text>}
      </Table.Td>
      <Table.Td ta="right">{number(rollout.priority)}</Table.Td>
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        <Elapsed from={rollout.created_at} />
      </Table.Td>
      <Table.Td ta="right">
        <RolloutActions rollouts={[rollout]} size="compact-xs" only={["cancel"]} />
      </Table.Td>
    </Table.Tr>
  );
});
