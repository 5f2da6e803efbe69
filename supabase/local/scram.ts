/**
 * Whether a server has shown that it knows the password, before anything else is said to it.
 *
 * postgres.js does whatever a server asks for: it sends the password in clear to one that asks for that, and its queries
 * to one that asks for nothing. While the stack is down, such a server may be anybody's. With SCRAM the server never
 * sees the password and must prove that it knows it (which postgres.js checks), so nothing else is let through.
 */
const AUTHENTICATION = 0x52; // R
const ERROR = 0x45; // E
const NOTICE = 0x4e; // N
const NEGOTIATION = 0x76; // v
const [OK, SASL, SASL_CONTINUE, SASL_FINAL] = [0, 10, 11, 12];
/** Nothing a server says before it has proven itself is longer. */
const MAX_MESSAGE_BYTES = 64 * 1024;

/** Follows a server's first messages: SCRAM in its order, and no other way in. */
export class Handshake {
  #received = new Uint8Array();
  #awaited = SASL;
  done = false;

  /** Whether what came is part of a SCRAM exchange, or an error that ends it. */
  accepts(chunk: Uint8Array): boolean {
    const received = new Uint8Array(this.#received.length + chunk.length);
    received.set(this.#received);
    received.set(chunk, this.#received.length);
    let start = 0;
    while (!this.done && received.length - start >= 5) {
      const length = new DataView(received.buffer, start + 1, 4).getUint32(0) + 1;
      if (length > MAX_MESSAGE_BYTES) return false;
      if (received.length - start < length) break;
      if (!this.#acceptsMessage(received.subarray(start, start + length))) return false;
      start += length;
    }
    this.#received = received.slice(start);
    return true;
  }

  #acceptsMessage(message: Uint8Array): boolean {
    if (message[0] === ERROR || message[0] === NOTICE || message[0] === NEGOTIATION) return true;
    if (message[0] !== AUTHENTICATION || message.length < 9) return false;
    const kind = new DataView(message.buffer, message.byteOffset + 5, 4).getUint32(0);
    if (kind !== this.#awaited) return false;
    this.done = kind === OK;
    this.#awaited = kind === SASL ? SASL_CONTINUE : kind === SASL_CONTINUE ? SASL_FINAL : OK;
    return true;
  }
}

/** The failure of a server that lets us in without having proven itself. */
export function unproven(): Error {
  const error = new Error("the server on the database's port did not prove with SCRAM that it is the database");
  return Object.assign(error, { code: "CONNECTION_CLOSED" });
}
