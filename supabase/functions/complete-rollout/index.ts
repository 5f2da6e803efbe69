/** POST complete-rollout: end a rollout, or judge it anew. */
import { serve } from "../_shared/serve.ts";
import { completeRollout } from "./complete.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: completeRollout });
