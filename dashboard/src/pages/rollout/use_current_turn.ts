/** The turn that is chosen: held by the URL, moved by keys, the map and the search. */
import { useDebouncedCallback } from "@mantine/hooks";
import { useCallback, useEffect, useRef, useState } from "react";
import type { Outline } from "@/api/rollout.ts";

/** Browsers refuse to change the address much more often than this. */
const WRITE_MS = 200;

/** The index of a turn, or of the first after it. */
export function indexOf(outline: Outline, step: number): number {
  let [low, high] = [0, outline.step_numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (outline.step_numbers[middle]! < step) low = middle + 1;
    else high = middle;
  }
  return Math.min(low, outline.step_numbers.length - 1);
}

export function useCurrentTurn(
  outline: Outline,
  inUrl: string | null,
  writeUrl: (turn: string) => void,
  jump: (index: number) => void,
) {
  const [current, setCurrent] = useState<number | null>(null);
  const chosen = useRef<number | null>(null);
  const toFocus = useRef<number | null>(null);
  const written = useRef<number | null>(null);
  const write = useDebouncedCallback((step: number) => {
    written.current = step;
    writeUrl(String(step));
  }, WRITE_MS);

  const select = useCallback((step: number) => {
    const index = indexOf(outline, step);
    const found = outline.step_numbers[index];
    if (found === undefined) return;
    chosen.current = toFocus.current = found;
    setCurrent(found);
    jump(index);
    write(found);
  }, [outline, jump, write]);

  // A link to a turn, Back, or an address that was typed; not what was written here, which may arrive after the next choice.
  const wanted = inUrl === null || !Number.isInteger(Number(inUrl)) ? null : Number(inUrl);
  useEffect(() => {
    const isNews = wanted !== chosen.current && wanted !== written.current;
    if (wanted !== null && isNews && outline.turns > 0) select(wanted);
  }, [wanted, outline.turns > 0]);

  // It may not be there yet when it is chosen; screen readers follow as soon as it is.
  useEffect(() => {
    if (toFocus.current === null) return;
    const element = document.querySelector<HTMLElement>(`[data-turn="${toFocus.current}"]`);
    if (!element) return;
    toFocus.current = null;
    if (!document.activeElement?.closest("input, [role=slider], [role=dialog]")) element.focus({ preventScroll: true });
  });

  return { current, select };
}
