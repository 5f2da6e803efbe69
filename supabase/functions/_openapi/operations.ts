/** What each function is for, what it takes and answers, and an example. */
import * as completeRollout from "../complete-rollout/schema.ts";
import * as getMetrics from "../get-metrics/schema.ts";
import * as logAgentState from "../log-agent-state/schema.ts";
import * as metrics from "../metrics/schema.ts";
import * as submitRollout from "../submit-rollout/schema.ts";
import { v } from "../_shared/deps.ts";
import type { Schema } from "../_shared/input.ts";

export interface Operation {
  method: "get" | "post";
  summary: string;
  description: string;
  /** The JSON body of a POST, the parameters of a GET. */
  input: Schema | null;
  output: Schema;
  /** Who may call: a function that needs no key has none. */
  security: ("secretKey" | "publishableKey" | "userToken")[];
  /** Which errors it answers with, beside those that every function may. */
  errors: number[];
  example: { input: Record<string, unknown>; output: Record<string, unknown> };
}

const RUN_ID = "0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01";
const ROLLOUT_ID = "0192f0c1-7a11-7b02-8f6a-91d3c0e4b702";
const TURN_ID = "0192f0c1-7a12-7d48-a1c9-5e7f3b2d8c03";
const WRITERS: Operation["security"] = ["secretKey", "userToken"];

const health = v.strictObject({
  status: v.picklist(["ok", "unavailable"]),
  version: v.string(),
  database: v.picklist(["ok", "unreachable"]),
});

export const operations: Record<string, Operation> = {
  "submit-rollout": {
    method: "post",
    summary: "Begin a rollout",
    description:
      "Creates a rollout that is running. Repeated with the same `id` it changes nothing and answers the same, " +
      "even after the rollout has ended.",
    input: submitRollout.input,
    output: submitRollout.output,
    security: WRITERS,
    errors: [400, 403, 404, 409, 413],
    example: {
      input: {
        training_run_id: RUN_ID,
        episode_number: 1,
        environment: "alfworld",
        task_description: "Find the red ball",
        metadata: { difficulty: "easy" },
      },
      output: { rollout_id: ROLLOUT_ID, status: "created", message: `rollout ${ROLLOUT_ID} was created` },
    },
  },
  "log-agent-state": {
    method: "post",
    summary: "Add a turn to a rollout",
    description:
      "Writes the turn, its tool calls and its reward, all of them or none. Repeated with the same `id` it " +
      "changes nothing and answers the same; another turn with the same `step_number` is a conflict.",
    input: logAgentState.input,
    output: logAgentState.output,
    security: WRITERS,
    errors: [400, 403, 404, 409, 413],
    example: {
      input: {
        rollout_id: ROLLOUT_ID,
        step_number: 1,
        observation: "You are in a room",
        action: "go north",
        thought: "explore",
        memory_summary: "nothing seen yet",
        tool_calls: [{
          tool_name: "google_search",
          tool_input: { query: "red ball" },
          tool_output: "...",
          success: true,
          execution_time_ms: 150,
        }],
        reward: { value: 1.0, type: "step", details: { reason: "moved" } },
      },
      output: {
        success: true,
        agent_state_id: TURN_ID,
        message: `turn 1 of rollout ${ROLLOUT_ID} was recorded`,
      },
    },
  },
  "complete-rollout": {
    method: "post",
    summary: "End a rollout",
    description:
      "Moves a rollout to a final status. The same request again changes nothing. A rollout that was judged can " +
      "be judged anew (from success to failed and back); with a `change_id` a late repetition of an earlier judgement " +
      "changes nothing either.",
    input: completeRollout.input,
    output: completeRollout.output,
    security: WRITERS,
    errors: [400, 403, 404, 409, 413],
    example: {
      input: { rollout_id: ROLLOUT_ID, status: "success", total_reward: 10.5, step_count: 15 },
      output: {
        success: true,
        rollout: { id: ROLLOUT_ID, status: "success", total_reward: 10.5, step_count: 15 },
        message: `rollout ${ROLLOUT_ID} is success`,
      },
    },
  },
  "get-metrics": {
    method: "get",
    summary: "How rollouts are doing",
    description:
      "Counts, success rate and averages of the rollouts of a run, of an environment, or of all that the caller " +
      "may see. The publishable key sees public runs only.",
    input: getMetrics.input,
    output: getMetrics.output,
    security: ["secretKey", "userToken", "publishableKey"],
    errors: [400, 404],
    example: {
      input: { training_run_id: RUN_ID, environment: "alfworld", limit: 1 },
      output: {
        total_rollouts: 3,
        completed_rollouts: 2,
        successful_rollouts: 1,
        success_rate: 0.5,
        average_reward: 5.25,
        average_steps: 12,
        rollouts: [{ id: ROLLOUT_ID, status: "success", total_reward: 10.5, step_count: 15 }],
      },
    },
  },
  metrics: {
    method: "post",
    summary: "Add a point to metrics of a run",
    description:
      "Every field beside `runId`, `step`, `id` and `timestamp` is a metric. Repeated with the same `id` it " +
      "changes nothing.",
    input: metrics.documented,
    output: metrics.output,
    security: WRITERS,
    errors: [400, 403, 404, 413],
    example: {
      input: { runId: RUN_ID, step: 10, reward: 12.0, loss: 0.31, entropy: 1.4, grad_norm: "NaN" },
      output: { success: true },
    },
  },
  health: {
    method: "get",
    summary: "Is the project up?",
    description: "Answers without a key; 503 when the database does not answer.",
    input: null,
    output: health,
    security: [],
    errors: [],
    example: { input: {}, output: { status: "ok", version: "0.1.0", database: "ok" } },
  },
  openapi: {
    method: "get",
    summary: "This document",
    description: "Answers without a key.",
    input: null,
    output: v.looseObject({ openapi: v.literal("3.1.1"), paths: v.looseObject({}) }),
    security: [],
    errors: [],
    example: { input: {}, output: { openapi: "3.1.1", paths: {} } },
  },
};
