import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { ERROR_CODES } from "./constants.ts";
import { fromDatabase } from "./errors.ts";
import { FunctionError, serve, v } from "./serve.ts";

Deno.env.set("SUPABASE_URL", "http://127.0.0.1:1");
Deno.env.set("SUPABASE_PUBLISHABLE_KEYS", JSON.stringify({ default: "sb_publishable_a" }));
Deno.env.set("SUPABASE_SECRET_KEYS", JSON.stringify({ default: "sb_secret_a" }));

const add = serve({
  method: "POST",
  auth: ["secret"],
  maxBodyBytes: 1000,
  input: v.object({ a: v.number(), list: v.optional(v.array(v.object({ name: v.string() }))) }),
  handler: ({ input }) => {
    if (input.a === 13) throw new Error("a secret of the inside");
    if (input.a === 14) throw new FunctionError(409, "conflict", "taken");
    return { sum: input.a + 1 };
  },
});

async function call(body: unknown, init: RequestInit = {}) {
  const response = await add.fetch(
    new Request("http://x/functions/v1/add", {
      method: "POST",
      headers: { apikey: "sb_secret_a" },
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...init,
    }),
  );
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : {}, headers: response.headers };
}

Deno.test("a good request is answered with what the handler returns", async () => {
  const { status, body, headers } = await call({ a: 1 });
  deepStrictEqual([status, body, headers.get("access-control-allow-origin")], [200, { sum: 2 }, "*"]);
});

Deno.test("bad input is 400 and names the field and what was expected", async () => {
  const cases: [unknown, RegExp][] = [
    [{}, /^a: .*required/],
    [{ a: "x" }, /^a: .*number/],
    [{ a: 1, list: [{ name: "ok" }, {}] }, /^list\.1\.name: /],
    [[], /object/i],
    ["{", /not JSON/],
    ["", /empty/],
    ["null", /object/i],
  ];
  for (const [input, message] of cases) {
    const { status, body } = await call(input);
    deepStrictEqual([status, body.error.code], [400, "invalid_input"]);
    ok(message.test(body.error.message), `${JSON.stringify(input)}: ${body.error.message}`);
  }
});

Deno.test("a body over the limit is 413, whether or not it says how long it is", async () => {
  const long = JSON.stringify({ a: 1, pad: "x".repeat(2000) });
  strictEqual((await call(long)).status, 413);
  strictEqual((await call(long, { headers: { apikey: "sb_secret_a", "content-length": "5000" } })).status, 413);
  const chunks = ReadableStream.from([new TextEncoder().encode(long)]);
  strictEqual((await call("", { body: chunks })).status, 413);
});

Deno.test("a body that is not UTF-8 is 400", async () => {
  strictEqual((await call("", { body: new Uint8Array([0x22, 0xff, 0x22]) })).status, 400);
});

Deno.test("another method is 405 and says which is right", async () => {
  const { status, headers } = await call("", { method: "GET", body: undefined });
  deepStrictEqual([status, headers.get("allow")], [405, "POST, OPTIONS"]);
});

Deno.test("a failure inside tells the caller nothing but where to look", async () => {
  const original = console.error;
  const logged: unknown[] = [];
  console.error = (...parts: unknown[]) => logged.push(...parts);
  try {
    const { status, body } = await call({ a: 13 });
    deepStrictEqual([status, body.error.code], [500, "internal"]);
    ok(!JSON.stringify(body).includes("secret of the inside"));
    ok(logged.some((part) => String(part).includes(body.error.details.request_id)));
    ok(logged.some((part) => part instanceof Error && part.message === "a secret of the inside"));
  } finally {
    console.error = original;
  }
  deepStrictEqual((await call({ a: 14 })).body, { error: { code: "conflict", message: "taken", details: null } });
});

Deno.test("database errors become the status they mean", () => {
  const original = console.error;
  console.error = () => {};
  const expected: Record<string, number> = {
    OM400: 400,
    OM403: 403,
    OM404: 404,
    OM409: 409,
    "42501": 403,
    "22P02": 400,
    "22P05": 400,
    "23502": 400,
    "23514": 400,
    "23503": 404,
    "23505": 409,
    PGRST116: 404,
    PGRST301: 401,
    PGRST000: 503,
    "57P01": 503,
    "40P01": 503,
    "42703": 500,
    XX000: 500,
  };
  for (const [code, status] of Object.entries(expected)) {
    strictEqual(fromDatabase({ code, message: "m" }, 400).status, status, code);
  }
  console.error = original;
});

Deno.test("an answer without a code is judged by its status, whatever it says", () => {
  const original = console.error;
  console.error = () => {};
  for (const [status, expected] of [[0, 503], [502, 503], [503, 503], [504, 503], [500, 500], [400, 500], [404, 500]]) {
    strictEqual(fromDatabase({ code: "", message: "TypeError: fetch failed" }, status).status, expected);
    strictEqual(fromDatabase({ message: "<html>" }, status).status, expected);
  }
  console.error = original;
});

Deno.test("every code of our own SQL has its status", () => {
  for (const code of ERROR_CODES) strictEqual(fromDatabase({ code, message: "m" }, 400).status, Number(code.slice(2)));
});
