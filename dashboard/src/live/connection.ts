/** The line over which the database says that something changed. Open only while someone looks. */
import type { RealtimeChannel } from "@supabase/supabase-js";
import { supabase } from "@/supabase.ts";
import { queryClient, refresher } from "./query.ts";

export type Line = "connecting" | "live" | "lost" | "resting";

/** Signals can get lost on their way: now and then look anyway. */
const LOOK_ANYWAY_MS = 30_000;
const LONGEST_PAUSE_MS = 15_000;

let line: Line = "connecting";
let channel: RealtimeChannel | null = null;
let failures = 0;
let retry: ReturnType<typeof setTimeout> | undefined;
let lookAnyway: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

export function currentLine(): Line {
  return line;
}

export function onLine(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function become(next: Line): void {
  if (line === next) return;
  line = next;
  listeners.forEach((listener) => listener());
}

/** Listen while the tab is visible, and catch up when it becomes visible again. */
export function watch(): void {
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : open()));
  addEventListener("online", () => open());
  if (!document.hidden) open();
}

/** Listen anew, as whoever is signed in now. */
export function reopen(): void {
  close();
  if (!document.hidden) open();
}

function open(): void {
  if (channel) return;
  clearTimeout(retry);
  clearInterval(lookAnyway);
  lookAnyway = setInterval(() => refresher.everything(), LOOK_ANYWAY_MS);
  const opened = supabase().channel(`activity-${crypto.randomUUID()}`);
  channel = opened;
  opened.on(
    "postgres_changes",
    { event: "*", schema: "public", table: "activity" },
    (change) => {
      if (channel === opened) refresher.changed((change.new as { training_run_id?: string }).training_run_id ?? null);
    },
  );
  // Who listens must be known first: a channel that was joined as nobody hears of public runs only.
  void supabase().realtime.setAuth().then(() => {
    if (channel === opened) opened.subscribe((status) => heard(opened, status));
  });
}

function heard(from: RealtimeChannel, status: string): void {
  if (channel !== from) return;
  if (status !== "SUBSCRIBED") return failed();
  failures = 0;
  become("live");
  // What happened while nobody listened.
  refresher.everything();
}

function failed(): void {
  become("lost");
  close();
  const pause = Math.min(1_000 * 2 ** failures++, LONGEST_PAUSE_MS);
  clearTimeout(retry);
  retry = setTimeout(() => {
    if (!document.hidden) open();
  }, pause);
}

function close(): void {
  const closing = channel;
  channel = null;
  clearInterval(lookAnyway);
  if (closing) void supabase().removeChannel(closing);
}

function rest(): void {
  close();
  clearTimeout(retry);
  become("resting");
  refresher.rest();
  void queryClient.cancelQueries();
}
