import { Anchor, Group } from "@mantine/core";
import { Link } from "react-router";
import { watchTask } from "@/api/queue.ts";
import { Section } from "@/components/page.tsx";
import { RolloutCards } from "@/components/queue/card.tsx";
import { SelectionBar, useChosen } from "@/components/queue/selection.tsx";
import { useLive } from "@/live/query.ts";
import { More } from "@/pages/queue/more.tsx";

const LISTED = 6;
/** The database looks at the newest of a task only. */
const MOST_COUNTED = 1_000;

/** The rollouts of a task that wait or run; nothing where there are none. */
export function InTheQueue({ taskId }: { taskId: string }) {
  const watched = useLive("*", ["watch-task", taskId], (signal) => watchTask(taskId, LISTED, signal)).data;
  const chosen = useChosen();
  if (!watched || watched.rollouts.length === 0) return null;
  const total = Object.values(watched.counts).reduce((sum, count) => sum + count, 0);
  return (
    <Section title="In the queue" aside={<Anchor component={Link} to="/queue" size="sm">The whole queue</Anchor>}>
      <RolloutCards
        label="In the queue"
        rollouts={watched.rollouts}
        selected={chosen.ids}
        onSelect={chosen.toggle}
        isOfOneTask
      />
      <More
        shown={watched.rollouts.length}
        total={total}
        what={`${total < MOST_COUNTED ? "" : "or more "}that wait or run`}
        more={null}
      />
      <Group justify="center">
        <SelectionBar rollouts={watched.rollouts} chosen={chosen} />
      </Group>
    </Section>
  );
}
