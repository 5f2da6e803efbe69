/** What our own parts of `/auth/v1` share: its errors, its bodies, and who may administer. */
import { findUnstorable } from "../functions/_shared/storable.ts";
import { readJsonObject } from "./bodies.ts";
import type { GatewayConnection } from "./database.ts";
import type { Keys } from "./keys.ts";

export type Body = Record<string, unknown>;
export type Sql = GatewayConnection["driver"];

/** What Supabase Lite answers below `/auth/v1`, beside our own endpoints. */
const LITE_PATH = new RegExp(
  "^/auth/v1/(settings|health|logout|signup|token|user|verify|otp|magiclink|recover|resend|reauthenticate|authorize|" +
    "callback|\\.well-known/[a-z.-]+)/?$",
);
const EMAIL = /^[^\s@\0]+@[^\s@\0]+$/;
const MAX_EMAIL_LENGTH = 255;

/** A refusal in GoTrue's shape. */
export class AuthError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly more: Body = {},
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }

  toResponse(): Response {
    const body = { code: this.status, error_code: this.code, msg: this.message, ...this.more };
    return Response.json(body, { status: this.status, headers: { "X-Sb-Error-Code": this.code, ...this.headers } });
  }
}

/** The answer to a path that GoTrue does not know, for whoever has a key; null if there is something. */
export async function unknownPath({ headers }: Request, pathname: string, keys: Keys): Promise<Response | null> {
  if (!pathname.startsWith("/auth/v1") || LITE_PATH.test(pathname)) return null;
  if ((await keys.kindOf(headers.get("apikey") ?? "")) === null) return null;
  return new AuthError(404, "not_found", "404 page not found").toResponse();
}

export const invalid = (message: string) => new AuthError(400, "validation_failed", message);

/** Answer, with refusals as responses. */
export async function answered(answer: () => Promise<Response>): Promise<Response> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof AuthError) return error.toResponse();
    throw error;
  }
}

/** Let nobody administer without the secret key. */
export async function requireSecretKey(request: Request, keys: Keys): Promise<void> {
  const apikey = request.headers.get("apikey");
  if (!apikey || (await keys.kindOf(apikey)) !== "secret") {
    throw new AuthError(apikey ? 403 : 401, "not_admin", "User not allowed");
  }
}

export async function json(request: Request): Promise<Body> {
  const body = await readJsonObject(request);
  if (body === null) throw new AuthError(400, "bad_json", "Could not parse request body as a JSON object");
  return body;
}

export function checkEmail(email: unknown): string {
  if (typeof email !== "string" || email.length > MAX_EMAIL_LENGTH || !EMAIL.test(email) || findUnstorable(email)) {
    throw invalid("Unable to validate email address: invalid format");
  }
  return email.toLowerCase();
}
