/** Who asks: the key decides whether one may, the key or the token as which role. */
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
  if (/^Bearer\s*$/i.test(request.headers.get("authorization") ?? "")) {
    throw unauthorized("PGRST301", "Empty JWT is sent in Authorization header");
  }
  if (!token || token === key || token.startsWith("sb_")) return { role: kind === "secret" ? "service_role" : "anon" };
  return await claimsOf(token, keys);
}

function refused(message: string, hint: string | undefined, code: string): Response {
  return Response.json({ message, hint }, { status: 401, headers: { "sb-error-code": `UNAUTHORIZED_${code}` } });
}

async function claimsOf(token: string, keys: Keys): Promise<Claims> {
  const parts = token.split(".").length;
  if (parts !== 3) throw unauthorized("PGRST301", `Expected 3 parts in JWT; got ${parts}`);
  const claims = await keys.signed(token);
  if (!claims) throw notOurs();
  checkTimes(claims, Date.now() / 1000);
  const { aud, role } = claims;
  if (!isAbsent(aud) && !(Array.isArray(aud) ? aud : [aud]).every((one) => typeof one === "string")) {
    throw unauthorized("PGRST303", "The JWT 'aud' claim must be a string or an array of strings");
  }
  return { ...claims, role: typeof role === "string" && role ? role : "anon" };
}

const isAbsent = (claim: unknown) => claim === undefined || claim === null;

function checkTimes(claims: Record<string, unknown>, now: number): void {
  for (const name of ["exp", "nbf", "iat"]) {
    if (isAbsent(claims[name]) || typeof claims[name] === "number") continue;
    throw unauthorized("PGRST303", `The JWT '${name}' claim must be a number`);
  }
  const { exp, nbf, iat } = claims as Record<string, number | undefined | null>;
  if ((exp ?? Infinity) <= now - CLOCK_SKEW_SECONDS) throw unauthorized("PGRST303", "JWT expired");
  if ((nbf ?? 0) > now + CLOCK_SKEW_SECONDS) throw unauthorized("PGRST303", "JWT not yet valid");
  if ((iat ?? 0) > now + CLOCK_SKEW_SECONDS) throw unauthorized("PGRST303", "JWT issued at future");
}

function notOurs(): ApiError {
  const details = "None of the keys was able to decode the JWT";
  return unauthorized("PGRST301", "No suitable key or wrong key type", details);
}

function unauthorized(code: string, message: string, details?: string): ApiError {
  const challenge = `Bearer error="invalid_token", error_description="${message}"`;
  return new ApiError(401, code, message, { details, headers: { "WWW-Authenticate": challenge } });
}
