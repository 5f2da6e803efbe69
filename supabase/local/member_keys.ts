/**
 * Members' own keys: whose a key is, as the database says, and the token that lets the request act as that member.
 *
 * The database itself asks with every statement whether the key still holds (`internal.member_role`), so that what is
 * remembered here is never a right: it saves a question, and tells the holder of a dead key what is wrong.
 */
import { SignJWT } from "jose";
import { clientAddress } from "./client.ts";
import type { Claims, GatewayConnection } from "./database.ts";
import { Throttle } from "./throttle.ts";

const PREFIX = "omrl_";
const FORM = /^omrl_[A-Za-z0-9_-]{43}$/;
/** How soon a revoked key is told so, on every gateway of the database. */
const REMEMBERED_MS = 1_000;
const UNKNOWN_REMEMBERED_MS = 5_000;
const MAX_REMEMBERED = 10_000;
const TOKEN_SECONDS = 600;
/** A database without the migrations has no keys: no such function, schema or rights. */
const NO_KEYS = ["42883", "3F000", "42501"];

export type KeyProblem = "unknown" | "revoked" | "expired" | "throttled";

interface Owner {
  keyId: string;
  userId: string;
  email: string;
}

interface Remembered {
  at: number;
  asked: Promise<Owner | KeyProblem>;
  /** It held once: asking again is no guess. */
  isKnown: boolean;
  token?: { text: string; expiresAt: number };
}

/** A key that is refused, and why. */
export class KeyRefused extends Error {
  constructor(readonly problem: KeyProblem) {
    super(REASONS[problem]);
  }

  get status(): number {
    return this.problem === "throttled" ? 429 : 401;
  }
}

const REASONS: Record<KeyProblem, string> = {
  unknown: "This key is not one of this workspace's; make one on the page Keys of the dashboard",
  revoked: "This key was revoked; make a new one on the page Keys of the dashboard",
  expired: "This key has expired; make a new one on the page Keys of the dashboard",
  throttled: "Too many wrong keys came from this address; try again shortly",
};

export function isMemberKey(text: string | null | undefined): text is string {
  return !!text?.startsWith(PREFIX);
}

export class MemberKeys {
  readonly #remembered = new Map<string, Remembered>();

  constructor(
    readonly connection: Pick<GatewayConnection, "asCaller">,
    readonly signingKey: Uint8Array,
    readonly throttle = new Throttle({ address: { burst: 100, seconds: 1 } }),
  ) {}

  /** The claims of a key's member; a KeyRefused says what is wrong with the key. */
  async claims(key: string): Promise<Claims> {
    const { keyId, userId, email } = await this.#owner(await digestOf(key), key);
    return { role: "authenticated", aud: "authenticated", sub: userId, email, key_id: keyId };
  }

  /** A token with which the request acts as the key's member; it leaves the gateway with none of its answers. */
  async token(key: string): Promise<string> {
    const digest = await digestOf(key);
    const claims = await this.claims(key);
    const remembered = this.#remembered.get(digest);
    const now = Date.now() / 1000;
    if (remembered?.token && remembered.token.expiresAt > now + TOKEN_SECONDS / 2) return remembered.token.text;
    const signed = new SignJWT({ ...claims, aal: "aal1", is_anonymous: false, iat: Math.floor(now) })
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setExpirationTime(Math.floor(now) + TOKEN_SECONDS);
    const token = { text: await signed.sign(this.signingKey), expiresAt: now + TOKEN_SECONDS };
    if (remembered) remembered.token = token;
    return token.text;
  }

  async #owner(digest: string, key: string): Promise<Owner> {
    const found = FORM.test(key) ? await this.#ask(digest) : "unknown";
    if (typeof found === "string") throw new KeyRefused(found);
    return found;
  }

  async #ask(digest: string): Promise<Owner | KeyProblem> {
    const former = this.#remembered.get(digest);
    const lasts = former?.isKnown ? REMEMBERED_MS : UNKNOWN_REMEMBERED_MS;
    if (former && Date.now() - former.at < lasts) return await former.asked;
    const subjects = [`address ${clientAddress()}`];
    if (!former?.isKnown && this.throttle.wait(subjects) > 0) return "throttled";
    const asked = this.#read(digest);
    const remembered: Remembered = { at: Date.now(), asked, isKnown: former?.isKnown ?? true, token: former?.token };
    this.#remember(digest, remembered);
    try {
      const found = await asked;
      remembered.isKnown = found !== "unknown";
      if (found === "unknown") this.throttle.failed(subjects);
      return found;
    } catch (error) {
      this.#remembered.delete(digest); // the database did not answer
      throw error;
    }
  }

  async #read(digest: string): Promise<Owner | KeyProblem> {
    try {
      const [{ found }] = await this.connection.asCaller(
        { role: "service_role" },
        "keys",
        (sql) => sql`select internal.use_key(${digest}) as found`,
      );
      if (!found) return "unknown";
      return found.problem ?? { keyId: found.key_id, userId: found.user_id, email: found.email ?? "" };
    } catch (error) {
      if (NO_KEYS.includes((error as { code?: string }).code ?? "")) return "unknown";
      throw error;
    }
  }

  #remember(digest: string, entry: Remembered): void {
    this.#remembered.delete(digest);
    this.#remembered.set(digest, entry);
    if (this.#remembered.size > MAX_REMEMBERED) this.#remembered.delete(this.#remembered.keys().next().value!);
  }
}

/** A refused key in the words of the API that was asked. */
export function refusedKey(refusal: KeyRefused, pathname: string): Response {
  const { status, message } = refusal;
  const headers: Record<string, string> = { "Access-Control-Allow-Origin": "*" };
  if (status === 429) headers["Retry-After"] = "1";
  return Response.json(bodyFor(pathname, status, message), { status, headers });
}

/** What only a person who signed in may ask of Auth. */
export function refusedPath(): Response {
  const msg = "A key cannot sign in or change accounts; sign in to the dashboard, or use the secret key";
  return Response.json({ code: 403, error_code: "not_allowed", msg }, { status: 403 });
}

function bodyFor(pathname: string, status: number, message: string): unknown {
  if (pathname.startsWith("/auth/")) return { code: status, error_code: "bad_jwt", msg: message };
  if (pathname.startsWith("/storage/")) return { statusCode: String(status), error: "Unauthorized", message };
  if (pathname.startsWith("/functions/")) {
    return { error: { code: status === 429 ? "too_many_requests" : "unauthorized", message, details: null } };
  }
  return { message: "Invalid API key", hint: message, code: null, details: null };
}

async function digestOf(key: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
  return new Uint8Array(bytes).toHex();
}
