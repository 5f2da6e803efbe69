/** One client's connection: its channels, and what it says in them. */
import { forEverybody } from "../client.ts";
import type { GatewayConnection } from "../database.ts";
import type { Keys } from "../keys.ts";
import { isMemberKey } from "../member_keys.ts";
import { accessTo } from "./access.ts";
import { checkActivity, isActivity } from "./activity.ts";
import { JoinRefused, readBindings } from "./bindings.ts";
import { Channel, readConfig } from "./channel.ts";
import type { ChangeFeed } from "./feed.ts";
import { follow } from "./following.ts";
import { decode, encode, encodeBytes, isObject, type Message, type Version } from "./protocol.ts";
import type { Rooms } from "./rooms.ts";
import type { ActivityWatcher } from "./watcher.ts";

const MAX_CHANNELS = 100;
const MAX_MESSAGE_BYTES = 256 * 1024;
/** A client that reads this much too slowly is let go; it connects again and looks anew. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;
const MAX_MESSAGES_PER_SECOND = 100;
const TOO_BIG = 1009;
const TRY_AGAIN_LATER = 1013;

/** What the channels of all connections share. */
export interface Shared {
  connection: GatewayConnection;
  keys: Keys;
  watcher: ActivityWatcher;
  feed: ChangeFeed;
  rooms: Rooms;
}

export class RealtimeSocket {
  readonly #channels = new Map<string, Channel>();
  /** Messages are worked off one after the other: a leave must not overtake its join. */
  #work: Promise<void> = Promise.resolve();
  #closed = false;
  #second = 0;
  #said = 0;

  constructor(readonly socket: WebSocket, readonly version: Version, readonly apikey: string, readonly shared: Shared) {
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("close", () => this.#end());
    socket.addEventListener("error", () => this.#end());
  }

  send(message: Message): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (this.socket.bufferedAmount > MAX_BUFFERED_BYTES) {
      this.socket.close(TRY_AGAIN_LATER, "read faster");
      // Who does not read may not answer either: nothing is kept for it until then.
      this.#end();
    } else this.socket.send((this.version === "2.0.0" && encodeBytes(message)) || encode(message, this.version));
  }

  /** End a channel that has lost its right to be, or what it listened to, as hosted Realtime does. */
  shut(channel: Channel, reason: string, extension = "system"): void {
    channel.system("error", reason, extension);
    channel.push("phx_close", {});
    this.#leave(channel);
  }

  /** End channels whose tokens have expired. */
  tick(now: number): void {
    for (const channel of [...this.#channels.values()]) {
      if (channel.hasExpired(now)) this.shut(channel, "Token has expired");
    }
  }

  /** End channels of members' keys that hold no more. */
  async checkKeys(): Promise<void> {
    for (const channel of [...this.#channels.values()].filter(({ token }) => isMemberKey(token))) {
      // While the database does not answer, nothing is known against a key.
      const holds = await this.shared.keys.claims(channel.token).catch(() => true);
      if (!holds) this.shut(channel, "The key was revoked or has expired");
    }
  }

  #receive(data: unknown): void {
    const length = typeof data === "string" ? data.length : (data as ArrayBuffer).byteLength;
    if (length > MAX_MESSAGE_BYTES) {
      this.socket.close(TOO_BIG, `a message may have ${MAX_MESSAGE_BYTES} bytes`);
      return;
    }
    const message = decode(data, this.version);
    if (!message) return;
    // The request that opened the socket is over.
    this.#work = this.#work.then(() => forEverybody(() => this.#handle(message))).catch((error) => {
      console.error("realtime failed:", message.event, error);
      this.#reply(message, "error", { reason: "Internal server error" });
    });
  }

  async #handle(message: Message): Promise<void> {
    if (this.#closed) return;
    const channel = this.#channels.get(message.topic);
    switch (message.event) {
      case "heartbeat":
        return this.#reply(message, "ok", {});
      case "phx_join":
        return await this.#join(message);
      case "phx_leave":
        if (channel) this.#leave(channel);
        return this.#reply(message, "ok", {});
      case "access_token":
        if (channel) await this.#renew(channel, message.payload.access_token);
        return;
      case "broadcast":
        if (channel) this.#broadcast(channel, message);
        return;
      case "presence":
        if (channel) this.#presence(channel, message);
    }
  }

