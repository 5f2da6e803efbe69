/** Rollouts of the queue: ask for them, look at them, cancel, retry and delete them. */
import { serve } from "../_shared/serve.ts";
import { cancelRollout, deleteRollout, retryRollout } from "./change.ts";
import { getRollout, listRollouts } from "./read.ts";
import { requestRollouts } from "./request.ts";
import { cancel, get, list, remove, request, retry } from "./schema.ts";

export default serve(
  { ...request, handler: requestRollouts },
  { ...list, handler: listRollouts },
  { ...get, handler: getRollout },
  { ...remove, handler: deleteRollout },
  { ...cancel, handler: cancelRollout },
  { ...retry, handler: retryRollout },
);
