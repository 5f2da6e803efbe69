/** A joined channel, with the rights of the token it was joined with or was given since. */
import type { Claims } from "../database.ts";
import { type Access, EVERYTHING } from "./access.ts";
import { type ActivityRow, change, matching } from "./activity.ts";
import type { Binding } from "./bindings.ts";
import type { FeedListener } from "./feed.ts";
import type { Followed } from "./following.ts";
import { isObject, type Ref } from "./protocol.ts";
import { type Guest, Rooms } from "./rooms.ts";
import type { RealtimeSocket } from "./socket.ts";
import type { Listener } from "./watcher.ts";

/** What a client asks of a channel when it joins, beside `postgres_changes`. */
export interface ChannelConfig {
  isPrivate: boolean;
  hearsItself: boolean;
  acknowledges: boolean;
  presenceKey: string | null;
}

export function readConfig(config: Record<string, unknown>): ChannelConfig {
  const broadcast = isObject(config.broadcast) ? config.broadcast : {};
  const presence = isObject(config.presence) ? config.presence : {};
  // Clients from before there was a choice are told of presence.
  const takesPart = presence.enabled !== false;
  const key = typeof presence.key === "string" && presence.key ? presence.key : crypto.randomUUID();
  return {
    isPrivate: config.private === true,
    hearsItself: broadcast.self === true,
    acknowledges: broadcast.ack === true,
    presenceKey: takesPart ? key : null,
  };
}

export class Channel implements Listener, FeedListener, Guest {
  token = "";
  claims: Claims = { role: "anon" };
  access: Access = EVERYTHING;
  left = false;
  activity: Binding[] = [];
  followed: Followed[] = [];

  constructor(
    readonly socket: RealtimeSocket,
    readonly topic: string,
    readonly joinRef: Ref,
    readonly bindings: Binding[],
    readonly config: ChannelConfig,
  ) {}

  get room(): string {
    return Rooms.name(this.subTopic, this.config.isPrivate);
  }

  get subTopic(): string {
    return this.topic.replace(/^realtime:/, "");
  }

  get hearsItself(): boolean {
    return this.config.hearsItself;
  }

  get presenceKey(): string | null {
    return this.config.presenceKey;
  }

  get mayHear() {
    return this.access.hears;
  }

  hasExpired(now: number): boolean {
    return typeof this.claims.exp === "number" && this.claims.exp * 1000 <= now;
  }

  tell(told: ActivityRow[] | Record<string, unknown>): void {
    if (this.left) return;
    if (!Array.isArray(told)) return this.push("postgres_changes", told);
    for (const row of told) {
      const ids = matching(this.activity, row);
      if (ids.length > 0) this.push("postgres_changes", change(row, ids));
    }
  }

  lose(reason: string): void {
    if (!this.left) this.socket.shut(this, reason, "postgres_changes");
  }

  system(status: "ok" | "error", message: string, extension: string): void {
    this.push("system", { status, message, extension, channel: this.subTopic });
  }

  push(event: string, payload: Record<string, unknown>): void {
    if (!this.left) this.socket.send({ joinRef: this.joinRef, ref: null, topic: this.topic, event, payload });
  }
}
