/** Who asks: the key decides whether one may, the key or the token as which role. */
import { decodeJwt } from "jose";
import type { Claims } from "../database.ts";
import { bearer, type Keys } from "../keys.ts";
import { ApiError } from "./errors.ts";

const BROWSER = /^\s*Mozilla\s*\/\s*5\s*\.\s*0/i;
const CLOCK_SKEW_SECONDS = 30;

/** The caller's claims, or the answer that refuses the key. */
export async function callerOf(request: Request, keys: Keys): Promise<Claims | Response> {
  const key = request.headers.get("apikey") ?? new URL(request.url).searchParams.get("apikey");
  if (!key) {
    return refused(
      "No API key found in request",
      "No `apikey` request header or url param was found.",
      "MISSING_API_KEY",
    );
  }
  const kind = await keys.kindOf(key);
  if (!kind) return refused("Invalid API key", "Double check your Supabase `apikey`", "INVALID_API_KEY");
  if (kind === "secret" && BROWSER.test(request.headers.get("user-agent") ?? "")) {
    return refused("Forbidden use of secret API key in browser", undefined, "INVALID_API_KEY_TYPE");
  }
  const token = bearer(request.headers);
  if (!token || token === key || token.startsWith("sb_")) return { role: kind === "secret" ? "service_role" : "anon" };
  return await claimsOf(token, keys);
}

function refused(message: string, hint: string | undefined, code: string): Response {
  return Response.json({ message, hint }, { status: 401, headers: { "sb-error-code": `UNAUTHORIZED_${code}` } });
}

async function claimsOf(token: string, keys: Keys): Promise<Claims> {
  const parts = token.split(".").length;
  if (parts !== 3) throw unauthorized("PGRST301", `Expected 3 parts in JWT; got ${parts}`);
  const claims = await keys.verify(token);
  const now = Date.now() / 1000;
  if (!claims) throw isExpired(token, now) ? unauthorized("PGRST303", "JWT expired") : notOurs();
  if (typeof claims.iat === "number" && claims.iat > now + CLOCK_SKEW_SECONDS) {
    throw unauthorized("PGRST303", "JWT issued at future");
  }
  return { ...claims, role: typeof claims.role === "string" && claims.role ? claims.role : "anon" };
}

function isExpired(token: string, now: number): boolean {
  try {
    return (decodeJwt(token).exp ?? Infinity) <= now;
  } catch {
    return false; // not a token at all
  }
}

function notOurs(): ApiError {
  const details = "None of the keys was able to decode the JWT";
  return unauthorized("PGRST301", "No suitable key or wrong key type", details);
}

function unauthorized(code: string, message: string, details?: string): ApiError {
  const challenge = `Bearer error="invalid_token", error_description="${message}"`;
  return new ApiError(401, code, message, { details, headers: { "WWW-Authenticate": challenge } });
}
