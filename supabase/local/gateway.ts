/**
 * A Supabase of one process: the Data API, Auth, Storage, Realtime, the edge functions and the dashboard.
 *
 *     deno run <permissions> gateway.ts init    create the system schema in the embedded Postgres, then exit
 *     deno run <permissions> gateway.ts schema  print the statements that create it in another Postgres, as JSON
 *     deno run <permissions> gateway.ts serve   serve until SIGTERM, SIGINT or the end of stdin
 *
 * The permissions and the environment are described in README.md beside this file.
 */
import { createHandler, type Handler } from "./app.ts";
import { currentClient } from "./client.ts";
import { GatewayConnection } from "./database.ts";
import { isLoopback } from "./hosts.ts";
import { redirectLog } from "./log.ts";
import { prove } from "./proof.ts";
import { Proxies } from "./proxies.ts";
import { readSettings, type Settings } from "./settings.ts";
import { adoptionStatements, ensureSystemSchema, requireSystemSchema } from "./system_schema.ts";

const LOOPBACK = "127.0.0.1";
/** These include loopback. */
const EVERYWHERE = ["0.0.0.0", "::"];
const DRAIN_TIMEOUT_MS = 5_000;

async function initialise(settings: Settings): Promise<void> {
  const connection = new GatewayConnection(settings.database);
  try {
    await ensureSystemSchema(connection);
  } finally {
    await connection.close();
  }
}

async function serve(settings: Settings): Promise<void> {
  const connection = new GatewayConnection(settings.database);
  await requireSystemSchema(connection);
  await connection.schema();
  await connection.watchSchema();
  await connection.lookForSchemaChanges();
  const stop = new AbortController();
  const handler = await createHandler(settings, connection, stop.signal);
  // Nothing is believed of a header where no proxy is expected.
  const proxies = new Proxies(settings.publicUrl ? settings.trustedProxies : null);

  const listen = (hostname: string, port: number) =>
    Deno.serve({ hostname, port, onListen: () => {} }, async (request, { remoteAddr }) => {
      const { hostname: peer } = remoteAddr as Deno.NetAddr;
      const { headers, signal: gone } = request;
      // A proxy that tells nothing of its clients passes the public name on: what it passes on is not from here.
      const isLocal = isLoopback(new URL(request.url).hostname) && proxies.isLocal(headers, peer);
      const client = { address: proxies.clientOf(headers, peer), isLocal, gone };
      return (client.isLocal ? await prove(request, settings.secretKey, servedPort) : null) ??
        await currentClient.run(client, () => handler(request));
    });
  // Programs on this machine, the supervisor among them, come by loopback whatever else is listened on.
  const first = listen(EVERYWHERE.includes(settings.host) ? settings.host : LOOPBACK, settings.port);
  const { port: servedPort } = first.addr as Deno.NetAddr;
  const isElsewhere = ![LOOPBACK, "localhost", ...EVERYWHERE].includes(settings.host);
  const servers = isElsewhere ? [first, listen(settings.host, servedPort)] : [first];
  shortCircuitOwnRequests(`http://${LOOPBACK}:${servedPort}`, handler);
  // Before anyone is told that we are ready: from then on signals may come.
  const stopping = stopRequested();
  Deno.addSignalListener("SIGHUP", () => connection.reloadSchema());
  print({ ready: true, port: servedPort });

  await stopping;
  stop.abort();
  const ended = Promise.all(servers.map((server) => server.shutdown()));
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, DRAIN_TIMEOUT_MS))]);
  await connection.close();
}

/** Write to the real output: the console's goes to the log. */
function print(message: unknown): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(message)}\n`);
  for (let written = 0; written < bytes.length;) written += Deno.stdout.writeSync(bytes.subarray(written));
}

/** Edge functions call their project's URL; answer those calls here rather than through a socket. */
function shortCircuitOwnRequests(origin: string, handler: Handler): void {
  Deno.env.set("SUPABASE_URL", origin);
  const fetchOutside = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const request = new Request(input, init);
    return new URL(request.url).origin === origin ? handler(request, true) : fetchOutside(request);
  };
}

/** Resolves on SIGTERM, SIGINT, or when stdin ends because whoever started us is gone. */
function stopRequested(): Promise<void> {
  return new Promise((resolve) => {
    Deno.addSignalListener("SIGTERM", resolve);
    Deno.addSignalListener("SIGINT", resolve);
    Deno.stdin.readable.pipeTo(new WritableStream()).then(resolve, resolve);
  });
}

/** A database connection that breaks fails in promises and timers nobody holds; the pool makes a new one by itself. */
function surviveLostConnections(): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    console.error("unhandled rejection:", event.reason);
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    console.error("uncaught error:", event.error);
  });
}

async function main(command: string | undefined): Promise<void> {
  redirectLog();
  surviveLostConnections();
  if (command === "init") return await initialise(readSettings());
  if (command === "schema") return print(await adoptionStatements());
  if (command === "serve") return await serve(readSettings());
  throw new Error(`unknown command ${JSON.stringify(command ?? "")}; use "init", "schema" or "serve"`);
}

main(Deno.args[0]).then(
  () => Deno.exit(0),
  (error) => {
    console.error(error instanceof Error ? error.message : error);
    Deno.exit(1);
  },
);
