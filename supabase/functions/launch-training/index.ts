/** POST launch-training: ask for a job that trains a run. */
import { serve } from "../_shared/serve.ts";
import { launchTraining } from "./launch.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: launchTraining });
