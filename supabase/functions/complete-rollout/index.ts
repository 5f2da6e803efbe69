/** POST complete-rollout: end a rollout, or judge it anew. */
import { serve } from "../_shared/serve.ts";
import { completeRollout } from "./complete.ts";
import { input } from "./schema.ts";

export default serve({ method: "POST", auth: ["secret", "user"], input, handler: completeRollout });
