/** Rollouts that were made at a step outside of any group, and what was measured then. */
import { Anchor, Button, Group, Table, Text } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "react-router";
import { evaluationsAt, LOOSE_PAGE, type LooseRollout, looseRollouts } from "@/api/groups.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { Failed } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
import { RolloutTable } from "@/pages/rollouts/table.tsx";
import { number, percent, shortId } from "@/view/format.ts";
import styles from "./page.module.css";

interface Props {
  runId: string;
  step: number;
}

export function LooseRollouts({ runId, step }: Props) {
  const pages = useLivePages<LooseRollout[], string>(
    runId,
    ["loose-rollouts", runId, step],
    (after, signal) => looseRollouts(runId, step, after, signal),
    (page) => page.length < LOOSE_PAGE ? null : page.at(-1)!.id,
  );
  const rows = useMemo(() => pages.data?.pages.flat() ?? [], [pages.data]);
  if (pages.error && !pages.data) return <Failed error={pages.error} retry={() => void pages.refetch()} />;
  if (rows.length === 0) return null;
  return (
    <Section title="Rollouts without a group">
      <RolloutTable label="Table of rollouts without a group" rows={rows} isOfOneStep />
      <Group mt="xs" gap="sm">
        <Text size="sm" c="dimmed">{number(rows.length)} shown</Text>
        {pages.hasNextPage && (
          <Button
            size="compact-sm"
            variant="default"
            loading={pages.isFetchingNextPage}
            onClick={() => void pages.fetchNextPage()}
          >
            Load more
          </Button>
        )}
      </Group>
    </Section>
  );
}

export function StepEvaluations({ runId, step }: Props) {
  const { data = [] } = useLive(
    runId,
    ["step-evaluations", runId, step],
    (signal) => evaluationsAt(runId, step, signal),
  );
  if (data.length === 0) return null;
  const found = new URLSearchParams({ run: runId, step_from: String(step), step_to: String(step) });
  found.append("source", "evaluation");
  found.append("source", "baseline");
  return (
    <Section title="Evaluations at this step">
      <div className={styles.scroller} role="region" aria-label="Table of evaluations" tabIndex={0}>
        <Table className={styles.table} verticalSpacing={5} horizontalSpacing={8}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Evaluation</Table.Th>
              <Table.Th>Status</Table.Th>
              <Table.Th ta="right">Success rate</Table.Th>
              <Table.Th ta="right">Mean reward</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {data.map((one) => (
              <Table.Tr key={one.id}>
                <Table.Td>{plain(one.name ?? one.model ?? `${one.kind} ${shortId(one.id)}`)}</Table.Td>
                <Table.Td>
                  <StatusBadge status={one.status} />
                </Table.Td>
                <Table.Td ta="right">{percent(one.success_rate)}</Table.Td>
                <Table.Td ta="right">{number(one.mean_reward)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      <Anchor component={Link} to={`/rollouts?${found}`} size="sm" mt="xs" display="inline-block">
        Rollouts of evaluations at this step
      </Anchor>
    </Section>
  );
}
