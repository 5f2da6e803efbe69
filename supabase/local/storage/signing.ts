/** Tokens that let a URL be used without a key. */
import { errors, jwtVerify, SignJWT } from "jose";
import { invalidRequest, invalidToken } from "./errors.ts";

export type Purpose = "download" | "upload";

export interface UploadGrant {
  owner: string | null;
  upsert: boolean;
}

const MAX_EXPIRY_SECONDS = 10 * 365 * 24 * 3600;

export class Signer {
  readonly #key: Uint8Array;

  constructor(jwtSecret: string) {
    // Its own key: a user's token must not open a URL, nor a URL's token stand for a user.
    this.#key = new TextEncoder().encode(`storage-url:${jwtSecret}`);
  }

  async sign(purpose: Purpose, object: string, expiresIn: unknown, grant?: UploadGrant): Promise<string> {
    const seconds = Number(expiresIn);
    if (!Number.isFinite(seconds) || seconds < 1 || seconds > MAX_EXPIRY_SECONDS) {
      throw invalidRequest("body/expiresIn must be a number of seconds, at least 1");
    }
    return await new SignJWT({ url: object, purpose, ...grant })
      .setProtectedHeader({ alg: "HS256" })
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1000) + Math.floor(seconds))
      .sign(this.#key);
  }

  /** Check a URL's token for this object and purpose. */
  async verify(purpose: Purpose, object: string, token: string | null): Promise<UploadGrant> {
    if (!token) throw invalidRequest("querystring must have required property 'token'");
    const claims = await this.#claims(token);
    if (claims.url !== object || claims.purpose !== purpose) throw invalidToken("The token is for another URL");
    return { owner: (claims.owner as string | null) ?? null, upsert: claims.upsert === true };
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