  async #join(message: Message): Promise<void> {
    const { topic, payload } = message;
    const former = this.#channels.get(topic);
    if (former) this.#leave(former);
    const config = isObject(payload.config) ? payload.config : {};
    let channel: Channel | undefined;
    try {
      if (this.#channels.size >= MAX_CHANNELS) throw new JoinRefused(`more than ${MAX_CHANNELS} channels`);
      channel = new Channel(this, topic, message.joinRef, readBindings(config), readConfig(config));
      if (!(await this.#authorize(channel, payload.access_token))) throw new JoinRefused("Invalid or expired token");
      await this.#listen(channel);
      if (this.#closed) return this.#leave(channel);
      this.#channels.set(topic, channel);
      this.#reply(message, "ok", { postgres_changes: channel.bindings });
      if (channel.bindings.length > 0) channel.system("ok", "Subscribed to PostgreSQL", "postgres_changes");
      this.shared.rooms.enter(channel.room, channel);
    } catch (error) {
      if (channel) this.#leave(channel);
      if (!(error instanceof JoinRefused) && !hasNul(error)) throw error;
      this.#reply(message, "error", { reason: (error as Error).message });
    }
  }

  async #listen(channel: Channel): Promise<void> {
    const { connection, watcher, feed } = this.shared;
    channel.activity = channel.bindings.filter(isActivity);
    for (const binding of channel.activity) checkActivity(binding);
    const tables = channel.bindings.filter((binding) => !isActivity(binding));
    if (tables.length > 0) {
      channel.followed = await follow(connection.driver, tables);
      await feed.add(channel);
    }
    if (channel.activity.length > 0) await watcher.add(channel);
  }

  async #renew(channel: Channel, token: unknown): Promise<void> {
    if (!(await this.#authorize(channel, token).catch(refusedOnly))) this.shut(channel, "Invalid or expired token");
  }

  /** Let a channel act with a token's rights; without one it has those of the key. */
  async #authorize(channel: Channel, given: unknown): Promise<boolean> {
    const token = typeof given === "string" && given ? given : this.apikey;
    const claims = await this.shared.keys.claims(token);
    if (!claims) return false;
    if (channel.config.isPrivate) {
      const access = await accessTo(this.shared.connection, claims, channel.subTopic);
      if (!access.hears.broadcast && !access.hears.presence) {
        throw new JoinRefused(
          `Unauthorized: You do not have permissions to read from this Channel topic: ${channel.subTopic}`,
        );
      }
      channel.access = access;
    }
    channel.token = token;
    channel.claims = claims;
    return true;
  }

  #broadcast(channel: Channel, message: Message): void {
    if (!channel.access.speaks.broadcast) return this.#answer(channel, message, "error", "Unauthorized");
    if (!this.#maySpeak(channel)) return;
    const { event, payload } = message.payload;
    this.shared.rooms.broadcast(channel.room, { type: "broadcast", event, payload }, channel);
    this.#answer(channel, message, "ok");
  }

  #answer(channel: Channel, message: Message, status: "ok" | "error", reason?: string): void {
    if (channel.config.acknowledges) this.#reply(message, status, reason ? { reason } : {});
  }

  #presence(channel: Channel, message: Message): void {
    const { event, payload } = message.payload;
    const name = String(event).toLowerCase();
    if (!channel.access.speaks.presence) return this.#reply(message, "error", { reason: "Unauthorized" });
    if (!this.#maySpeak(channel)) return;
    if (name === "track") this.shared.rooms.track(channel.room, channel, isObject(payload) ? payload : {});
    else if (name === "untrack") this.shared.rooms.untrack(channel.room, channel);
    else return this.#reply(message, "error", { reason: `presence event ${JSON.stringify(event)} is unknown` });
    this.#reply(message, "ok", {});
  }

  /** A client that floods the others is cut off. */
  #maySpeak(channel: Channel): boolean {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#second) [this.#second, this.#said] = [second, 0];
    if (++this.#said <= MAX_MESSAGES_PER_SECOND) return true;
    this.shut(channel, "Too many messages per second");
    return false;
  }

  #leave(channel: Channel): void {
    channel.left = true;
    const { watcher, feed, rooms } = this.shared;
    watcher.remove(channel);
    feed.remove(channel);
    rooms.leave(channel.room, channel);
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  #end(): void {
    this.#closed = true;
    for (const channel of [...this.#channels.values()]) this.#leave(channel);
  }

  #reply(to: Message, status: "ok" | "error", response: Record<string, unknown>): void {
    const { joinRef, ref, topic } = to;
    this.send({ joinRef, ref, topic, event: "phx_reply", payload: { status, response } });
  }
}

/** Whether Postgres was asked about a name that it cannot read. */
function hasNul(error: unknown): boolean {
  return (error as { code?: string }).code === "22021";
}

function refusedOnly(error: unknown): false {
  if (error instanceof JoinRefused) return false;
  throw error;
}
