/**
 * Write openapi.json, or see whether it is what the schemas say.
 *
 *     deno run --allow-read --allow-write supabase/functions/_openapi/generate.ts [--check]
 */
import { openApi } from "./document.ts";

const target = new URL("../openapi.json", import.meta.url);
const text = `${JSON.stringify(openApi(), null, 2)}\n`;

if (Deno.args.includes("--check")) {
  if (await Deno.readTextFile(target) !== text) {
    console.error("openapi.json is stale; run this without --check");
    Deno.exit(1);
  }
} else {
  await Deno.writeTextFile(target, text);
}
