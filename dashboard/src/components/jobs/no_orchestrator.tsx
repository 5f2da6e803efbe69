import { Alert, Code } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { jobsOverview } from "@/api/jobs.ts";
import { useLive } from "@/live/query.ts";

/** That an orchestrator fell silent sends no signal. */
const LOOK_AGAIN_MS = 5_000;

export function useJobsOverview() {
  return useLive("*", ["jobs overview"], jobsOverview, { everyMs: LOOK_AGAIN_MS });
}

/** Without an orchestrator a job would wait, and nobody would know why. */
export function NoOrchestrator({ backend }: { backend: string }) {
  const overview = useJobsOverview().data;
  const isServed = overview?.orchestrators.some((each) =>
    each.state === "active" && !each.is_silent && each.backends.includes(backend)
  );
  if (!overview || isServed) return null;
  return (
    <Alert
      color="orange"
      icon={<IconAlertTriangle aria-hidden />}
      role="status"
      title={backend === "skypilot" ? "No orchestrator with SkyPilot is alive" : "No orchestrator is alive"}
    >
      A job waits until one is. Start it on{" "}
      {backend === "skypilot" ? "a machine that has SkyPilot" : "the machine that trains"}:{" "}
      <Code>openmanus-rl orchestrator</Code>
    </Alert>
  );
}
