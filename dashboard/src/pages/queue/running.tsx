/** What runs now, by worker: who has had its rollouts the longest comes first. */
import { Anchor, Checkbox, Table, Text, VisuallyHidden } from "@mantine/core";
import { Fragment, memo } from "react";
import { Link } from "react-router";
import type { QueueOverview } from "@/api/queue.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { RolloutActions } from "@/components/queue/actions.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { statusText } from "@/components/queue/phase.ts";
import type { Chosen } from "@/components/queue/selection.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { number, shortId } from "@/view/format.ts";
import { More } from "./more.tsx";

type Held = QueueOverview["held"][number];

interface Props {
  queue: QueueOverview;
  chosen: Chosen;
  more: (() => void) | null;
}

/** Rollouts by worker, in the order in which the workers come first. */
export function byWorker(held: Held[]): Held[][] {
  const workers = new Map<string, Held[]>();
  for (const rollout of held) {
    const others = workers.get(rollout.worker_id);
    if (others) others.push(rollout);
    else workers.set(rollout.worker_id, [rollout]);
  }
  return [...workers.values()];
}

export function Running({ queue, chosen, more }: Props) {
  const { held, held_count, waiting } = queue;
  return (
    <Section title="Running" aside={<Text size="sm" c="dimmed">Those that have run longest first</Text>}>
      {held.length === 0
        ? (
          <Text size="sm" c="dimmed">
            Nothing runs. {waiting > 0 && "What waits starts as soon as a worker is free."}
          </Text>
        )
        : (
          <>
            <ScrollTable label="Running" minWidth={720} maxHeight={520}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th w={34}>
                    <SelectAll ids={held.map(({ id }) => id)} chosen={chosen} what="running" />
                  </Table.Th>
                  <Table.Th>Rollout</Table.Th>
                  <Table.Th>Phase</Table.Th>
                  <Table.Th ta="right">For</Table.Th>
                  <Table.Th ta="right">Turns</Table.Th>
                  <Table.Th>Agent</Table.Th>
                  <Table.Th>
                    <VisuallyHidden>Actions</VisuallyHidden>
                  </Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {byWorker(held).map((rollouts) => (
                  <Fragment key={rollouts[0]!.worker_id}>
                    <Table.Tr style={{ background: "var(--om-sunken)" }}>
                      <Table.Th colSpan={7} scope="rowgroup" py={4}>
                        <Text span size="xs" fw={600}>
                          {plain(rollouts[0]!.worker_name ?? `Worker ${shortId(rollouts[0]!.worker_id)}`)}
                        </Text>
                        <Text span size="xs" c="dimmed" ml={6}>{number(rollouts.length)} here</Text>
                      </Table.Th>
                    </Table.Tr>
                    {rollouts.map((rollout) => (
                      <Row
                        key={rollout.id}
                        rollout={rollout}
                        isChosen={chosen.ids.has(rollout.id)}
                        toggle={chosen.toggle}
                      />
                    ))}
                  </Fragment>
                ))}
              </Table.Tbody>
            </ScrollTable>
            <More shown={held.length} total={held_count} what="running rollouts" more={more} />
          </>
        )}
    </Section>
  );
}

interface RowProps {
  rollout: Held;
  isChosen: boolean;
  toggle: (id: string) => void;
}

// Of hundreds of rows few change at a time.
const Row = memo(function Row({ rollout, isChosen, toggle }: RowProps) {
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
      <Table.Td maw={420}>
        <Anchor component={Link} to={`/rollouts/${rollout.id}`} size="sm" lineClamp={1}>
          {plain(rollout.task_description)}
        </Anchor>
        {rollout.attempt > 1 && <Text size="xs" c="dimmed">attempt {rollout.attempt} of {rollout.max_attempts}</Text>}
      </Table.Td>
      <Table.Td>
        <StatusBadge status={statusText(rollout)} />
      </Table.Td>
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        <Elapsed from={rollout.claimed_at} />
      </Table.Td>
      <Table.Td ta="right">{number(rollout.turns)}</Table.Td>
      <Table.Td maw={200}>
        <AgentName agent={rollout.agent} model={rollout.model} />
      </Table.Td>
      <Table.Td ta="right">
        <RolloutActions rollouts={[rollout]} size="compact-xs" only={["cancel"]} />
      </Table.Td>
    </Table.Tr>
  );
});

export function AgentName({ agent, model }: { agent: string | null; model: string | null }) {
  return (
    <>
      <Text size="sm" truncate>{agent === null ? "Recorded" : plain(agent)}</Text>
      {model && <Text size="xs" c="dimmed" truncate title={plain(model)}>{plain(model)}</Text>}
    </>
  );
}

export function SelectAll({ ids, chosen, what }: { ids: string[]; chosen: Chosen; what: string }) {
  const count = ids.filter((id) => chosen.ids.has(id)).length;
  return (
    <Checkbox
      size="xs"
      checked={count > 0 && count === ids.length}
      indeterminate={count > 0 && count < ids.length}
      onChange={() => chosen.toggleAll(ids)}
      aria-label={`Select all ${what} rollouts that are listed`}
    />
  );
}
