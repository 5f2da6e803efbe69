/** The turns of a rollout, one below the other, however many they are. */
import { memo, type Ref } from "react";
import type { Outline, Turn } from "@/api/rollout.ts";
import styles from "./page.module.css";
import type { PartName } from "./shown_parts.tsx";
import { TurnArticle } from "./turn.tsx";
import { estimateHeight, Unread, useTurn } from "./turn_slot.tsx";
import type { useVirtualTurns } from "./use_virtual_turns.ts";

interface Shown {
  id: string;
  runId: string | null;
  outline: Outline;
  hidden: ReadonlySet<PartName>;
  find: string | null;
  /** The address of the view, to which a turn adds itself. */
  address: (step: number) => string;
  /** When a turn begins in the video. */
  secondsOf?: (step: number) => number | null;
  onSelect: (step: number) => void;
  onRaw: (turn: Turn) => void;
}

interface Props extends Shown {
  current: number | null;
  turns: ReturnType<typeof useVirtualTurns>;
  listRef: Ref<HTMLDivElement>;
}

export function Timeline({ turns, listRef, current, ...shown }: Props) {
  const { virtualizer, items, total, margin } = turns;
  return (
    <div ref={listRef} className={styles.list} style={{ height: total }}>
      {items.map(({ key, index, start }) => (
        <div
          key={key}
          ref={virtualizer.measureElement}
          data-index={index}
          className={styles.slot}
          style={{ transform: `translateY(${start - margin}px)` }}
        >
          <Slot {...shown} index={index} isCurrent={current === shown.outline.step_numbers[index]} />
        </div>
      ))}
    </div>
  );
}

const Slot = memo(
  function Slot({ id, runId, outline, index, ...shown }: Shown & { index: number; isCurrent: boolean }) {
    const { turn, query } = useTurn(id, runId, outline, index);
    const step = outline.step_numbers[index]!;
    if (!turn && query.error) return <Unread retry={() => void query.refetch()} />;
    return (
      <TurnArticle
        step={step}
        turn={turn}
        height={estimateHeight(outline, index)}
        isCurrent={shown.isCurrent}
        hidden={shown.hidden}
        find={shown.find}
        address={shown.address(step)}
        videoSeconds={shown.secondsOf?.(step) ?? null}
        onSelect={shown.onSelect}
        onRaw={shown.onRaw}
      />
    );
  },
);
