/** Where a rollout of the queue is on its way. */

export const PHASES = ["waiting", "provisioning", "running", "verifying", "ended"] as const;
export type Phase = (typeof PHASES)[number];

interface Told {
  status: string;
  status_message: string | null;
  cancelling?: boolean;
}

/** Its phase; verifying is known where its worker says so in the status message. */
export function phaseOf({ status, status_message }: Told): Phase {
  if (status === "pending") return "waiting";
  if (status === "provisioning") return "provisioning";
  if (status !== "running") return "ended";
  return status_message?.startsWith("verifying") ? "verifying" : "running";
}

/** The status in words: while it is on its way its phase, afterwards how it ended. */
export function statusText(told: Told): string {
  const phase = phaseOf(told);
  return phase === "ended" ? told.status : told.cancelling ? "cancelling" : phase;
}
