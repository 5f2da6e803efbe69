/** A browser in the channel "meeting", with supabase-js: answers the first broadcast it hears, by socket and by HTTP. */
import { createClient } from "npm:@supabase/supabase-js@2.119.0";

const [url, key] = Deno.args;
const say = (line: unknown) => Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(line)}\n`));

const client = createClient(url, key, { auth: { persistSession: false, autoRefreshToken: false } });
const channel = client.channel("meeting", { config: { presence: { key: "js" } } })
  .on("broadcast", { event: "from-py" }, async ({ payload }) => {
    say({ heard: payload });
    await channel.send({ type: "broadcast", event: "from-js", payload: { via: "socket" } });
    await channel.httpSend("from-js", { via: "http" });
  })
  .on("presence", { event: "join" }, ({ key, newPresences }) => {
    const { presence_ref: _, ...said } = newPresences[0];
    if (key === "py") say({ present: said });
  })
  .subscribe((status) => {
    if (status === "SUBSCRIBED") say({ joined: true });
  });
await new Promise((resolve) => setTimeout(resolve, 120_000));
