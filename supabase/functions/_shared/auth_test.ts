import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { exportJWK, generateKeyPair, SignJWT } from "npm:jose@6.2.17";
import { type Access, authenticate } from "./auth.ts";
import { getEnvironment } from "./environment.ts";
import type { FunctionError } from "./errors.ts";

const USER = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const ALL: Access[] = ["secret", "publishable", "user"];

/** A project as hosted Supabase describes it: named keys, both generations, asymmetric signing. */
const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
const jwk = { ...(await exportJWK(publicKey)), kid: "current", alg: "ES256", use: "sig" };
Deno.env.set("SUPABASE_URL", "http://127.0.0.1:1");
Deno.env.set("SUPABASE_PUBLISHABLE_KEYS", JSON.stringify({ default: "sb_publishable_a", web: "sb_publishable_b" }));
Deno.env.set("SUPABASE_SECRET_KEYS", JSON.stringify({ default: "sb_secret_a", ci: "sb_secret_b" }));
Deno.env.set("SUPABASE_ANON_KEY", "legacy.anon.key");
Deno.env.set("SUPABASE_SERVICE_ROLE_KEY", "legacy.service.key");
Deno.env.set("SUPABASE_JWKS", JSON.stringify({ keys: [jwk] }));

function token(claims: Record<string, unknown>, kid = "current", expires = "1h"): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid }).setExpirationTime(expires).sign(privateKey);
}

const kindOf = async (headers: Record<string, string>, allowed = ALL) =>
  (await authenticate(new Request("http://x", { headers }), allowed, getEnvironment())).caller;

const is401 = (error: FunctionError) => error.status === 401;

Deno.test("every key of the project is known, alone or as a bearer, old or new", async () => {
  for (const key of ["sb_secret_a", "sb_secret_b", "legacy.service.key"]) {
    const ways: Record<string, string>[] = [{ apikey: key }, { authorization: `Bearer ${key}` }];
    for (const headers of ways) deepStrictEqual(await kindOf(headers), { kind: "secret", userId: null });
    deepStrictEqual((await kindOf({ apikey: key, authorization: `Bearer ${key}` })).kind, "secret");
  }
  for (const key of ["sb_publishable_a", "sb_publishable_b", "legacy.anon.key"]) {
    strictEqual((await kindOf({ apikey: key })).kind, "publishable");
  }
});

Deno.test("a member's token signed with the project's key is a member, with or without a key", async () => {
  const authorization = `Bearer ${await token({ sub: USER, role: "authenticated" })}`;
  const headers: Record<string, string>[] = [{ authorization }, { authorization, apikey: "sb_publishable_a" }];
  for (const sent of headers) deepStrictEqual(await kindOf(sent), { kind: "user", userId: USER });
});

Deno.test("beside the secret key, a member's token still only counts as the member", async () => {
  const authorization = `Bearer ${await token({ sub: USER, role: "authenticated" })}`;
  strictEqual((await kindOf({ apikey: "sb_secret_a", authorization })).kind, "user");
});

Deno.test("what is wrong, expired, unknown or missing is 401", async () => {
  const good = await token({ sub: USER });
  const wrong: Record<string, string>[] = [
    {},
    { apikey: "sb_secret_wrong" },
    { apikey: "sb_secret_wrong", authorization: `Bearer ${good}` },
    { authorization: "Bearer nonsense" },
    { authorization: `Bearer ${await token({ sub: USER }, "current", "-1h")}` },
    { authorization: `Bearer ${await token({ sub: USER }, "unknown")}` },
    { authorization: `Bearer ${await token({})}` },
    { authorization: `Bearer ${good.slice(0, -6)}AAAAAA` },
  ];
  for (const headers of wrong) await rejects(() => kindOf(headers), is401, JSON.stringify(headers));
});

Deno.test("a credential the function does not take is 401 and says what it takes", async () => {
  await rejects(
    () => kindOf({ apikey: "sb_publishable_a" }, ["secret", "user"]),
    /secret key or a member's access token/,
  );
  const authorization = `Bearer ${await token({ sub: USER })}`;
  await rejects(() => kindOf({ authorization }, ["secret"]), is401);
});

Deno.test("a token signed with a shared secret is checked by the auth server", async () => {
  const shared = await new SignJWT({ sub: USER }).setProtectedHeader({ alg: "HS256" }).sign(new Uint8Array(32));
  const original = globalThis.fetch;
  const asked: string[] = [];
  const answerWith = (response: () => Response) => {
    globalThis.fetch = (input) => {
      asked.push(new URL(input instanceof Request ? input.url : input).pathname);
      return Promise.resolve(response());
    };
  };
  try {
    answerWith(() => Response.json({ id: USER, aud: "authenticated" }));
    deepStrictEqual(await kindOf({ authorization: `Bearer ${shared}` }), { kind: "user", userId: USER });
    deepStrictEqual(asked, ["/auth/v1/user"]);
    answerWith(() => Response.json({ error_code: "bad_jwt", msg: "invalid" }, { status: 403 }));
    await rejects(() => kindOf({ authorization: `Bearer ${shared}` }), is401);
    answerWith(() => Response.json({ msg: "down" }, { status: 503 }));
    await rejects(() => kindOf({ authorization: `Bearer ${shared}` }), (error: FunctionError) => error.status === 503);
  } finally {
    globalThis.fetch = original;
  }
});
