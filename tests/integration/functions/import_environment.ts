/**
 * The function import-environment, whose names lead to a server on this machine: the addresses that are checked are
 * those of the names, as told; only the connections go elsewhere.
 *
 *     deno run import_environment.ts <port of the papers' server> '{"papers.example": ["93.184.215.14"], …}'
 */
import { importer } from "../../../supabase/functions/import-environment/import.ts";
import { input, operation } from "../../../supabase/functions/import-environment/schema.ts";
import { serve } from "../../../supabase/functions/_shared/serve.ts";

const [port, names] = [Number(Deno.args[0]), JSON.parse(Deno.args[1]!)];
const handler = importer({
  resolve: (name) => Promise.resolve(names[name] ?? []),
  connect: () => Deno.connect({ hostname: "127.0.0.1", port }),
});
const served = serve({ ...operation, input, handler });
Deno.serve(
  { hostname: "127.0.0.1", port: 0, onListen: ({ port }) => console.log(port) },
  (request) => served.fetch(request),
);
