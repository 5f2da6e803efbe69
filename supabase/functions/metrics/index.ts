/** POST metrics: add a point to any number of a run's metrics. */
import { serve } from "../_shared/serve.ts";
import { recordMetrics } from "./record.ts";
import { input } from "./schema.ts";

export default serve({ method: "POST", auth: ["secret", "user"], input, handler: recordMetrics });
