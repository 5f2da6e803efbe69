/** GET get-metrics: how the rollouts of a run, of an environment, or all that the caller may see, are doing. */
import { serve } from "../_shared/serve.ts";
import { getMetrics } from "./read.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: getMetrics });
