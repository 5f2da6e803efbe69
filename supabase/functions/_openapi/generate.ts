/**
 * Write what follows from the functions' folders and their entries in config.toml, or see whether it is up to date:
 * openapi.json, and the gateway's list in local/functions.ts.
 *
 *     deno run --allow-read --allow-write --allow-env supabase/functions/_openapi/generate.ts [--check]
 */
import { openApi } from "./document.ts";
import { functionNames, gatewayModule, readOperations } from "./functions.ts";

const names = await functionNames();
const written: [path: string, text: string][] = [
  ["../openapi.json", `${JSON.stringify(openApi(await readOperations(names)), null, 2)}\n`],
  ["../../local/functions.ts", gatewayModule(names)],
];

for (const [path, text] of written) {
  const target = new URL(path, import.meta.url);
  if (!Deno.args.includes("--check")) {
    await Deno.writeTextFile(target, text);
  } else if (await Deno.readTextFile(target) !== text) {
    console.error(`${path} is stale; run this without --check`);
    Deno.exit(1);
  }
}
