import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import type { GatewayConnection } from "./database.ts";
import { type KeyRefused, MemberKeys } from "./member_keys.ts";
import { Throttle } from "./throttle.ts";

const SIGNING_KEY = new TextEncoder().encode("a secret of the tests");
const RIGHT = `omrl_${"r".repeat(43)}`;
const wrong = (number: number) => `omrl_${String(number).padStart(43, "0")}`;

/** A database that knows one key, by its digest, and counts how often it is asked. */
async function database() {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(RIGHT));
  const digest = new Uint8Array(bytes).toHex();
  const state = { asked: 0, fails: false };
  const sql = (
    _texts: TemplateStringsArray,
    given: string,
  ) => [{ found: given === digest ? { key_id: "k", user_id: "u", email: "e" } : null }];
  const asCaller = (_claims: unknown, _operation: string, run: (sql: unknown) => unknown) => {
    state.asked++;
    if (state.fails) return Promise.reject(Object.assign(new Error("gone"), { code: "57P01" }));
    return Promise.resolve(run(sql));
  };
  return { state, connection: { asCaller } as unknown as Pick<GatewayConnection, "asCaller"> };
}

const problemOf = (keys: MemberKeys, key: string) =>
  keys.claims(key).then(() => null, (refusal: KeyRefused) => refusal.problem);

Deno.test("wrong keys are slowed down, and one that was right before is not", async () => {
  const { connection, state } = await database();
  const keys = new MemberKeys(connection, SIGNING_KEY, new Throttle({ address: { burst: 3, seconds: 60 } }));
  strictEqual((await keys.claims(RIGHT)).key_id, "k");
  const problems = [];
  for (let i = 0; i < 5; i++) problems.push(await problemOf(keys, wrong(i)));
  deepStrictEqual(problems, ["unknown", "unknown", "unknown", "throttled", "throttled"]);
  strictEqual(state.asked, 4);
  strictEqual((await keys.claims(RIGHT)).sub, "u");
});

Deno.test("many requests with one key ask the database once", async () => {
  const { connection, state } = await database();
  const keys = new MemberKeys(connection, SIGNING_KEY);
  const tokens = await Promise.all(Array.from({ length: 50 }, () => keys.token(RIGHT)));
  strictEqual(state.asked, 1);
  strictEqual(tokens.every((token) => token.split(".").length === 3), true);
});

Deno.test("what is not of the form of a key is not asked for at all", async () => {
  const { connection, state } = await database();
  const keys = new MemberKeys(connection, SIGNING_KEY);
  for (const key of ["omrl_", "omrl_short", `${RIGHT}x`, `omrl_${"é".repeat(43)}`]) {
    strictEqual(await problemOf(keys, key), "unknown");
  }
  strictEqual(state.asked, 0);
});

Deno.test("a database that does not answer is no answer", async () => {
  const { connection, state } = await database();
  const keys = new MemberKeys(connection, SIGNING_KEY);
  state.fails = true;
  await rejects(() => keys.claims(RIGHT), /gone/);
  state.fails = false;
  strictEqual((await keys.claims(RIGHT)).sub, "u");
});
