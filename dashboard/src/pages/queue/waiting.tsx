/** What waits, in the order in which workers take it. */
import { Code, Text } from "@mantine/core";
import { Link } from "react-router";
import type { QueueOverview } from "@/api/queue.ts";
import { Section } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import type { Chosen } from "@/components/queue/selection.tsx";
import { number } from "@/view/format.ts";
import { More } from "./more.tsx";
import { type Column, QueueTable, RolloutCell } from "./table.tsx";

const COLUMNS: Column<QueueOverview["next"][number]>[] = [
  { title: "Place", isNumber: true, isExtra: true, cell: (_rollout, place) => number(place) },
  {
    title: "Rollout",
    isWide: true,
    cell: (rollout) => <RolloutCell rollout={rollout} why={rollout.status_message} />,
  },
  { title: "Priority", isNumber: true, isExtra: true, cell: ({ priority }) => number(priority) },
  { title: "Waits for", isNumber: true, cell: ({ created_at }) => <Elapsed from={created_at} /> },
];

interface Props {
  queue: QueueOverview;
  chosen: Chosen;
  more: (() => void) | null;
}

export function Waiting({ queue: { next, waiting }, chosen, more }: Props) {
  if (next.length === 0) {
    return (
      <Section title="Waiting">
        <Text size="sm" c="dimmed">
          Nothing waits. Choose <Link to="/tasks">tasks</Link> and press “New rollout”, or use{" "}
          <Code>openmanus-rl rollouts new --task ID</Code>.
        </Text>
      </Section>
    );
  }
  return (
    <Section title="Waiting" aside={<Text size="sm" c="dimmed">By priority, then the oldest first</Text>}>
      <QueueTable label="Waiting" groups={[{ key: "next", rollouts: next }]} columns={COLUMNS} chosen={chosen} />
      <More shown={next.length} total={waiting} what="waiting rollouts" more={more} />
    </Section>
  );
}
