/** The part of a job's log that is looked at: its end, kept up to date, and what is before it on request. */
import { useCallback, useEffect, useRef, useState } from "react";
import { readJobLogs } from "@/api/jobs.ts";
import { useLive } from "@/live/query.ts";
import { appended, type LogWindow, NOTHING, pageOf, prepended } from "./log_window.ts";

/** A log grows without a signal. */
const LOOK_AGAIN_MS = 1_500;
const PAGE_BYTES = 262_144;
/** The largest piece: a page that begins within one has nothing. */
const MOST_IN_A_PIECE = 1_048_576;

export interface Log {
  window: LogWindow;
  /** How long the whole log is. */
  end: number;
  attempts: number;
  error: Error | null;
  isReading: boolean;
  readEarlier: () => Promise<void>;
  /** Forget what is shown and show the end. */
  showEnd: () => void;
}

export function useLog(runId: string, jobId: string, attempt: number, isActive: boolean): Log {
  const probe = useLive(
    runId,
    ["job log end", jobId, attempt],
    (signal) => readJobLogs(jobId, attempt, Number.MAX_SAFE_INTEGER, signal),
    { everyMs: isActive ? LOOK_AGAIN_MS : undefined },
  );
  const [window, setWindow] = useState(NOTHING);
  const [error, setError] = useState<Error | null>(null);
  const [isReading, setReading] = useState(false);
  const held = useRef(window);
  const follows = useRef(true);
  const busy = useRef(false);
  const end = probe.data?.end ?? 0;

  const show = useCallback((next: LogWindow) => {
    held.current = next;
    setWindow(next);
  }, []);
  const alone = useCallback(async (work: () => Promise<void>) => {
    if (busy.current) return;
    busy.current = true;
    setReading(true);
    try {
      await work();
      setError(null);
    } catch (problem) {
      setError(problem as Error);
    } finally {
      busy.current = false;
      setReading(false);
    }
  }, []);

  useEffect(() => {
    const leaving = new AbortController();
    if (end > held.current.end && follows.current) {
      void alone(async () => {
        await toTheEnd(jobId, attempt, held.current, end, leaving.signal, (next) => {
          if (!leaving.signal.aborted) show(next);
        });
      });
    }
    return () => leaving.abort();
  }, [alone, attempt, end, jobId, show]);

  const readEarlier = useCallback(() =>
    alone(async () => {
      const { start } = held.current;
      if (start === 0) return;
      const page = await pageBefore(jobId, attempt, start, new AbortController().signal);
      const next = prepended(held.current, page);
      // What was at the end may have had to go: until one asks for the end, nothing is added there.
      follows.current = next.end >= held.current.end;
      show(next);
    }), [alone, attempt, jobId, show]);

  const showEnd = useCallback(() => {
    if (follows.current) return;
    follows.current = true;
    show(NOTHING);
    void probe.refetch();
    void alone(() => toTheEnd(jobId, attempt, NOTHING, end, new AbortController().signal, show));
  }, [alone, attempt, end, jobId, probe, show]);

  return {
    window,
    end,
    attempts: probe.data?.attempts ?? attempt,
    error: error ?? (probe.data ? null : probe.error),
    isReading: isReading || probe.isPending,
    readEarlier,
    showEnd,
  };
}

/** Read what is missing up to the end; of much, only the last. */
async function toTheEnd(
  jobId: string,
  attempt: number,
  from: LogWindow,
  end: number,
  signal: AbortSignal,
  show: (window: LogWindow) => void,
): Promise<void> {
  let window = from;
  if (end - window.end > 2 * PAGE_BYTES) {
    window = await pageBefore(jobId, attempt, end, signal);
    show(window);
  }
  while (window.end < end) {
    const { text, next } = await readJobLogs(jobId, attempt, window.end, signal);
    if (text === "") return;
    window = appended(window, pageOf(text, next));
    show(window);
  }
}

/** What is before a place: at least a page, unless the log begins there. */
async function pageBefore(jobId: string, attempt: number, place: number, signal: AbortSignal): Promise<LogWindow> {
  for (let back = PAGE_BYTES;; back += MOST_IN_A_PIECE) {
    const from = Math.max(0, place - back);
    let window = NOTHING;
    for (let at = from; at < place; at = window.end) {
      const { text, next } = await readJobLogs(jobId, attempt, at, signal);
      if (text === "") break;
      window = appended(window, pageOf(text, next));
    }
    // Within a long piece, the first that begins after `from` may begin after the place too.
    if ((window.text !== "" && window.start < place) || from === 0) return window;
  }
}
