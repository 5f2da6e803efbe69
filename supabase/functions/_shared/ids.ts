/** Ids that a client, a retry and another process agree on. */

/** The UUID that a name has within a namespace: the same for the same two, always (version 5). */
export async function uuid5(namespace: string, name: string): Promise<string> {
  const prefix = Uint8Array.from(namespace.replaceAll("-", "").match(/../g)!, (pair) => parseInt(pair, 16));
  const suffix = new TextEncoder().encode(name);
  const input = new Uint8Array(prefix.length + suffix.length);
  input.set(prefix);
  input.set(suffix, prefix.length);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-1", input));
  return stamped(digest.slice(0, 16), 5);
}

/** A new UUID that sorts by the time it was made (version 7). */
export function uuid7(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  const now = Date.now();
  view.setUint16(0, Math.floor(now / 2 ** 32));
  view.setUint32(2, now % 2 ** 32);
  return stamped(bytes, 7);
}

function stamped(bytes: Uint8Array, version: number): string {
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
