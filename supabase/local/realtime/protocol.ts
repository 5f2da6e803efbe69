/** Phoenix messages as supabase-js (version 2.0.0, arrays) and supabase-py (1.0.0, objects) write them. */

export interface Message {
  joinRef: string | null;
  ref: string | null;
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

/** A client's message, or null for what is none: frames of bytes carry broadcasts, which are not served. */
export function decode(data: unknown, version: Version): Message | null {
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

function asRef(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
