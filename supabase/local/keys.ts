/** API keys: the opaque ones natively, the older JWT ones translated to them. */
import { jwtVerify } from "jose";
import type { Claims } from "./database.ts";
import type { Settings } from "./settings.ts";

const BEARER = /^Bearer\s+(.+)$/i;

export type KeyKind = "publishable" | "secret";

export class Keys {
  readonly #secretBytes: Uint8Array;

  constructor(readonly settings: Pick<Settings, "publishableKey" | "secretKey" | "jwtSecret">) {
    this.#secretBytes = new TextEncoder().encode(settings.jwtSecret);
  }

  /** Which key this is, or null; a JWT key is one signed by us with the role `anon` or `service_role`. */
  async kindOf(key: string): Promise<KeyKind | null> {
    if (equal(key, this.settings.publishableKey)) return "publishable";
    if (equal(key, this.settings.secretKey)) return "secret";
    if (key.split(".").length !== 3) return null;
    const role = (await this.verify(key))?.role;
    return role === "service_role" ? "secret" : role === "anon" ? "publishable" : null;
  }

  /** A token's claims if we signed it and it has not expired, else null. */
  async verify(token: string): Promise<Record<string, unknown> | null> {
    try {
      return (await jwtVerify(token, this.#secretBytes, { algorithms: ["HS256"] })).payload;
    } catch {
      return null; // jose throws for every kind of bad token
    }
  }

  /** Whom a key or a user's token makes its bearer, or null if it is neither. */
  async claims(token: string): Promise<Claims | null> {
    const kind = await this.kindOf(token);
    if (kind) return { role: kind === "secret" ? "service_role" : "anon" };
    const claims = await this.verify(token);
    return typeof claims?.role === "string" ? claims as Claims : null;
  }

  /** What users' tokens are signed with. */
  get signingKey(): Uint8Array {
    return this.#secretBytes;
  }

  opaque(kind: KeyKind): string {
    return kind === "secret" ? this.settings.secretKey : this.settings.publishableKey;
  }

  /** The request's headers with a JWT key, wherever it stands, replaced by the opaque key it means. */
  async translate(request: Request): Promise<Headers> {
    const headers = new Headers(request.headers);
    const apikey = headers.get("apikey") ?? new URL(request.url).searchParams.get("apikey");
    const token = bearer(headers);
    const kind = apikey ? await this.kindOf(apikey) : null;
    if (kind) headers.set("apikey", this.opaque(kind));
    // Beside another key, a JWT key is a token whose role counts, and the Data API reads it itself.
    if (token && (token === apikey || !apikey)) {
      const tokenKind = token === apikey ? kind : await this.kindOf(token);
      if (tokenKind) headers.set("authorization", `Bearer ${this.opaque(tokenKind)}`);
    }
    return headers;
  }
}

export function bearer(headers: Headers): string | null {
  return headers.get("authorization")?.match(BEARER)?.[1] ?? null;
}

/** Compare without telling by the time taken how much was right. */
function equal(left: string, right: string): boolean {
  const a = new TextEncoder().encode(left);
  const b = new TextEncoder().encode(right);
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i] ^ (b[i % b.length] ?? 0);
  return difference === 0;
}
