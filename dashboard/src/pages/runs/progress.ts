/** How long a run took, and how long it may still take. */
import type { ListedRun } from "@/api/runs.ts";
import { between } from "@/view/format.ts";

type Timed = Pick<
  ListedRun,
  "shown_status" | "progress" | "started_at" | "finished_at" | "heartbeat_at"
>;

/** What would take longer than a year has not come far enough to tell. */
const LONGEST_MS = 365 * 86_400_000;

/** Milliseconds left if it goes on as it did; null unless it runs, has come some way, and is not late already. */
export function timeLeft(run: Timed, now: number): number | null {
  const { progress } = run;
  if (run.shown_status !== "running" || !run.started_at || !progress || progress >= 1) return null;
  const started = new Date(run.started_at).getTime();
  // How far it is was said with the last heartbeat; since then the time left only went down.
  const said = run.heartbeat_at ? new Date(run.heartbeat_at).getTime() : now;
  const left = started + (said - started) / progress - now;
  return left > 0 && left < LONGEST_MS ? left : null;
}

/** Milliseconds from the start to the end, or to now while it runs, or to the last sign of life where that stopped. */
export function durationOf(run: Timed, now: number): number | null {
  if (run.finished_at) return between(run.started_at, run.finished_at);
  if (run.shown_status === "running") return between(run.started_at, new Date(now).toISOString());
  return between(run.started_at, run.heartbeat_at);
}
