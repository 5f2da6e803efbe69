/** The whole rollout on one strip: rewards as bars, tool errors and hits as marks; a click goes there. */
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useMantineColorScheme } from "@mantine/core";
import { type KeyboardEvent, memo, type PointerEvent, useEffect, useRef } from "react";
import type { Outline } from "@/api/rollout.ts";
import styles from "./page.module.css";

interface Props {
  outline: Outline;
  /** Indexes of turns in which the searched text is. */
  hits: readonly number[];
  /** Indexes of the turns in view. */
  first: number;
  last: number;
  onJump: (index: number) => void;
}

interface Stretch {
  /** The largest and the smallest reward; 0 where there is none above or below it. */
  high: number;
  low: number;
  hasError: boolean;
  isHit: boolean;
}

/** The turns of each line of pixels, put together: the rewards furthest from zero, and whether anything failed. */
export function stretches(outline: Outline, hits: readonly number[], lines: number): Stretch[] {
  const count = outline.turns;
  const made = Array.from(
    { length: Math.min(lines, count) },
    () => ({ high: 0, low: 0, hasError: false, isHit: false }),
  );
  const at = (index: number) => made[Math.min(made.length - 1, Math.floor(index * made.length / count))]!;
  for (let index = 0; index < count; index++) {
    const stretch = at(index);
    const reward = Number(outline.rewards[index] ?? 0);
    if (Number.isFinite(reward)) {
      stretch.high = Math.max(stretch.high, reward);
      stretch.low = Math.min(stretch.low, reward);
    }
    if (outline.tool_errors[index]! > 0) stretch.hasError = true;
  }
  for (const index of hits) if (index >= 0 && index < count) at(index).isHit = true;
  return made;
}

function draw(canvas: HTMLCanvasElement, outline: Outline, hits: readonly number[], width: number, height: number) {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  const shown = stretches(outline, hits, Math.floor(height / 2));
  const each = height / Math.max(shown.length, 1);
  const largest = shown.reduce((most, { high, low }) => Math.max(most, high, -low), 0) || 1;
  const hasNegative = shown.some(({ low }) => low < 0);
  const zero = hasNegative ? width / 2 : 5;
  const room = hasNegative ? width / 2 - 5 : width - 10;
  context.fillStyle = "#8a939c";
  context.fillRect(zero, 0, 0.5, height);
  shown.forEach(({ high, low, hasError, isHit }, line) => {
    const top = line * each;
    const thick = Math.max(1, Math.min(each - (each > 3 ? 1 : 0), 8));
    context.fillStyle = "#0f8f94";
    if (high) context.fillRect(zero, top, Math.max(room * high / largest, 1), thick);
    context.fillStyle = "#d9622b";
    if (low) context.fillRect(zero + room * low / largest, top, Math.max(-room * low / largest, 1), thick);
    context.fillStyle = "#e03131";
    if (hasError) context.fillRect(0, top, 4, Math.max(thick, 2));
    context.fillStyle = "#f2b705";
    if (isHit) context.fillRect(width - 4, top, 4, Math.max(thick, 2));
  });
}

const Strip = memo(function Strip({ outline, hits, width, height }: {
  outline: Outline;
  hits: readonly number[];
  width: number;
  height: number;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { colorScheme } = useMantineColorScheme();
  useEffect(() => {
    if (canvas.current && width && height) draw(canvas.current, outline, hits, width, height);
  }, [outline, hits, width, height, colorScheme]);
  return <canvas ref={canvas} aria-hidden />;
});

export function Minimap({ outline, hits, first, last, onJump }: Props) {
  const { ref: sized, width, height } = useElementSize<HTMLDivElement>();
  const box = useRef<HTMLDivElement>(null);
  const ref = useMergedRef(sized, box);
  const count = outline.turns;

  const point = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    const { top, height } = box.current!.getBoundingClientRect();
    const index = Math.floor((event.clientY - top) / height * count);
    onJump(Math.max(0, Math.min(count - 1, index)));
  };
  const press = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.round(count / 10));
    const to = {
      ArrowDown: first + 1,
      ArrowUp: first - 1,
      PageDown: first + page,
      PageUp: first - page,
      Home: 0,
      End: count - 1,
    };
    const index = to[event.key as keyof typeof to];
    if (index === undefined) return;
    event.preventDefault();
    onJump(Math.max(0, Math.min(count - 1, index)));
  };
  const from = outline.step_numbers[first] ?? 0;
  return (
    <div
      ref={ref}
      className={styles.map}
      role="slider"
      tabIndex={0}
      aria-label="Map of the turns"
      aria-orientation="vertical"
      aria-valuemin={outline.step_numbers[0] ?? 0}
      aria-valuemax={outline.step_numbers.at(-1) ?? 0}
      aria-valuenow={from}
      aria-valuetext={`Turn ${from}`}
      title="Rewards of all turns; red marks are failed tools, yellow ones are hits of the search"
      onPointerDown={point}
      onPointerMove={point}
      onKeyDown={press}
    >
      <Strip outline={outline} hits={hits} width={width} height={height} />
      <div
        className={styles.map_view}
        style={{ top: `${first / count * 100}%`, height: `${(last - first + 1) / count * 100}%` }}
      />
    </div>
  );
}
