/** POST submit-rollout: begin a rollout. */
import { serve } from "../_shared/serve.ts";
import { input } from "./schema.ts";
import { submitRollout } from "./submit.ts";

export default serve({ method: "POST", auth: ["secret", "user"], input, handler: submitRollout });
