/** A group's rollouts side by side, one a column. */
import { Anchor, Checkbox, Group, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { ComparedRollout } from "@/api/groups.ts";
import { plain } from "@/components/agent_text.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { between, duration, number, shortId, UNKNOWN } from "@/view/format.ts";
import styles from "./page.module.css";

interface Props {
  rollouts: ComparedRollout[];
  turn: number | null;
  selected: string[];
  onSelect: (id: string) => void;
}

interface Line {
  label: string;
  note?: string;
  cell: (rollout: ComparedRollout) => ReactNode;
  isNeeded?: (rollout: ComparedRollout) => boolean;
}

function linesAt(turn: number | null): Line[] {
  const said = (rollout: ComparedRollout, part: "thought" | "action") => {
    const text = rollout.at_parting?.[part];
    return text ? <pre className={`om-agent-text ${styles.said}`}>{plain(text.slice(0, 400))}</pre> : UNKNOWN;
  };
  return [
    { label: "Status", cell: (rollout) => <Status rollout={rollout} /> },
    { label: "Reward", cell: (rollout) => <b>{number(rollout.total_reward)}</b> },
    // Two figures: a trainer may credit every turn by what was earned from it on, and the mean of that need not follow the reward.
    {
      label: "Advantage by reward",
      note: "(reward − mean) ÷ spread",
      cell: (rollout) => number(rollout.computed_advantage, 3),
      isNeeded: (rollout) => rollout.computed_advantage !== null,
    },
    {
      label: "Advantage as recorded",
      note: "mean of its turns",
      cell: (rollout) => number(rollout.advantage, 3),
      isNeeded: (rollout) => rollout.advantage !== null,
    },
    { label: "Turns", cell: (rollout) => number(rollout.step_count) },
    { label: "Took", cell: (rollout) => duration(between(rollout.started_at, rollout.finished_at)) },
    {
      label: "Policy",
      cell: (rollout) => number(rollout.policy_version),
      isNeeded: (rollout) => rollout.policy_version !== null,
    },
    {
      label: "Error",
      cell: (rollout) => rollout.error ? <Text size="xs" lineClamp={4}>{plain(rollout.error)}</Text> : UNKNOWN,
      isNeeded: (rollout) => rollout.error !== null,
    },
    {
      label: `Thought at turn ${turn}`,
      cell: (rollout) => said(rollout, "thought"),
      isNeeded: (rollout) => Boolean(rollout.at_parting?.thought),
    },
    {
      label: `Action at turn ${turn}`,
      cell: (rollout) => said(rollout, "action"),
      isNeeded: (rollout) => Boolean(rollout.at_parting?.action),
    },
    {
      label: "Read",
      cell: (rollout) => (
        <Anchor component={Link} to={`/rollouts/${rollout.id}?turn=${turn}`} size="sm">To turn {turn}</Anchor>
      ),
      isNeeded: (rollout) => rollout.at_parting !== null,
    },
  ];
}

function Status({ rollout }: { rollout: ComparedRollout }) {
  return (
    <Group gap={4}>
      <StatusBadge status={rollout.status} />
      {rollout.overridden && <Text span size="xs" c="dimmed">judged by a person</Text>}
      {rollout.rewound_at && <Text span size="xs" c="dimmed">rewound</Text>}
    </Group>
  );
}

export function Columns({ rollouts, turn, selected, onSelect }: Props) {
  const lines = linesAt(turn).filter(({ isNeeded }) => !isNeeded || rollouts.some(isNeeded));
  return (
    <div className={styles.scroller} role="region" aria-label="Rollouts side by side" tabIndex={0}>
      <Table className={styles.columns} withColumnBorders verticalSpacing={6} horizontalSpacing={10}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th className={styles.sticky} scope="col">Rollout</Table.Th>
            {rollouts.map((rollout) => (
              <Table.Th
                key={rollout.id}
                scope="col"
                id={`column-${rollout.id}`}
                data-selected={selected.includes(rollout.id) || undefined}
              >
                <Group gap={8} wrap="nowrap">
                  <Checkbox
                    size="xs"
                    checked={selected.includes(rollout.id)}
                    onChange={() => onSelect(rollout.id)}
                    aria-label={`Select rollout ${shortId(rollout.id)}`}
                  />
                  <Anchor component={Link} to={`/rollouts/${rollout.id}`} size="sm" className="om-mono">
                    {shortId(rollout.id)}
                  </Anchor>
                </Group>
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {lines.map((line) => (
            <Table.Tr key={line.label}>
              <Table.Th className={styles.sticky} scope="row">
                {line.label}
                {line.note && <Text size="xs" c="dimmed" fw={400}>{line.note}</Text>}
              </Table.Th>
              {rollouts.map((rollout) => <Table.Td key={rollout.id}>{line.cell(rollout)}</Table.Td>)}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
