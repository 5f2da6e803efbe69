/** POST load-archive: copy the turns of a rollout, or the metric points of a run, from an archive back to be read. */
import { serve } from "../_shared/serve.ts";
import { loadArchive } from "./load.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: loadArchive });
