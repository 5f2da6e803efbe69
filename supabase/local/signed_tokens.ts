/** Tokens that we signed: the signature of each is checked once, its times at every use. */
import { compactVerify } from "jose";

const MOST_REMEMBERED = 1000;

export type Payload = Record<string, unknown>;

export class SignedTokens {
  readonly #key: Uint8Array;
  readonly #remembered = new Map<string, Payload>();

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** What a token says, if we signed it, even if it has expired; else null. */
  async payload(token: string): Promise<Payload | null> {
    const known = this.#remembered.get(token);
    if (known) return known;
    const payload = await this.#check(token);
    if (!payload) return null;
    // The oldest goes first: those in use come back at the cost of one more check.
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.delete(this.#remembered.keys().next().value!);
    this.#remembered.set(token, payload);
    return payload;
  }

  /** What a token says, if we signed it and it is valid now; else null. */
  async valid(token: string): Promise<Payload | null> {
    const payload = await this.payload(token);
    const now = Math.floor(Date.now() / 1000);
    const { exp = Infinity, nbf = -Infinity } = payload ?? {};
    if (typeof exp !== "number" || typeof nbf !== "number") return null;
    return exp > now && nbf <= now ? payload : null;
  }

  async #check(token: string): Promise<Payload | null> {
    try {
      const { payload } = await compactVerify(token, this.#key, { algorithms: ["HS256"] });
      const claims = JSON.parse(new TextDecoder().decode(payload));
      return typeof claims === "object" && !Array.isArray(claims) ? Object.freeze(claims) : null;
    } catch {
      return null; // jose throws for every kind of bad token
    }
  }
}
