/** Phoenix messages as supabase-js (version 2.0.0, arrays) and supabase-py (1.0.0, objects) write them. */

/** What a client calls a message of its own: most use texts, some numbers. */
export type Ref = string | number | null;

export interface Message {
  joinRef: Ref;
  ref: Ref;
  topic: string;
  event: string;
  payload: Record<string, unknown>;
}

export type Version = "1.0.0" | "2.0.0";

/** The version that a client asked for; clients from before there was a choice ask for none. */
export function versionOf(asked: string | null): Version | null {
  if (asked === null || asked === "1.0.0") return "1.0.0";
  return asked === "2.0.0" ? asked : null;
}

/** A client's message, or null for what is none. */
export function decode(data: unknown, version: Version): Message | null {
  if (data instanceof ArrayBuffer) return decodeBroadcast(new Uint8Array(data));
  if (typeof data !== "string") return null;
  let parts: unknown;
  try {
    parts = JSON.parse(data);
  } catch {
    return null;
  }
  const [join_ref, ref, topic, event, payload] = version === "2.0.0" ? asArray(parts) : fields(parts);
  if (typeof topic !== "string" || typeof event !== "string") return null;
  return { joinRef: asRef(join_ref), ref: asRef(ref), topic, event, payload: isObject(payload) ? payload : {} };
}

export function encode({ joinRef, ref, topic, event, payload }: Message, version: Version): string {
  if (version === "2.0.0") return JSON.stringify([joinRef, ref, topic, event, payload]);
  return JSON.stringify({ topic, event, payload, ref, join_ref: joinRef });
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function fields(value: unknown): unknown[] {
  return isObject(value) ? [value.join_ref, value.ref, value.topic, value.event, value.payload] : [];
}

function asRef(value: unknown): Ref {
  return typeof value === "string" || typeof value === "number" ? value : null;
}

const BROADCAST_PUSH = 3;
const BROADCAST = 4;
const [BINARY, JSON_TEXT] = [0, 1];

/** A frame of bytes, in which supabase-js sends broadcasts: lengths, names, then the payload. */
function decodeBroadcast(bytes: Uint8Array): Message | null {
  if (bytes.length < 7 || bytes[0] !== BROADCAST_PUSH) return null;
  const encoding = bytes[6];
  let at = 7;
  const [joinRef, ref, topic, event] = [...bytes.subarray(1, 6)].map((length) =>
    new TextDecoder().decode(bytes.subarray(at, at += length))
  );
  if (at > bytes.length) return null;
  const rest = bytes.slice(at);
  let payload: unknown = rest.buffer;
  if (encoding === JSON_TEXT) {
    try {
      payload = JSON.parse(new TextDecoder().decode(rest));
    } catch {
      return null;
    }
  }
  return {
    joinRef: joinRef || null,
    ref: ref || null,
    topic,
    event: "broadcast",
    payload: { type: "broadcast", event, payload },
  };
}

/** A broadcast of bytes, for clients that can read it; null for one of JSON, which goes as every other message. */
export function encodeBytes({ topic, event, payload }: Message): Uint8Array<ArrayBuffer> | null {
  if (event !== "broadcast" || !(payload.payload instanceof ArrayBuffer)) return null;
  const [topicBytes, eventBytes] = [topic, String(payload.event)].map((text) => new TextEncoder().encode(text));
  const head = [BROADCAST, topicBytes.length, eventBytes.length, 0, BINARY, ...topicBytes, ...eventBytes];
  const bytes = new Uint8Array(head.length + payload.payload.byteLength);
  bytes.set(head);
  bytes.set(new Uint8Array(payload.payload), head.length);
  return bytes;
}
