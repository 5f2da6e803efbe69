/** The sweeps, the latest first. */
import { Button, Code, Group, Progress, Table, Text } from "@mantine/core";
import { Link } from "react-router";
import type { Place } from "@/api/paging.ts";
import { type ListedSweep, nextSweepPage, readSweeps } from "@/api/sweeps.ts";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, PageHead } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { Empty, Failed, Loading } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLivePages } from "@/live/query.ts";
import { number } from "@/view/format.ts";

export default function SweepsPage() {
  const { person } = useAccess();
  return (
    <>
      <PageHead
        title="Sweeps"
        aside={person && <Button component={Link} to="/sweeps/new" size="compact-sm">New sweep</Button>}
      />
      {person ? <Sweeps /> : (
        <Empty title="Sweeps are for members">
          <SignInLink /> to see them.
        </Empty>
      )}
    </>
  );
}

function Sweeps() {
  const pages = useLivePages<ListedSweep[], Place>("*", ["sweeps"], readSweeps, nextSweepPage);
  const sweeps = pages.data?.pages.flat();
  if (!sweeps) {
    return pages.error
      ? <Failed error={pages.error} retry={() => void pages.refetch()} />
      : <Loading what="Reading the sweeps" />;
  }
  if (sweeps.length === 0) {
    return (
      <Empty title="No sweep yet">
        A sweep tries values of a run’s parameters: <Link to="/sweeps/new">start one</Link>, or with{" "}
        <Code>openmanus-rl sweeps new</Code>. A <Link to="/runs/new">new run</Link> with more than one seed is one, too.
      </Empty>
    );
  }
  return (
    <>
      <ScrollTable label="Sweeps" minWidth={720}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Sweep</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th>Method</Table.Th>
            <Table.Th>Metric</Table.Th>
            <Table.Th>Trials begun</Table.Th>
            <Table.Th>Created</Table.Th>
            <Table.Th ta="right">Took</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{sweeps.map((sweep) => <Row key={sweep.id} sweep={sweep} />)}</Table.Tbody>
      </ScrollTable>
      {pages.hasNextPage && (
        <Group justify="center" my="md">
          <Button variant="default" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </>
  );
}

function Row({ sweep }: { sweep: ListedSweep }) {
  return (
    <Table.Tr>
      <Table.Td maw={300}>
        <Text
          component={Link}
          to={`/sweeps/${sweep.id}`}
          size="sm"
          fw={550}
          truncate
          display="block"
          title={plain(sweep.name)}
        >
          {plain(sweep.name)}
        </Text>
        {sweep.status_message && (
          <Text size="xs" c="dimmed" truncate title={plain(sweep.status_message)}>{plain(sweep.status_message)}</Text>
        )}
      </Table.Td>
      <Table.Td>
        <StatusBadge status={sweep.status} />
      </Table.Td>
      <Table.Td>{sweep.method}</Table.Td>
      <Table.Td maw={200}>
        <Text size="sm" truncate title={plain(sweep.metric)}>{plain(sweep.metric)}</Text>
        <Text size="xs" c="dimmed">{sweep.direction}</Text>
      </Table.Td>
      <Table.Td>
        <Progress
          value={100 * sweep.next_trial / sweep.max_trials}
          w={90}
          size="sm"
          aria-label={`${sweep.next_trial} of ${sweep.max_trials} trials`}
        />
        <Text size="xs" c="dimmed" mt={3}>{number(sweep.next_trial)} of {number(sweep.max_trials)}</Text>
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Ago time={sweep.created_at} />
      </Table.Td>
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        <Elapsed from={sweep.started_at} to={sweep.finished_at} />
      </Table.Td>
    </Table.Tr>
  );
}
