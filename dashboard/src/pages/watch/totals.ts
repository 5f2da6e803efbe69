/** What the counts by status add up to. */
import { isUnfinished } from "@/api/queue.ts";

export interface Totals {
  all: number;
  unfinished: number;
  /** Judged: solved, or not. */
  verified: number;
  solved: number;
}

export function totalsOf(counts: Record<string, number>): Totals {
  const sum = (of: (status: string) => boolean) =>
    Object.entries(counts).reduce((total, [status, count]) => of(status) ? total + count : total, 0);
  return {
    all: sum(() => true),
    unfinished: sum(isUnfinished),
    verified: sum((status) => status === "success" || status === "failed"),
    solved: counts.success ?? 0,
  };
}

const ORDER = ["success", "completed", "failed", "error", "timeout", "truncated", "interrupted", "cancelled"];

/** The statuses that occur: how they ended, then what is on its way, then what waits. */
export function inOrder(counts: Record<string, number>): [status: string, count: number][] {
  const all = [...ORDER, "running", "provisioning", "pending"];
  return all.flatMap((status): [string, number][] => counts[status] ? [[status, counts[status]]] : []);
}
