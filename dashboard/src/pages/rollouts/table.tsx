/** Rollouts as rows: what was asked, how it went, where it belongs. */
import { Anchor, Checkbox, Group, Table, Text, VisuallyHidden } from "@mantine/core";
import { memo } from "react";
import { Link } from "react-router";
import type { FoundRollout, Match } from "@/api/rollouts.ts";
import { Marked, plain } from "@/components/agent_text.tsx";
import { Ago } from "@/components/page.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { between, duration, number, shortId, UNKNOWN } from "@/view/format.ts";
import { agentAndModel } from "./agent_and_model.ts";
import styles from "./page.module.css";

/** Rows of which less is known: lists within a run need no run. */
export type ShownRollout =
  & Omit<FoundRollout, "run_name" | "match" | "overridden">
  & Partial<Pick<FoundRollout, "run_name" | "match" | "overridden">>;

interface Props {
  label: string;
  rows: ShownRollout[];
  find?: string | null;
  selected?: string[];
  onSelect?: (id: string) => void;
  /** Within a step, which run and step is clear. */
  isOfOneStep?: boolean;
}

export function RolloutTable({ label, rows, find = null, selected, onSelect, isOfOneStep = false }: Props) {
  return (
    <div className={styles.scroller} role="region" aria-label={label} tabIndex={0}>
      <Table className={styles.table} highlightOnHover verticalSpacing={5} horizontalSpacing={8}>
        <Table.Thead>
          <Table.Tr>
            {onSelect && (
              <Table.Th w={30}>
                <VisuallyHidden>Selected</VisuallyHidden>
              </Table.Th>
            )}
            <Table.Th w="34%">Rollout</Table.Th>
            {!isOfOneStep && <Table.Th visibleFrom="xs">Run</Table.Th>}
            {!isOfOneStep && <Table.Th ta="right" visibleFrom="xs">Step</Table.Th>}
            <Table.Th>Status</Table.Th>
            <Table.Th ta="right">Reward</Table.Th>
            <Table.Th ta="right">Turns</Table.Th>
            <Table.Th ta="right" visibleFrom="md">Took</Table.Th>
            <Table.Th visibleFrom="md">Environment</Table.Th>
            <Table.Th visibleFrom="xl">Model</Table.Th>
            <Table.Th visibleFrom="xl">Source</Table.Th>
            <Table.Th ta="right" visibleFrom="sm">Created</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <RolloutRow
              key={row.id}
              row={row}
              find={find}
              isSelected={selected?.includes(row.id) ?? false}
              onSelect={onSelect}
              isOfOneStep={isOfOneStep}
            />
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

interface RowProps {
  row: ShownRollout;
  find: string | null;
  isSelected: boolean;
  onSelect?: (id: string) => void;
  isOfOneStep: boolean;
}

// Thousands of rows may be shown: those that did not change are not made anew.
const RolloutRow = memo(function RolloutRow({ row, find, isSelected, onSelect, isOfOneStep }: RowProps) {
  return (
    <Table.Tr data-selected={isSelected || undefined} className={styles.row}>
      {onSelect && (
        <Table.Td>
          <Checkbox
            size="xs"
            checked={isSelected}
            onChange={() => onSelect(row.id)}
            aria-label={`Select rollout ${shortId(row.id)}`}
          />
        </Table.Td>
      )}
      <Table.Td className={styles.what}>
        <What row={row} find={find} />
      </Table.Td>
      {!isOfOneStep && (
        <Table.Td visibleFrom="xs" className={styles.run}>
          <RunLink row={row} />
        </Table.Td>
      )}
      {!isOfOneStep && (
        <Table.Td ta="right" visibleFrom="xs" className={styles.short}>
          <StepLink row={row} />
        </Table.Td>
      )}
      <Table.Td>
        <Group gap={4} wrap="nowrap">
          <StatusBadge status={row.status} />
          {row.overridden && <Text span size="xs" c="dimmed" title="A person judged it anew">judged</Text>}
        </Group>
      </Table.Td>
      <Table.Td ta="right">{number(row.total_reward)}</Table.Td>
      <Table.Td ta="right">{number(row.step_count)}</Table.Td>
      <Table.Td ta="right" visibleFrom="md" className={styles.short}>
        {duration(between(row.started_at, row.finished_at))}
      </Table.Td>
      <Table.Td visibleFrom="md" className={styles.name} title={plain(row.environment)}>
        {plain(row.environment)}
      </Table.Td>
      <Table.Td visibleFrom="xl" className={styles.name} title={plain(agentAndModel(row) ?? "")}>
        {plain(agentAndModel(row) ?? UNKNOWN)}
      </Table.Td>
      <Table.Td visibleFrom="xl">{row.source}</Table.Td>
      <Table.Td ta="right" visibleFrom="sm" className={styles.short}>
        <Ago time={row.created_at} />
      </Table.Td>
    </Table.Tr>
  );
});

function What({ row, find }: { row: ShownRollout; find: string | null }) {
  const described = row.task_description?.trim().slice(0, 200);
  return (
    <>
      <Anchor component={Link} to={`/rollouts/${row.id}`} size="sm" lineClamp={1}>
        {described ? plain(described) : `Rollout ${shortId(row.id)}`}
      </Anchor>
      {row.error && !row.match && <Text size="xs" c="dimmed" lineClamp={1}>{plain(row.error)}</Text>}
      {row.match && <Hit id={row.id} match={row.match} find={find} />}
    </>
  );
}

const FIELDS: Record<string, string> = {
  task_description: "task",
  tool_input: "tool input",
  tool_output: "tool output",
};

const CHARS_BEFORE = 24;

/** The snippet in one line, with what was found near its beginning, so that it is in sight where there is little room. */
function around(snippet: string, find: string | null): string {
  const text = snippet.replace(/\s+/g, " ");
  const at = find ? text.toLowerCase().indexOf(find.replace(/\s+/g, " ").toLowerCase()) : -1;
  return at > CHARS_BEFORE + 6 ? `…${text.slice(at - CHARS_BEFORE)}` : text;
}

/** Where the text was found, and the way there. */
function Hit({ id, match, find }: { id: string; match: Match; find: string | null }) {
  const query = new URLSearchParams(find ? { find } : {});
  if (match.step_number !== null) query.set("turn", String(match.step_number));
  const field = FIELDS[match.field] ?? match.field;
  return (
    <Link className={styles.hit} to={`/rollouts/${id}?${query}`}>
      <span className={styles.place}>
        {match.step_number === null ? field : `Turn ${match.step_number} · ${field}`}
      </span>
      <span className="om-agent-text">
        <Marked text={around(match.snippet, find)} find={find?.replace(/\s+/g, " ")} />
      </span>
    </Link>
  );
}

function RunLink({ row }: { row: ShownRollout }) {
  if (!row.training_run_id) return UNKNOWN;
  return (
    <Anchor component={Link} to={`/runs/${row.training_run_id}`} size="sm" lineClamp={1}>
      {plain(row.run_name ?? shortId(row.training_run_id))}
    </Anchor>
  );
}

function StepLink({ row }: { row: ShownRollout }) {
  return (
    <>
      {row.training_run_id && row.step !== null
        ? (
          <Anchor component={Link} to={`/runs/${row.training_run_id}/steps/${row.step}`} size="sm">
            {number(row.step)}
          </Anchor>
        )
        : number(row.step)}
      {row.group_id && (
        <Anchor component={Link} to={`/groups/${row.group_id}`} size="xs" ml={6} c="dimmed">group</Anchor>
      )}
    </>
  );
}
