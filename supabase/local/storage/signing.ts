/**
 * Tokens that let a URL be used without a key, with the rights that whoever signed it has when it is used: it ends with
 * the signer's key or membership.
 */
import { errors, jwtVerify, SignJWT } from "jose";
import type { Claims } from "../database.ts";
import { invalidRequest, invalidToken } from "./errors.ts";

export type Purpose = "download" | "upload";

export interface Grant {
  /** As whom the URL is used. */
  signer: Claims;
  upsert: boolean;
}

const MAX_EXPIRY_SECONDS = 10 * 365 * 24 * 3600;

export class Signer {
  readonly #key: Uint8Array;

  constructor(jwtSecret: string) {
    // Its own key: a user's token must not open a URL, nor a URL's token stand for a user.
    this.#key = new TextEncoder().encode(`storage-url:${jwtSecret}`);
  }

  async sign(
    purpose: Purpose,
    object: string,
    expiresIn: unknown,
    { role, sub, key_id }: Claims,
    upsert = false,
  ): Promise<string> {
    const seconds = Number(expiresIn);
    if (!Number.isFinite(seconds) || seconds < 1 || seconds > MAX_EXPIRY_SECONDS) {
      throw invalidRequest("body/expiresIn must be a number of seconds, at least 1");
    }
    return await new SignJWT({ url: object, purpose, signer: { role, sub, key_id }, upsert })
      .setProtectedHeader({ alg: "HS256" })
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1000) + Math.floor(seconds))
      .sign(this.#key);
  }

  /** Check a URL's token for this object and purpose. */
  async verify(purpose: Purpose, object: string, token: string | null): Promise<Grant> {
    if (!token) throw invalidRequest("querystring must have required property 'token'");
    const claims = await this.#claims(token);
    if (claims.url !== object || claims.purpose !== purpose) throw invalidToken("The token is for another URL");
    return { signer: claims.signer as Claims, upsert: claims.upsert === true };
  }

  async #claims(token: string): Promise<Record<string, unknown>> {
    try {
      return (await jwtVerify(token, this.#key, { algorithms: ["HS256"] })).payload;
    } catch (error) {
      if (error instanceof errors.JOSEError) throw invalidToken(error.message);
      throw error;
    }
  }
}
