/** Add a turn, its tool calls and its reward: all of them or none. */
import type { RecordKind } from "../_shared/constants.ts";
import { conflict, FunctionError } from "../_shared/errors.ts";
import { uuid7 } from "../_shared/ids.ts";
import { given, ingest } from "../_shared/record.ts";
import type { Call } from "../_shared/serve.ts";
import type { Input, Output } from "./schema.ts";

export async function logAgentState(call: Call<Input>): Promise<Output> {
  const { input } = call;
  const turnId = input.id ?? uuid7();
  try {
    await ingest(call, { agent_states: [turn(turnId, input)] }, [
      { field: "rollout_id", table: "rollouts", id: input.rollout_id },
    ]);
  } catch (error) {
    throw error instanceof FunctionError && error.status === 409 ? explainConflict(error, input) : error;
  }
  const message = `turn ${input.step_number} of rollout ${input.rollout_id} was recorded`;
  return { success: true, agent_state_id: turnId, message };
}

/** The turn as `ingest` takes it, with what belongs to it inside. */
function turn(turnId: string, input: Input): Record<string, unknown> {
  const { id: _, tool_calls, reward, ...state } = input;
  return given({
    ...state,
    id: turnId,
    observation: asText(state.observation),
    action: asText(state.action),
    tool_calls: tool_calls?.map((call) => given({ ...call, tool_output: asText(call.tool_output) })),
    rewards: reward && [given({ reward: reward.value, reward_type: reward.type, details: reward.details })],
  });
}

function asText(value: unknown): string | null {
  if (value == null) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What `ingest` says of a record that it refused. */
interface Refused {
  kind?: RecordKind;
  field?: string | null;
}

function explainConflict(refusal: FunctionError, { rollout_id, step_number, reward }: Input): FunctionError {
  const { kind, field } = (refusal.details ?? {}) as Refused;
  // The columns of the key that is taken; a turn of this id that is another rollout's is refused for rollout_id alone.
  const isTaken = field?.split(", ").includes("step_number") ?? false;
  if (kind === "agent_states" && isTaken) {
    return conflict(
      `rollout ${rollout_id} already has a turn with step_number ${step_number}; ` +
        "to repeat a request send the id it was sent with, to add a turn another step_number",
    );
  }
  // A reward that the turn holds itself, or one beside it.
  if (kind === "agent_states" && field === "reward" || kind === "rewards" && isTaken) {
    return conflict(
      `rollout ${rollout_id} already has a reward of type ${reward?.type ?? "step"} for step_number ${step_number}; ` +
        "leave the reward out, or give it another type",
    );
  }
  return refusal;
}
