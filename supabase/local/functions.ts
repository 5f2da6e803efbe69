/** The edge functions that the gateway serves. Written by functions/_openapi/generate.ts; do not edit. */
import completeRollout from "../functions/complete-rollout/index.ts";
import getMetrics from "../functions/get-metrics/index.ts";
import health from "../functions/health/index.ts";
import importEnvironment from "../functions/import-environment/index.ts";
import launchTraining from "../functions/launch-training/index.ts";
import loadArchive from "../functions/load-archive/index.ts";
import logAgentState from "../functions/log-agent-state/index.ts";
import members from "../functions/members/index.ts";
import metrics from "../functions/metrics/index.ts";
import openapi from "../functions/openapi/index.ts";
import rollouts from "../functions/rollouts/index.ts";
import submitRollout from "../functions/submit-rollout/index.ts";
import tasks from "../functions/tasks/index.ts";

export interface EdgeFunction {
  fetch(request: Request): Response | Promise<Response>;
}

export const functions: Record<string, EdgeFunction> = {
  "complete-rollout": completeRollout,
  "get-metrics": getMetrics,
  health,
  "import-environment": importEnvironment,
  "launch-training": launchTraining,
  "load-archive": loadArchive,
  "log-agent-state": logAgentState,
  members,
  metrics,
  openapi,
  rollouts,
  "submit-rollout": submitRollout,
  tasks,
};
