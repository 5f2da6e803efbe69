/**
 * A browser that follows `public.activity` with supabase-js: prints each status and change as a line of JSON.
 *
 * It joins with the given token, or the key's own rights, and does what its stdin says, line by line:
 * {"token": …} renews the token, {"leave": true} leaves the channel and ends.
 */
import { createClient } from "npm:@supabase/supabase-js@2.119.0";

const [url, key, binding, token] = Deno.args;
const say = (line: unknown) => Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(line)}\n`));

let current = token || null;
const client = createClient(url, key, {
  auth: { persistSession: false, autoRefreshToken: false },
  ...(current ? { accessToken: () => Promise.resolve(current) } : {}),
  realtime: { heartbeatIntervalMs: 1000, reconnectAfterMs: () => 200 },
});
client.realtime.onHeartbeat((status: string) => {
  if (status === "timeout") say({ heartbeat: status });
});
// Before the join: supabase-js would else join with the key's rights and keep them until the token changes.
await client.realtime.setAuth();
const channel = client.channel("test")
  .on("postgres_changes", JSON.parse(binding), (payload) => say({ change: payload }))
  .on("system", {}, (payload: unknown) => say({ system: payload }))
  .subscribe((status, error) => say({ status, error: error?.message ?? null }));

for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  for (const line of text.split("\n").filter(Boolean)) {
    const told = JSON.parse(line);
    if (told.token) {
      current = told.token;
      await client.realtime.setAuth();
    }
    if (told.leave) {
      say({ left: await client.removeChannel(channel) });
      Deno.exit(0);
    }
  }
}
Deno.exit(0);
