/** One client's connection: its channels, and what it says in them. */
import type { Claims } from "../database.ts";
import type { Keys } from "../keys.ts";
import { type ActivityRow, type Binding, change, JoinRefused, matching, readBindings } from "./bindings.ts";
import { decode, encode, type Message, type Version } from "./protocol.ts";
import type { ActivityWatcher, Listener } from "./watcher.ts";

const MAX_CHANNELS = 100;
const MAX_MESSAGE_LENGTH = 64 * 1024;
/** A client that reads this much too slowly is let go; it connects again and looks anew. */
const MAX_BUFFERED_BYTES = 1024 * 1024;
const TOO_BIG = 1009;
const TRY_AGAIN_LATER = 1013;

/** A joined channel, with the rights of the token it was joined with or was given since. */
class Channel implements Listener {
  token = "";
  claims: Claims = { role: "anon" };
  left = false;

  constructor(
    readonly socket: RealtimeSocket,
    readonly topic: string,
    readonly joinRef: string | null,
    readonly bindings: Binding[],
  ) {}

  tick(now: number): void {
    if (typeof this.claims.exp === "number" && this.claims.exp * 1000 <= now) {
      this.socket.shut(this, "Token has expired");
    }
  }

  tell(rows: ActivityRow[]): void {
    if (this.left) return;
    for (const row of rows) {
      const ids = matching(this.bindings, row);
      if (ids.length > 0) this.push("postgres_changes", change(row, ids));
    }
  }

  system(status: "ok" | "error", message: string, extension: string): void {
    this.push("system", { status, message, extension, channel: this.topic.replace(/^realtime:/, "") });
  }

  push(event: string, payload: Record<string, unknown>): void {
    this.socket.send({ joinRef: this.joinRef, ref: null, topic: this.topic, event, payload });
  }
}

export class RealtimeSocket {
  readonly #channels = new Map<string, Channel>();
  /** Messages are worked off one after the other: a leave must not overtake its join. */
  #work: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(
    readonly socket: WebSocket,
    readonly version: Version,
    readonly apikey: string,
    readonly keys: Keys,
    readonly watcher: ActivityWatcher,
  ) {
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("close", () => this.#end());
    socket.addEventListener("error", () => this.#end());
  }

  send(message: Message): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (this.socket.bufferedAmount > MAX_BUFFERED_BYTES) this.socket.close(TRY_AGAIN_LATER, "read faster");
    else this.socket.send(encode(message, this.version));
  }

  /** End a channel that has lost its right to be, as hosted Realtime does. */
  shut(channel: Channel, reason: string): void {
    channel.system("error", reason, "system");
    channel.push("phx_close", {});
    this.#leave(channel);
  }

  #receive(data: unknown): void {
    const length = typeof data === "string" ? data.length : (data as ArrayBuffer).byteLength;
    if (length > MAX_MESSAGE_LENGTH) {
      this.socket.close(TOO_BIG, `a message may have ${MAX_MESSAGE_LENGTH} characters`);
      return;
    }
    const message = decode(data, this.version);
    if (!message) return;
    this.#work = this.#work.then(() => this.#handle(message)).catch((error) => {
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
    }
  }

  async #join(message: Message): Promise<void> {
    const { topic, payload } = message;
    const former = this.#channels.get(topic);
    if (former) this.#leave(former);
    try {
      if (this.#channels.size >= MAX_CHANNELS) throw new JoinRefused(`more than ${MAX_CHANNELS} channels`);
      const channel = new Channel(this, topic, message.joinRef, readBindings(payload));
      if (!(await this.#authorize(channel, payload.access_token))) throw new JoinRefused("Invalid or expired token");
      await this.watcher.add(channel);
      if (this.#closed) return this.watcher.remove(channel);
      this.#channels.set(topic, channel);
      this.#reply(message, "ok", { postgres_changes: channel.bindings });
      channel.system("ok", "Subscribed to PostgreSQL", "postgres_changes");
    } catch (error) {
      if (!(error instanceof JoinRefused)) throw error;
      this.#reply(message, "error", { reason: error.message });
    }
  }

  async #renew(channel: Channel, token: unknown): Promise<void> {
    if (!(await this.#authorize(channel, token))) this.shut(channel, "Invalid or expired token");
  }

  /** Let a channel act with a token's rights; without one it has those of the key. */
  async #authorize(channel: Channel, given: unknown): Promise<boolean> {
    const token = typeof given === "string" && given ? given : this.apikey;
    const claims = await this.keys.claims(token);
    if (!claims) return false;
    channel.token = token;
    channel.claims = claims;
    return true;
  }

  #leave(channel: Channel): void {
    channel.left = true;
    this.watcher.remove(channel);
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
