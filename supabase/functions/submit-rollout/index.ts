/** POST submit-rollout: begin a rollout. */
import { serve } from "../_shared/serve.ts";
import { input, operation } from "./schema.ts";
import { submitRollout } from "./submit.ts";

export default serve({ ...operation, input, handler: submitRollout });
