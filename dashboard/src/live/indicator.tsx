import { Badge, Tooltip } from "@mantine/core";
import { useSyncExternalStore } from "react";
import { line } from "./connection.ts";
import type { Line } from "./line.ts";

export function useLine(): Line {
  return useSyncExternalStore(line.subscribe, line.state);
}

const SHOWN: Record<Line, { color: string; label: string; help: string }> = {
  connecting: { color: "gray", label: "Connecting", help: "Opening the live connection." },
  live: { color: "green", label: "Live", help: "What is recorded appears here by itself." },
  lost: {
    color: "red",
    label: "Connection lost",
    help: "The server does not answer. What you see may be old; it is brought up to date as soon as it answers again.",
  },
  resting: { color: "gray", label: "Paused", help: "Live updates go on when this tab is visible." },
};

/** Says whether what is on the page is up to date. */
export function LiveIndicator() {
  const { color, label, help } = SHOWN[useLine()];
  return (
    <Tooltip label={help} multiline w={260}>
      <Badge color={color} variant="dot" role="status" tabIndex={0} data-testid="live">{label}</Badge>
    </Tooltip>
  );
}
