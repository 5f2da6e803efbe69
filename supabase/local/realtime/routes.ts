/** `/realtime/v1/websocket` and the broadcasts of `/realtime/v1/api/broadcast`, in the protocol of hosted Realtime. */
import type { GatewayConnection } from "../database.ts";
import { bearer, type Keys } from "../keys.ts";
import { accessTo } from "./access.ts";
import { ChangeFeed } from "./feed.ts";
import { isObject, versionOf } from "./protocol.ts";
import { Rooms } from "./rooms.ts";
import { RealtimeSocket, type Shared } from "./socket.ts";
import { ActivityWatcher } from "./watcher.ts";

const SOCKET_PATH = /^\/realtime\/v1\/websocket\/?$/;
const BROADCAST_PATH = /^\/realtime\/v1\/api\/broadcast(?:\/([^/]+)\/events\/([^/]+))?\/?$/;
const MAX_SOCKETS = 500;
const MAX_BODY_BYTES = 256 * 1024;
const MAX_MESSAGES = 100;
const TICK_MS = 400;
const KEYS_CHECKED_MS = 2_000;
const GOING_AWAY = 1001;

interface Broadcast {
  topic: string;
  event: string;
  payload: unknown;
  isPrivate: boolean;
}

export class Realtime {
  readonly #shared: Shared;
  readonly #sockets = new Map<WebSocket, RealtimeSocket>();

  /** Every connection is closed when `stopping` says so: an open one would keep the server from ending. */
  constructor(connection: GatewayConnection, readonly keys: Keys, stopping: AbortSignal) {
    const [watcher, feed] = [new ActivityWatcher(connection), new ChangeFeed(connection)];
    this.#shared = { connection, keys, watcher, feed, rooms: new Rooms() };
    const ticking = setInterval(() => this.#sockets.forEach((socket) => socket.tick(Date.now())), TICK_MS);
    Deno.unrefTimer(ticking);
    const checking = setInterval(() => this.#sockets.forEach((socket) => socket.checkKeys()), KEYS_CHECKED_MS);
    Deno.unrefTimer(checking);
    stopping.addEventListener("abort", () => {
      for (const socket of this.#sockets.keys()) socket.close(GOING_AWAY, "the gateway stops");
    });
  }

  /** How many are open. */
  get connections(): number {
    return this.#sockets.size;
  }

  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const broadcast = BROADCAST_PATH.exec(pathname);
    if (!broadcast && !SOCKET_PATH.test(pathname)) return refused(404, `There is nothing at ${pathname}`);
    const apikey = searchParams.get("apikey") ?? request.headers.get("apikey");
    if (!apikey || !(await this.keys.isKey(apikey))) return refused(401, "Invalid API key");
    if (broadcast) return await this.#broadcast(request, apikey, broadcast[1], broadcast[2]);
    return this.#connect(request, apikey, searchParams.get("vsn"));
  }

  #connect(request: Request, apikey: string, asked: string | null): Response {
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      return refused(426, "This address speaks WebSocket only", { Upgrade: "websocket" });
    }
    const version = versionOf(asked);
    if (!version) return refused(400, "vsn must be 1.0.0 or 2.0.0");
    if (this.#sockets.size >= MAX_SOCKETS) {
      return refused(429, `There are ${MAX_SOCKETS} connections already; close some tabs`, { "Retry-After": "10" });
    }
    const upgraded = upgrade(request);
    if (!upgraded) return refused(400, "This is not a WebSocket handshake");
    const { socket, response } = upgraded;
    this.#sockets.set(socket, new RealtimeSocket(socket, version, apikey, this.#shared));
    socket.addEventListener("close", () => this.#sockets.delete(socket));
    return response;
  }

  /** Broadcast what came without a socket; to the client it is the same whether anybody hears it. */
  async #broadcast(request: Request, apikey: string, topic?: string, event?: string): Promise<Response> {
    if (request.method !== "POST") return refused(405, "Broadcasts are sent by POST", { Allow: "POST" });
    const claims = await this.keys.claims(bearer(request.headers) ?? apikey);
    if (!claims) return refused(401, "Invalid or expired token");
    const body = await readLimited(request, MAX_BODY_BYTES);
    if (!body) return refused(413, `A broadcast may have ${MAX_BODY_BYTES} bytes`);
    const messages = topic === undefined ? readMessages(body) : readOne(request, body, topic, event!);
    if (!messages) return refused(422, "The body is not of the form {messages: [{topic, event, payload}]}");
    for (const { topic, event, payload, isPrivate } of messages) {
      // Whoever may not speak there is told nothing, as on hosted projects.
      const maySpeak = !isPrivate || (await accessTo(this.#shared.connection, claims, topic)).speaks.broadcast;
      if (maySpeak) {
        this.#shared.rooms.broadcast(Rooms.name(topic, isPrivate), { type: "broadcast", event, payload }, null);
      }
    }
    return new Response(null, { status: 202, headers: { "Access-Control-Allow-Origin": "*" } });
  }
}

async function readLimited(request: Request, most: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (Number(request.headers.get("content-length") ?? 0) > most) return null;
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of request.body ?? []) {
    length += part.byteLength;
    if (length > most) return null;
    parts.push(part);
  }
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}

function readMessages(body: Uint8Array): Broadcast[] | null {
  const messages = (parsed(body) as { messages?: unknown } | null)?.messages;
  if (!Array.isArray(messages) || messages.length > MAX_MESSAGES) return null;
  const isGood = (one: unknown) => isObject(one) && typeof one.topic === "string" && typeof one.event === "string";
  if (!messages.every(isGood)) return null;
  return messages.map(({ topic, event, payload, private: isPrivate }) => ({
    topic,
    event,
    payload,
    isPrivate: isPrivate === true,
  }));
}

function readOne(request: Request, body: Uint8Array<ArrayBuffer>, topic: string, event: string): Broadcast[] | null {
  const isBytes = request.headers.get("content-type")?.startsWith("application/octet-stream");
  const payload = isBytes ? body.buffer : parsed(body);
  const isPrivate = new URL(request.url).searchParams.get("private") === "true";
  try {
    return payload === null ? null : [{ ...decoded(topic, event), payload, isPrivate }];
  } catch {
    return null; // a malformed percent escape
  }
}

const decoded = (topic: string, event: string) => ({
  topic: decodeURIComponent(topic),
  event: decodeURIComponent(event),
});

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
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
