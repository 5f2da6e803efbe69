import { Badge } from "@mantine/core";

const COLORS: Record<string, string> = {
  pending: "gray",
  queued: "gray",
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
};

export function StatusBadge({ status }: { status: string | null | undefined }) {
  if (!status) return null;
  return <Badge className="om-status" data-color={COLORS[status] ?? "gray"} variant="default">{status}</Badge>;
}
