/** Users' access tokens, with the claims that GoTrue gives them and that policies read. */
import { SignJWT } from "jose";
import type { Body, Sql } from "./auth_api.ts";
import type { Keys } from "./keys.ts";

export const EXPIRES_IN_SECONDS = 3600;

export interface UserRow {
  id: string;
  aud: string | null;
  role: string | null;
  email: string | null;
  phone: string | null;
  raw_app_meta_data: Body | null;
  raw_user_meta_data: Body | null;
  is_anonymous: boolean | null;
}

/** Sign a token for a user's session, which knows how the user signed in. */
export async function accessToken(sql: Sql, keys: Keys, origin: string, user: UserRow, session: string) {
  const methods = await sql<{ method: string; timestamp: number }[]>`
    select authentication_method as method, extract(epoch from created_at)::int as timestamp
    from auth.mfa_amr_claims where session_id = ${session} order by created_at desc`;
  const issuedAt = Math.floor(Date.now() / 1000);
  const claims = {
    iss: `${origin}/auth/v1`,
    sub: user.id,
    aud: user.aud || "authenticated",
    exp: issuedAt + EXPIRES_IN_SECONDS,
    iat: issuedAt,
    email: user.email ?? "",
    phone: user.phone ?? "",
    app_metadata: user.raw_app_meta_data ?? {},
    user_metadata: user.raw_user_meta_data ?? {},
    role: user.role || "authenticated",
    aal: "aal1",
    amr: methods.map(({ method, timestamp }) => ({ method, timestamp })),
    session_id: session,
    is_anonymous: user.is_anonymous ?? false,
  };
  const signed = new SignJWT(claims).setProtectedHeader({ alg: "HS256", typ: "JWT" });
  return { token: await signed.sign(keys.signingKey), expiresAt: claims.exp };
}
