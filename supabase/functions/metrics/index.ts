/** POST metrics: add a point to any number of a run's metrics. */
import { serve } from "../_shared/serve.ts";
import { recordMetrics } from "./record.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: recordMetrics });
