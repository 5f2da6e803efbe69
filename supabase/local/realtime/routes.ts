/** `/realtime/v1/websocket`: live changes of `public.activity`, in the protocol of hosted Realtime. */
import type { GatewayConnection } from "../database.ts";
import type { Keys } from "../keys.ts";
import { versionOf } from "./protocol.ts";
import { RealtimeSocket } from "./socket.ts";
import { ActivityWatcher } from "./watcher.ts";

const PATH = /^\/realtime\/v1\/websocket\/?$/;
const MAX_SOCKETS = 200;
const GOING_AWAY = 1001;

export class Realtime {
  readonly #watcher: ActivityWatcher;
  readonly #sockets = new Set<WebSocket>();

  /** Every connection is closed when `stopping` says so: an open one would keep the server from ending. */
  constructor(connection: GatewayConnection, readonly keys: Keys, stopping: AbortSignal) {
    this.#watcher = new ActivityWatcher(connection);
    stopping.addEventListener("abort", () => {
      for (const socket of this.#sockets) socket.close(GOING_AWAY, "the gateway stops");
    });
  }

  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (!PATH.test(pathname)) return refused(404, "Only /realtime/v1/websocket is served here");
    const apikey = searchParams.get("apikey") ?? request.headers.get("apikey");
    if (!apikey || !(await this.keys.kindOf(apikey))) return refused(401, "Invalid API key");
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      return refused(426, "This address speaks WebSocket only", { Upgrade: "websocket" });
    }
    const version = versionOf(searchParams.get("vsn"));
    if (!version) return refused(400, "vsn must be 1.0.0 or 2.0.0");
    if (this.#sockets.size >= MAX_SOCKETS) {
      return refused(429, `There are ${MAX_SOCKETS} connections already; close some tabs`, { "Retry-After": "10" });
    }
    const upgraded = upgrade(request);
    if (!upgraded) return refused(400, "This is not a WebSocket handshake");
    const { socket, response } = upgraded;
    this.#sockets.add(socket);
    socket.addEventListener("close", () => this.#sockets.delete(socket));
    new RealtimeSocket(socket, version, apikey, this.keys, this.#watcher);
    return response;
  }
}

function upgrade(request: Request): Deno.WebSocketUpgrade | null {
  try {
    return Deno.upgradeWebSocket(request);
  } catch (error) {
    if (error instanceof TypeError) return null; // a header is missing or wrong
    throw error;
  }
}

function refused(status: number, message: string, headers: Record<string, string> = {}): Response {
  return Response.json({ message }, { status, headers: { "Access-Control-Allow-Origin": "*", ...headers } });
}
