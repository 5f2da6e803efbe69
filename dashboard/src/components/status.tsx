import { Badge } from "@mantine/core";
import type { EvaluationStatus, JobStatus, RolloutStatus, RunStatus, StepStatus, Verdict } from "@/database.ts";

type Shown = RunStatus | StepStatus | EvaluationStatus | RolloutStatus | JobStatus | Verdict | Told;
/** What is told of runs, of rollouts on their way and of workers in place of a status. */
type Told = "stalled" | "waiting" | "verifying" | "cancelling" | "active" | "draining" | "silent" | "stopped" | Ended;
/** What became of a key. */
type Ended = "revoked" | "expired";

const COLORS: Record<Shown, string> = {
  pending: "gray",
  queued: "gray",
  provisioning: "blue",
  launching: "blue",
  running: "blue",
  completed: "green",
  success: "green",
  succeeded: "green",
  pass: "green",
  failed: "red",
  fail: "red",
  error: "red",
  stalled: "orange",
  interrupted: "orange",
  truncated: "yellow",
  timeout: "yellow",
  cancelled: "gray",
  waiting: "gray",
  verifying: "blue",
  cancelling: "orange",
  active: "green",
  draining: "yellow",
  silent: "red",
  stopped: "gray",
  revoked: "gray",
  expired: "gray",
};

/** The history of statuses may know one that is gone. */
export function colorOf(status: string): string {
  const colors: Partial<Record<string, string>> = COLORS;
  return colors[status] ?? "gray";
}

export function StatusBadge({ status }: { status: string | null | undefined }) {
  if (!status) return null;
  return <Badge className="om-status" data-color={colorOf(status)} variant="default">{status}</Badge>;
}
