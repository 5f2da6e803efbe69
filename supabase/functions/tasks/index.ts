/** GET tasks, GET tasks/{id}, POST tasks/upload: what agents are asked to do, and how it went. */
import { serve } from "../_shared/serve.ts";
import { getTask, listTasks } from "./read.ts";
import { get, list, upload } from "./schema.ts";
import { uploadTasks } from "./upload.ts";

export default serve(
  { ...list, handler: listTasks },
  { ...get, handler: getTask },
  { ...upload, handler: uploadTasks },
);
