/** The compared runs side by side: which are shown, in which colour, and how they stand. */
import { ActionIcon, Group, Switch, Table, Text } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { Link } from "react-router";
import type { ListedRun } from "@/api/runs.ts";
import { columnsOf } from "../runs/columns.tsx";
import list from "../runs/page.module.css";
import classes from "./page.module.css";

export interface Compared {
  id: string;
  name: string;
  color: string;
  isShown: boolean;
  /** null: gone, or not to be seen; undefined: not read yet. */
  listed: ListedRun | null | undefined;
}

const FIGURES = ["status", "progress", "step", "rollouts", "success", "reward", "turns", "duration"];

interface Props {
  runs: Compared[];
  toggle: (id: string) => void;
  remove: (id: string) => void;
}

export function Figures({ runs, toggle, remove }: Props) {
  const columns = columnsOf(FIGURES).filter(({ name }) => name !== "name");
  return (
    <div className={classes.scroller} role="region" aria-label="Key figures" tabIndex={0}>
      <Table className={list.table}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Run</Table.Th>
            {columns.map(({ name, label, isNumber }) => (
              <Table.Th key={name} className={isNumber ? list.number : undefined}>{label}</Table.Th>
            ))}
            <Table.Th>
              <span className={classes.unseen}>Remove</span>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {runs.map((run) => (
            <Table.Tr key={run.id} data-hidden={!run.isShown}>
              <Table.Th scope="row" className={classes.run}>
                <RunName run={run} toggle={() => toggle(run.id)} />
              </Table.Th>
              {run.listed
                ? columns.map((column) => (
                  <Table.Td key={column.name} className={column.isNumber ? list.number : undefined}>
                    <div style={{ minWidth: column.width }}>{column.show(run.listed!)}</div>
                  </Table.Td>
                ))
                : (
                  <Table.Td colSpan={columns.length}>
                    <Text size="sm" c="dimmed">
                      {run.listed === null ? "There is no such run, or you may not see it." : "Reading…"}
                    </Text>
                  </Table.Td>
                )}
              <Table.Td>
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  size="sm"
                  aria-label={`Remove ${run.name}`}
                  onClick={() => remove(run.id)}
                >
                  <IconX size={14} />
                </ActionIcon>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function RunName({ run, toggle }: { run: Compared; toggle: () => void }) {
  return (
    <Group gap={8} wrap="nowrap">
      <Switch
        size="xs"
        checked={run.isShown}
        disabled={!run.listed}
        onChange={toggle}
        aria-label={`Show ${run.name} in the charts`}
      />
      <Swatch color={run.color} isHollow={!run.isShown} />
      <Text component={Link} to={`/runs/${run.id}`} size="sm" fw={550} truncate title={run.name}>{run.name}</Text>
    </Group>
  );
}

export function Swatch({ color, isHollow = false }: { color: string; isHollow?: boolean }) {
  return (
    <span
      className={classes.swatch}
      aria-hidden
      style={{ borderColor: color, background: isHollow ? "transparent" : color }}
    />
  );
}
