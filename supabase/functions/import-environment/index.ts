/** POST import-environment: draft an environment from a paper. */
import { serve } from "../_shared/serve.ts";
import { importer } from "./import.ts";
import { input, operation } from "./schema.ts";

export default serve({ ...operation, input, handler: importer() });
