/** The workers: those that need a person first. */
import { Code, Group, Progress, Table, Text, VisuallyHidden } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { memo } from "react";
import { type QueueOverview, stopWorkers, type Worker } from "@/api/queue.ts";
import { useAccess } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { refresher } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { More } from "./more.tsx";

export function Workers({ queue: { workers, health }, more }: { queue: QueueOverview; more: (() => void) | null }) {
  const total = health.active + health.draining + health.silent + health.stopped;
  return (
    <Section title="Workers" aside={total > 0 && <Text size="sm" c="dimmed">{number(total)} in all</Text>}>
      {workers.length === 0
        ? (
          <Text size="sm" c="dimmed">
            No worker runs, and none did in the last hour. Start one on any machine that has the Supabase settings:{" "}
            <Code>openmanus-rl worker</Code>.
          </Text>
        )
        : (
          <>
            <ScrollTable label="Workers" minWidth={320} maxHeight={420}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Worker</Table.Th>
                  <Table.Th>Health</Table.Th>
                  <Table.Th>Works on</Table.Th>
                  <Table.Th visibleFrom="sm" ta="right">Longest</Table.Th>
                  <Table.Th visibleFrom="sm">Environments</Table.Th>
                  <Table.Th visibleFrom="sm">Last heard</Table.Th>
                  <Table.Th visibleFrom="sm">Started</Table.Th>
                  <Table.Th>
                    <VisuallyHidden>Actions</VisuallyHidden>
                  </Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>{workers.map((worker) => <Row key={worker.id} worker={worker} />)}</Table.Tbody>
            </ScrollTable>
            <More shown={workers.length} total={total} what="workers" more={more} />
          </>
        )}
    </Section>
  );
}

/** What a worker's health means for its rollouts. */
function explained({ is_silent, state, held }: Worker): string | null {
  if (is_silent && held > 0) return "What it has goes back to the queue when its leases end.";
  if (is_silent) return "It may have been killed, or lost its network.";
  if (state === "draining") return "It takes nothing new and ends when it is done.";
  return null;
}

const Row = memo(function Row({ worker }: { worker: Worker }) {
  const note = explained(worker);
  const place = [
    worker.host,
    worker.pid !== null && `pid ${worker.pid}`,
    worker.version && `version ${worker.version}`,
  ];
  return (
    <Table.Tr>
      <Table.Td maw={{ base: 110, sm: 260 }}>
        <Text size="sm" truncate title={plain(worker.name)}>{plain(worker.name)}</Text>
        <Text size="xs" c="dimmed" truncate>{plain(place.filter(Boolean).join(" · "))}</Text>
      </Table.Td>
      <Table.Td maw={220}>
        <StatusBadge status={worker.is_silent ? "silent" : worker.state} />
        {note && <Text size="xs" c="dimmed">{note}</Text>}
      </Table.Td>
      <Table.Td>
        <Group gap={8} wrap="nowrap">
          <Progress
            visibleFrom="sm"
            w={56}
            size="sm"
            value={100 * worker.held / worker.max_rollouts}
            aria-label={`${worker.held} of ${worker.max_rollouts} places are taken`}
          />
          <Text size="sm" style={{ whiteSpace: "nowrap" }}>
            {number(worker.held)} of {number(worker.max_rollouts)}
          </Text>
        </Group>
      </Table.Td>
      <Table.Td visibleFrom="sm" ta="right" style={{ whiteSpace: "nowrap" }}>
        <Elapsed from={worker.held_since} />
      </Table.Td>
      <Table.Td visibleFrom="sm" maw={200}>
        <Text size="sm" truncate title={plain(worker.providers.join(", "))}>{plain(worker.providers.join(", "))}</Text>
      </Table.Td>
      <Table.Td visibleFrom="sm" style={{ whiteSpace: "nowrap" }}>
        <Ago time={worker.heartbeat_at} />
      </Table.Td>
      <Table.Td visibleFrom="sm" style={{ whiteSpace: "nowrap" }}>
        <Ago time={worker.started_at} />
      </Table.Td>
      <Table.Td ta="right">
        {worker.state === "active" && !worker.is_silent && <Drain worker={worker} />}
      </Table.Td>
    </Table.Tr>
  );
});

function Drain({ worker }: { worker: Worker }) {
  const { person } = useAccess();
  const isMine = person?.role === "admin" || worker.owner_id === person?.id;
  const drain = useMutation<number, Error>({
    mutationFn: () => stopWorkers([worker.id]),
    onSuccess: () => {
      refresher.everything();
      notifications.show({ message: "The worker finishes what it has, and ends." });
    },
    onError: (error) => notifications.show({ color: "red", title: "Could not drain", message: error.message }),
  });
  return (
    <WriteButton
      size="compact-xs"
      variant="default"
      loading={drain.isPending}
      whyNot={isMine ? null : "Only who started it, or an admin, may do this."}
      onClick={() => drain.mutate()}
    >
      Drain
    </WriteButton>
  );
}
