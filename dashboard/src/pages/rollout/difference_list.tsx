/** The turns of two rollouts, aligned by their numbers; equal stretches are one line. */
import { Anchor, Button, Group, Text } from "@mantine/core";
import { memo, useCallback, useEffect, useRef } from "react";
import type { Outline } from "@/api/rollout.ts";
import { Empty } from "@/components/states.tsx";
import { number } from "@/view/format.ts";
import { DifferenceTurn } from "./difference_turn.tsx";
import type { DifferenceRow } from "./differences.ts";
import { useKeys } from "./keys.tsx";
import styles from "./page.module.css";
import { estimateHeight, useTurn } from "./turn_slot.tsx";
import { indexOf } from "./use_current_turn.ts";
import { useVirtualTurns } from "./use_virtual_turns.ts";

interface Props {
  ids: readonly [string, string];
  runIds: readonly [string | null, string | null];
  outlines: readonly [Outline, Outline];
  rows: DifferenceRow[];
  onOpen: (from: number) => void;
}

const SAME_PX = 48;

function isDifference(row: DifferenceRow | undefined): boolean {
  return row?.kind === "turn" && !row.isSame;
}

export function DifferenceList({ rows, onOpen, ...shown }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const toolbar = useRef<HTMLDivElement>(null);
  const { outlines } = shown;
  const turns = useVirtualTurns({
    count: rows.length,
    keyOf: useCallback((index: number) => {
      const row = rows[index]!;
      return row.kind === "same" ? `same ${row.from}` : row.step;
    }, [rows]),
    estimate: useCallback((index: number) => {
      const row = rows[index]!;
      if (row.kind === "same") return SAME_PX;
      return 1.3 * Math.max(...outlines.map((outline) => estimateHeight(outline, indexOf(outline, row.step))));
    }, [rows, outlines]),
    list,
    toolbar,
  });
  const { virtualizer, items, total, margin, first, jump } = turns;

  const firstDifference = rows.findIndex(isDifference);
  const hasJumped = useRef(false);
  useEffect(() => {
    if (hasJumped.current || !margin) return;
    hasJumped.current = true;
    // The heads stay in sight where the first difference is near them.
    if (firstDifference > 1) jump(firstDifference);
  }, [firstDifference, margin, jump]);

  const seek = (by: number) => {
    for (let index = first + by; index >= 0 && index < rows.length; index += by) {
      if (isDifference(rows[index])) return jump(index);
    }
  };
  useKeys({ n: () => seek(1), N: () => seek(-1), j: () => seek(1), k: () => seek(-1), g: () => jump(firstDifference) });

  if (!rows.length) return <Empty title="Neither has turns">Turns appear here as they are recorded.</Empty>;
  const count = rows.filter(isDifference).length;
  return (
    <>
      <div ref={toolbar} className={styles.toolbar} role="toolbar" aria-label="Differences">
        <Text size="sm" role="status">
          {count === 0
            ? "All turns are the same."
            : `${number(count)} ${count === 1 ? "turn differs" : "turns differ"}.`}
        </Text>
        {count > 0 && (
          <Group gap={6} ml="auto">
            <Button size="compact-xs" variant="default" onClick={() => jump(firstDifference)}>First difference</Button>
            <Button size="compact-xs" variant="default" title="Key N" onClick={() => seek(-1)}>Previous</Button>
            <Button size="compact-xs" variant="default" title="Key n" onClick={() => seek(1)}>Next</Button>
          </Group>
        )}
      </div>
      <div ref={list} className={styles.list} style={{ height: total }}>
        {items.map(({ key, index, start }) => (
          <div
            key={key}
            ref={virtualizer.measureElement}
            data-index={index}
            className={styles.slot}
            style={{ transform: `translateY(${start - margin}px)` }}
          >
            <Row {...shown} row={rows[index]!} onOpen={onOpen} />
          </div>
        ))}
      </div>
    </>
  );
}

type RowProps = Omit<Props, "rows"> & { row: DifferenceRow };

const Row = memo(function Row({ row, onOpen, ...shown }: RowProps) {
  if (row.kind === "turn") return <Pair {...shown} step={row.step} isSame={row.isSame} />;
  return (
    <div className={styles.same}>
      <Text size="sm">Turns {row.from}–{row.to} are the same</Text>
      <Anchor component="button" type="button" size="sm" onClick={() => onOpen(row.from)}>Show them</Anchor>
    </div>
  );
});

function Pair(
  { ids, runIds, outlines, step, isSame }: Omit<RowProps, "row" | "onOpen"> & { step: number; isSame: boolean },
) {
  const places = outlines.map((outline) => {
    const index = indexOf(outline, step);
    return outline.step_numbers[index] === step ? index : -1;
  });
  const one = useTurn(ids[0], runIds[0], outlines[0], places[0]!);
  const other = useTurn(ids[1], runIds[1], outlines[1], places[1]!);
  const turns = [places[0]! < 0 ? null : one.turn, places[1]! < 0 ? null : other.turn] as const;
  return <DifferenceTurn step={step} isSame={isSame} ids={ids} turns={turns} />;
}
