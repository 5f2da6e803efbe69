/**
 * A Supabase of one process: the Data API, Auth, Storage, Realtime, the edge functions and the dashboard.
 *
 *     deno run <permissions> gateway.ts init    create the system schema, then exit
 *     deno run <permissions> gateway.ts serve   serve until SIGTERM, SIGINT or the end of stdin
 *
 * The permissions and the environment are described in README.md beside this file.
 */
import { createHandler, type Handler } from "./app.ts";
import { currentClient } from "./client.ts";
import { GatewayConnection } from "./database.ts";
import { redirectLog } from "./log.ts";
import { prove } from "./proof.ts";
import { readSettings, type Settings } from "./settings.ts";
import { ensureSystemSchema } from "./system_schema.ts";

const HOST = "127.0.0.1";
const DRAIN_TIMEOUT_MS = 5_000;

async function initialise(settings: Settings): Promise<void> {
  const connection = new GatewayConnection(settings.databaseUrl);
  try {
    await ensureSystemSchema(connection);
  } finally {
    await connection.close();
  }
}

async function serve(settings: Settings): Promise<void> {
  const connection = new GatewayConnection(settings.databaseUrl);
  await connection.schema();
  await connection.watchSchema();
  const stop = new AbortController();
  const handler = await createHandler(settings, connection, stop.signal);

  const server = Deno.serve(
    { hostname: HOST, port: settings.port, onListen: () => {} },
    async (request, { remoteAddr }) => {
      const client = { address: (remoteAddr as Deno.NetAddr).hostname, gone: request.signal };
      return (await prove(request, settings.secretKey, port)) ??
        await currentClient.run(client, () => handler(request));
    },
  );
  const { port } = server.addr as Deno.NetAddr;
  shortCircuitOwnRequests(`http://${HOST}:${port}`, handler);
  // Before anyone is told that we are ready: from then on signals may come.
  const stopping = stopRequested();
  Deno.addSignalListener("SIGHUP", () => connection.reloadSchema());
  Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify({ ready: true, port })}\n`));

  await stopping;
  stop.abort();
  await Promise.race([server.shutdown(), new Promise((resolve) => setTimeout(resolve, DRAIN_TIMEOUT_MS))]);
  await connection.close();
}

/** Edge functions call their project's URL; answer those calls here rather than through a socket. */
function shortCircuitOwnRequests(origin: string, handler: Handler): void {
  Deno.env.set("SUPABASE_URL", origin);
  const fetchOutside = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const request = new Request(input, init);
    return new URL(request.url).origin === origin ? handler(request) : fetchOutside(request);
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
  if (command === "serve") return await serve(readSettings());
  throw new Error(`unknown command ${JSON.stringify(command ?? "")}; use "init" or "serve"`);
}

main(Deno.args[0]).then(
  () => Deno.exit(0),
  (error) => {
    console.error(error instanceof Error ? error.message : error);
    Deno.exit(1);
  },
);
