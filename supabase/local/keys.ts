/** API keys: the opaque ones natively, the older JWT ones and those of members translated to them. */
import type { Claims } from "./database.ts";
import { isMemberKey, KeyRefused, type MemberKeys } from "./member_keys.ts";
import type { Settings } from "./settings.ts";
import { type Payload, SignedTokens } from "./signed_tokens.ts";

const BEARER = /^Bearer\s+(.+)$/i;

export type KeyKind = "publishable" | "secret";

export class Keys {
  readonly #secretBytes: Uint8Array;
  readonly #ofMembers: MemberKeys;
  readonly #tokens: SignedTokens;

  constructor(
    readonly settings: Pick<Settings, "publishableKey" | "secretKey" | "jwtSecret">,
    makeMemberKeys: (signingKey: Uint8Array) => MemberKeys,
  ) {
    this.#secretBytes = new TextEncoder().encode(settings.jwtSecret);
    this.#ofMembers = makeMemberKeys(this.#secretBytes);
    this.#tokens = new SignedTokens(this.#secretBytes);
  }

  /** Which key this is, or null; a JWT key is one signed by us with the role `anon` or `service_role`. */
  async kindOf(key: string): Promise<KeyKind | null> {
    if (equal(key, this.settings.publishableKey)) return "publishable";
    if (equal(key, this.settings.secretKey)) return "secret";
    if (key.split(".").length !== 3) return null;
    const role = (await this.verify(key))?.role;
    return role === "service_role" ? "secret" : role === "anon" ? "publishable" : null;
  }

  /** Whether this is a key at all, the project's or a member's. */
  async isKey(key: string): Promise<boolean> {
    return isMemberKey(key) ? await this.#memberClaims(key) !== null : await this.kindOf(key) !== null;
  }

  /** A token's claims if we signed it and it has not expired, else null. */
  async verify(token: string): Promise<Payload | null> {
    return await this.#tokens.valid(token);
  }

  /** A token's claims if we signed it, whenever that was, else null. */
  async signed(token: string): Promise<Payload | null> {
    return await this.#tokens.payload(token);
  }

  /** Whom a key or a user's token makes its bearer, or null if it is neither. */
  async claims(token: string): Promise<Claims | null> {
    if (isMemberKey(token)) return await this.#memberClaims(token);
    const kind = await this.kindOf(token);
    if (kind) return { role: kind === "secret" ? "service_role" : "anon" };
    const claims = await this.verify(token);
    return typeof claims?.role === "string" ? claims as Claims : null;
  }

  async #memberClaims(key: string): Promise<Claims | null> {
    try {
      return await this.#ofMembers.claims(key);
    } catch (error) {
      if (error instanceof KeyRefused) return null;
      throw error;
    }
  }

  /** What users' tokens are signed with. */
  get signingKey(): Uint8Array {
    return this.#secretBytes;
  }

  async #actAsMember(headers: Headers, apikey: string | null): Promise<void> {
    const token = bearer(headers);
    // As with any key, the token decides who acts, and the key whether one may ask at all.
    if (isMemberKey(apikey)) {
      if (token === null || token === apikey) {
        headers.set("authorization", `Bearer ${await this.#ofMembers.token(apikey)}`);
      } else await this.#ofMembers.claims(apikey);
    }
    if (isMemberKey(token) && token !== apikey) {
      headers.set("authorization", `Bearer ${await this.#ofMembers.token(token)}`);
      if (apikey === null) headers.set("apikey", this.settings.publishableKey);
    }
  }

  opaque(kind: KeyKind): string {
    return kind === "secret" ? this.settings.secretKey : this.settings.publishableKey;
  }

  /**
   * The request's headers with a JWT key, wherever it stands, replaced by the opaque key it means, and a member's key by
   * the publishable key with a token of that member. A member's key that does not hold throws a KeyRefused.
   */
  async translate(request: Request): Promise<Headers> {
    const headers = new Headers(request.headers);
    const given = headers.get("apikey") ?? new URL(request.url).searchParams.get("apikey");
    await this.#actAsMember(headers, given);
    const apikey = isMemberKey(given) ? this.settings.publishableKey : given;
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

/** Whether a request comes with a member's key. */
export function comesWithMemberKey({ headers, url }: Request): boolean {
  return [headers.get("apikey"), new URL(url).searchParams.get("apikey"), bearer(headers)].some(isMemberKey);
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
