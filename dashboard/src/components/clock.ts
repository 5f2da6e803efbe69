/** One clock for all that shows how long something takes: a page may show a thousand of them. */
import { useSyncExternalStore } from "react";

const TICK_MS = 1_000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((told) => told());
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time in milliseconds, every second anew. */
export function useNow(): number {
  // While nobody listened the clock stood still.
  return useSyncExternalStore(
    subscribe,
    () => timer === undefined ? (now = Math.floor(Date.now() / 1000) * 1000) : now,
  );
}
