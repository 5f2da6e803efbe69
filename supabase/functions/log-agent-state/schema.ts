/** What log-agent-state takes and answers. */
import { v } from "../_shared/deps.ts";
import { count, fields, id, json, name, number, optional, real, text } from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";

/** A tool call's position within its turn is a smallint, from 0. */
export const MAX_TOOL_CALLS = 2 ** 15;

const toolCall = fields({
  tool_name: name("The tool that was called."),
  tool_input: optional(json("What it was given.")),
  tool_output: optional(json("What it gave: a text, or JSON, which is kept as its text.")),
  success: optional(v.boolean("true or false is expected")),
  error_message: optional(text("Why it failed.")),
  execution_time_ms: optional(number("How long it took, in milliseconds.", { min: 0 })),
});

const reward = fields({
  value: real("The reward."),
  type: optional(name("Which component of the reward it is; `step` by default.")),
  details: optional(json("How it came about.")),
});

export const input = fields({
  id: optional(id("The turn's id, made by the client: the request can then be repeated without harm.")),
  rollout_id: id("The rollout."),
  step_number: count("Which turn of the rollout it is, unique within it; 0 is possible."),
  observation: optional(json("What the agent saw: a text, which may be empty, or JSON, which is kept as its text.")),
  action: optional(json("What it did: a text, or JSON, which is kept as its text.")),
  thought: optional(text("What it thought.")),
  memory_summary: optional(text("What it remembers.")),
  tool_calls: optional(v.pipe(
    v.array(toolCall, "a list is expected"),
    v.maxLength(MAX_TOOL_CALLS, `at most ${MAX_TOOL_CALLS} tool calls are possible in a turn`),
    v.description("The tools it called, in order."),
  )),
  reward: optional(reward),
});

export const output = fields({
  success: v.literal(true),
  agent_state_id: id("The turn's id: the client's own if it gave one."),
  message: v.string(),
});

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "Add a turn to a rollout",
  description: "Writes the turn, its tool calls and its reward, all of them or none. Repeated with the same `id` it " +
    "changes nothing and answers the same; another turn with the same `step_number` is a conflict.",
  input,
  output,
  errors: [400, 403, 404, 409, 413],
  example: {
    input: {
      rollout_id: EXAMPLE.rolloutId,
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
      agent_state_id: EXAMPLE.turnId,
      message: `turn 1 of rollout ${EXAMPLE.rolloutId} was recorded`,
    },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
