/**
 * A list of things of unknown height in the window's own scroller, which stays where one looks.
 *
 * What is jumped to is held in its place while the things around it are read and take their heights, until the person moves.
 */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

const HELD_MS = 3_000;
const HEADER_PX = 52;
const MOVING_KEYS = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "]);

type Align = "start" | "end";

interface Options {
  count: number;
  keyOf: (index: number) => string | number;
  estimate: (index: number) => number;
  list: RefObject<HTMLDivElement | null>;
  /** Lies above the list, at the top of the window. */
  toolbar: RefObject<HTMLDivElement | null>;
}

/** Where the list begins in the page, kept true while what is above it grows. */
function useMargin(list: RefObject<HTMLDivElement | null>): number {
  const [margin, setMargin] = useState(0);
  const known = useRef(0);
  useLayoutEffect(() => {
    const measure = () => {
      if (!list.current) return;
      const next = Math.round(list.current.getBoundingClientRect().top + scrollY);
      if (next === known.current) return;
      // One reads on where one was.
      if (known.current && scrollY > known.current) scrollBy(0, next - known.current);
      known.current = next;
      setMargin(next);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, [list]);
  return margin;
}

function usePadding(toolbar: RefObject<HTMLDivElement | null>): number {
  const [padding, setPadding] = useState(HEADER_PX);
  useLayoutEffect(() => {
    const element = toolbar.current;
    if (!element) return;
    const measure = () => {
      const isSticky = getComputedStyle(element).position === "sticky";
      setPadding(HEADER_PX + (isSticky ? element.offsetHeight : 0));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [toolbar]);
  return padding;
}

export function useVirtualTurns({ count, keyOf, estimate, list, toolbar }: Options) {
  const margin = useMargin(list);
  const padding = usePadding(toolbar);
  const held = useRef<{ index: number; align: Align; until: number } | null>(null);
  const virtualizer = useWindowVirtualizer({
    count,
    getItemKey: keyOf,
    estimateSize: estimate,
    overscan: 4,
    scrollMargin: margin,
    scrollPaddingStart: padding,
    scrollPaddingEnd: 16,
  });

  const jump = useCallback((index: number, align: Align = "start") => {
    if (index < 0) return;
    held.current = { index, align, until: performance.now() + HELD_MS };
    virtualizer.scrollToIndex(index, { align });
  }, [virtualizer]);

  useEffect(() => {
    const letGo = () => held.current = null;
    const press = ({ key }: KeyboardEvent) => MOVING_KEYS.has(key) && letGo();
    addEventListener("wheel", letGo, { passive: true });
    addEventListener("touchmove", letGo, { passive: true });
    addEventListener("mousedown", letGo);
    addEventListener("keydown", press);
    return () => {
      removeEventListener("wheel", letGo);
      removeEventListener("touchmove", letGo);
      removeEventListener("mousedown", letGo);
      removeEventListener("keydown", press);
    };
  }, []);

  const total = virtualizer.getTotalSize();
  useLayoutEffect(() => {
    const { index, align, until } = held.current ?? { index: -1, align: "start" as Align, until: 0 };
    if (index >= 0 && performance.now() < until) virtualizer.scrollToIndex(index, { align });
  }, [total, margin, padding, virtualizer]);

  const items = virtualizer.getVirtualItems();
  const top = (virtualizer.scrollOffset ?? 0) + padding;
  const bottom = (virtualizer.scrollOffset ?? 0) + innerHeight;
  const first = items.find(({ end }) => end > top + 8)?.index ?? 0;
  const last = items.findLast(({ start }) => start < bottom)?.index ?? first;
  const isAtEnd = last === count - 1 && (items.at(-1)?.end ?? 0) <= bottom + 48;
  return { virtualizer, items, total, margin, first, last, isAtEnd, jump, held };
}
