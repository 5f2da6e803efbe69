/** The runs of one page as a table that can be sorted and selected from. */
import { Checkbox, Table, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import type { ListedRun, RunSort } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { type Column, columnsOf } from "./columns.tsx";
import classes from "./page.module.css";

interface Props {
  runs: ListedRun[];
  columns: string[];
  sort: RunSort;
  onSort: (sort: RunSort) => void;
  selected: string[];
  onSelect: (ids: string[]) => void;
  /** Another page or order is being read; this is the one before. */
  isOld: boolean;
}

export function RunsTable({ runs, columns, sort, onSort, selected, onSelect, isOld }: Props) {
  const shown = columnsOf(columns);
  const chosen = new Set(selected);
  const toggle = (id: string) =>
    onSelect(chosen.has(id) ? selected.filter((other) => other !== id) : [...selected, id]);
  return (
    <div className={classes.scroller} role="region" aria-label="Runs" tabIndex={0} aria-busy={isOld} data-old={isOld}>
      <Table highlightOnHover className={classes.table}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={36}>
              <SelectPage
                ids={runs.map((run) =>
                  run.id
                )}
                selected={selected}
                onSelect={onSelect}
              />
            </Table.Th>
            {shown.map((column) => <HeaderCell key={column.name} column={column} sort={sort} onSort={onSort} />)}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {runs.map((run) => (
            <Table.Tr key={run.id} bg={chosen.has(run.id) ? "var(--om-sunken)" : undefined}>
              <Table.Td>
                <Checkbox
                  size="xs"
                  checked={chosen.has(run.id)}
                  onChange={() => toggle(run.id)}
                  aria-label={`Select ${plain(run.name)}`}
                />
              </Table.Td>
              {shown.map((column) => (
                <Table.Td key={column.name} className={column.isNumber ? classes.number : undefined}>
                  <div className={classes.cell} style={{ minWidth: column.width }}>{column.show(run)}</div>
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function SelectPage({ ids, selected, onSelect }: Pick<Props, "selected" | "onSelect"> & { ids: string[] }) {
  const here = ids.filter((id) => selected.includes(id));
  const isAll = here.length === ids.length;
  const elsewhere = selected.filter((id) => !ids.includes(id));
  return (
    <Checkbox
      size="xs"
      checked={isAll}
      indeterminate={here.length > 0 && !isAll}
      onChange={() => onSelect(isAll ? elsewhere : [...elsewhere, ...ids])}
      aria-label="Select all on this page"
    />
  );
}

/** Numbers and times are looked at from the largest, words from A. */
function firstDirection(column: Column): RunSort["direction"] {
  return column.isNumber || column.sort?.endsWith("_at") || column.name === "progress" ? "desc" : "asc";
}

function HeaderCell({ column, sort, onSort }: { column: Column } & Pick<Props, "sort" | "onSort">) {
  const isSorted = column.sort === sort.column;
  const next = !isSorted ? firstDirection(column) : sort.direction === "asc" ? "desc" : "asc";
  const Icon = sort.direction === "asc" ? IconArrowUp : IconArrowDown;
  return (
    <Table.Th
      aria-sort={isSorted ? (sort.direction === "asc" ? "ascending" : "descending") : undefined}
      className={column.isNumber ? classes.number : undefined}
    >
      {column.sort
        ? (
          <UnstyledButton className={classes.sort} onClick={() => onSort({ column: column.sort!, direction: next })}>
            {column.label}
            {isSorted && <Icon size={13} aria-hidden />}
          </UnstyledButton>
        )
        : column.label}
    </Table.Th>
  );
}
