/** What runs now, by worker: who has had its rollouts the longest comes first. */
import { Box, Text } from "@mantine/core";
import type { QueueOverview } from "@/api/queue.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { statusText } from "@/components/queue/phase.ts";
import type { Chosen } from "@/components/queue/selection.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { number, shortId } from "@/view/format.ts";
import { More } from "./more.tsx";
import { type Column, QueueTable, RolloutCell } from "./table.tsx";

type Held = QueueOverview["held"][number];

const COLUMNS: Column<Held>[] = [
  {
    title: "Rollout",
    isWide: true,
    cell: (rollout) => (
      <RolloutCell rollout={rollout}>
        <Box hiddenFrom="sm" mt={2}>
          <StatusBadge status={statusText(rollout)} />
        </Box>
      </RolloutCell>
    ),
  },
  { title: "Phase", isExtra: true, cell: (rollout) => <StatusBadge status={statusText(rollout)} /> },
  { title: "Turns", isNumber: true, isExtra: true, cell: ({ turns }) => number(turns) },
  { title: "For", isNumber: true, cell: ({ claimed_at }) => <Elapsed from={claimed_at} /> },
];

/** Rollouts by worker, in the order in which the workers come first. */
function byWorker(held: Held[]): Held[][] {
  const workers = new Map<string, Held[]>();
  for (const rollout of held) {
    const others = workers.get(rollout.worker_id);
    if (others) others.push(rollout);
    else workers.set(rollout.worker_id, [rollout]);
  }
  return [...workers.values()];
}

interface Props {
  queue: QueueOverview;
  chosen: Chosen;
  more: (() => void) | null;
}

export function Running({ queue: { held, held_count, waiting, workers }, chosen, more }: Props) {
  if (held.length === 0) {
    return (
      <Section title="Running">
        <Text size="sm" c="dimmed">
          Nothing runs. {waiting > 0 && "What waits starts as soon as a worker is free."}
        </Text>
      </Section>
    );
  }
  const groups = byWorker(held).map((rollouts) => {
    const { worker_id: key, worker_name } = rollouts[0]!;
    const all = workers.find(({ id }) => id === key)?.held ?? rollouts.length;
    return { key, rollouts, head: <WorkerHead name={worker_name ?? `Worker ${shortId(key)}`} rollouts={all} /> };
  });
  return (
    <Section title="Running" aside={<Text size="sm" c="dimmed">Those that have run longest first</Text>}>
      <QueueTable label="Running" groups={groups} columns={COLUMNS} chosen={chosen} />
      <More shown={held.length} total={held_count} what="running rollouts" more={more} />
    </Section>
  );
}

function WorkerHead({ name, rollouts }: { name: string; rollouts: number }) {
  return (
    <>
      <Text span size="xs" fw={600}>{plain(name)}</Text>
      <Text span size="xs" c="dimmed" ml={6}>{number(rollouts)} {rollouts === 1 ? "rollout" : "rollouts"}</Text>
    </>
  );
}
