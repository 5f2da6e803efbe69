/** The queue: what runs on which worker and for how long, what is next, and how the workers are. */
import { Alert, Button, Code, List, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { type QueueOverview, queueOverview } from "@/api/queue.ts";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Figure, PageHead } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { SelectionBar, useChosen } from "@/components/queue/selection.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { Running } from "./running.tsx";
import { Waiting } from "./waiting.tsx";
import { Workers } from "./workers.tsx";

const LISTED = 100;
/** More rows than that nobody reads, and browsers are slow with them. */
const MOST_LISTED = 300;
/** A worker that fell silent sends no signal. */
const EVERY_MS = 5_000;

export default function QueuePage() {
  const { person } = useAccess();
  return (
    <>
      <PageHead
        title="Queue"
        aside={person && (
          <Button component={Link} to="/tasks" variant="default" size="xs">
            Choose tasks to run
          </Button>
        )}
      />
      {person ? <Queue /> : (
        <Empty title="The queue is for members">
          <SignInLink /> to see it. The rollouts of public runs are open to everyone.
        </Empty>
      )}
    </>
  );
}

function Queue() {
  const [listed, setListed] = useState(LISTED);
  const query = useLive("*", ["queue", listed], (signal) => queueOverview(listed, signal), {
    keep: true,
    everyMs: EVERY_MS,
  });
  const chosen = useChosen();
  const more = listed < MOST_LISTED ? () => setListed(Math.min(MOST_LISTED, listed * 3)) : null;
  return (
    <Found query={query} what="Reading the queue">
      {(queue) =>
        isEmpty(queue) ? <NothingYet /> : (
          <Stack>
            <Figures queue={queue} />
            <Warnings queue={queue} />
            <Running queue={queue} chosen={chosen} more={more} />
            <Waiting queue={queue} chosen={chosen} more={more} />
            <Workers queue={queue} more={more} />
            <SelectionBar rollouts={[...queue.held, ...queue.next]} chosen={chosen} />
          </Stack>
        )}
    </Found>
  );
}

function isEmpty({ waiting, held_count, workers }: QueueOverview): boolean {
  return waiting === 0 && held_count === 0 && workers.length === 0;
}

function NothingYet() {
  return (
    <Empty title="The queue is empty, and no worker runs">
      <List type="ordered" size="sm" ta="left" mt="xs" spacing={6}>
        <List.Item>
          Choose <Link to="/tasks">tasks</Link>, or upload some, and press “New rollout”. On a terminal:{" "}
          <Code>openmanus-rl rollouts new --task ID</Code>
        </List.Item>
        <List.Item>
          Start a worker on any machine that has the Supabase settings: <Code>openmanus-rl worker</Code>
        </List.Item>
        <List.Item>Watch here what waits, what runs, and what came of it.</List.Item>
      </List>
    </Empty>
  );
}

function Figures({ queue: { waiting, oldest_waiting_at, held_count, health } }: { queue: QueueOverview }) {
  const others = [
    health.draining > 0 && `${number(health.draining)} draining`,
    health.stopped > 0 && `${number(health.stopped)} stopped lately`,
  ].filter(Boolean).join(", ");
  return (
    <div className="om-tiles">
      <Figure
        label="Waiting"
        value={number(waiting)}
        hint={oldest_waiting_at
          ? (
            <>
              the oldest for <Elapsed from={oldest_waiting_at} />
            </>
          )
          : "nothing waits"}
      />
      <Figure
        label="Running"
        value={number(held_count)}
        hint={health.places === 0 ? "no worker has a place" : `of ${number(health.places)} places`}
      />
      <Figure
        label="Active workers"
        value={number(health.active)}
        hint={
          <>
            {health.silent > 0 && <Text span inherit c="var(--om-bad)">{number(health.silent)} silent</Text>}
            {health.silent > 0 && others && ", "}
            {others || (health.silent === 0 && "none silent or draining")}
          </>
        }
        tone={health.active === 0 && waiting > 0 ? "warn" : undefined}
      />
    </div>
  );
}

function Warnings({ queue: { waiting, health, unserved } }: { queue: QueueOverview }) {
  if (waiting === 0) return null;
  const icon = <IconAlertTriangle aria-hidden />;
  if (health.active === 0) {
    return (
      <Alert color="orange" icon={icon} role="status" title="No worker takes what waits">
        Start one on any machine that has the Supabase settings: <Code>openmanus-rl worker</Code>
      </Alert>
    );
  }
  if (unserved.length === 0) return null;
  return (
    <Alert
      color="orange"
      icon={icon}
      role="status"
      title="Some rollouts wait for a worker that can start their environment"
    >
      {unserved.map(({ provider, rollouts }) => (
        <div key={provider}>
          {number(rollouts)} {rollouts === 1 ? "needs" : "need"} <Code>{plain(provider)}</Code>
        </div>
      ))}
      Start <Code>openmanus-rl worker</Code> on a machine where that is available.
    </Alert>
  );
}
