/** A plain table that scrolls within its own place, and asks for more where there is more. */
import { Button, Table } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./page.module.css";

export interface Column<T> {
  label: string;
  isNumber?: boolean;
  isWide?: boolean;
  show: (row: T) => ReactNode;
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  more?: { hasMore: boolean; isReading: boolean; read: () => void };
}

export function Listing<T>({ label, columns, rows, keyOf, more }: Props<T>) {
  const classOf = ({ isNumber, isWide }: Column<T>) => (isNumber ? classes.number : isWide ? classes.wide : undefined);
  return (
    <>
      <div className={classes.scroller} role="region" aria-label={label} tabIndex={0}>
        <Table verticalSpacing={5} fz="sm">
          <Table.Thead>
            <Table.Tr>
              {columns.map((column) => (
                <Table.Th key={column.label} scope="col" className={classOf(column)}>{column.label}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row) => (
              <Table.Tr key={keyOf(row)}>
                {columns.map((column) => (
                  <Table.Td key={column.label} className={classOf(column)}>{column.show(row)}</Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {more?.hasMore && (
        <Button size="xs" variant="default" mt="xs" loading={more.isReading} onClick={more.read}>Show more</Button>
      )}
    </>
  );
}

/** What `more` is for a list that is read page by page. */
export function moreOf(query: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }) {
  return { hasMore: query.hasNextPage, isReading: query.isFetchingNextPage, read: () => void query.fetchNextPage() };
}
