/** POST log-agent-state: add a turn, with its tool calls and its reward, to a rollout. */
import { serve } from "../_shared/serve.ts";
import { logAgentState } from "./log.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: logAgentState });
