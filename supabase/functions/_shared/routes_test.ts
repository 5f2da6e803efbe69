import { deepStrictEqual, strictEqual } from "node:assert";
import { Answer, serve, v } from "./serve.ts";

Deno.env.set("SUPABASE_URL", "http://127.0.0.1:1");
Deno.env.set("SUPABASE_PUBLISHABLE_KEYS", JSON.stringify({ default: "sb_publishable_a" }));
Deno.env.set("SUPABASE_SECRET_KEYS", JSON.stringify({ default: "sb_secret_a" }));

const auth = ["secret"] as const;
const any = v.looseObject({});
const routes = serve(
  { method: "GET", auth, input: any, handler: ({ input }) => ({ list: input }) },
  { method: "POST", path: "/upload", auth, input: any, handler: ({ input }) => ({ upload: input }) },
  { method: "GET", path: "/{id}", auth, input: any, handler: ({ input }) => ({ get: input }) },
  { method: "DELETE", path: "/{id}", auth, input: any, handler: () => new Answer(202, { status: "stopping" }) },
  { method: "POST", path: "/{id}/cancel", auth, input: any, handler: ({ input }) => ({ cancel: input }) },
);

async function call(method: string, path: string, body?: string) {
  const headers = { apikey: "sb_secret_a" };
  const response = await routes.fetch(new Request(`http://x${path}`, { method, headers, body }));
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : null, headers: response.headers };
}

Deno.test("a path is the same below the gateway's prefix and on a hosted project", async () => {
  for (const prefix of ["/functions/v1/things", "/things"]) {
    deepStrictEqual((await call("GET", prefix)).body, { list: {} });
    deepStrictEqual((await call("GET", `${prefix}/?a=1`)).body, { list: { a: "1" } });
    deepStrictEqual((await call("GET", `${prefix}/x?a=1`)).body, { get: { a: "1", id: "x" } });
    deepStrictEqual((await call("POST", `${prefix}/upload`, '{"b": 2}')).body, { upload: { b: 2 } });
    deepStrictEqual((await call("POST", `${prefix}/x/cancel`)).body, { cancel: { id: "x" } });
  }
});

Deno.test("what stands in the path is decoded, and goes before the query and the body", async () => {
  deepStrictEqual((await call("GET", "/things/a%2Fb%20%F0%9F%94%B4?id=y")).body, { get: { id: "a/b 🔴" } });
  deepStrictEqual((await call("POST", "/things/x/cancel", '{"id": "y"}')).body, { cancel: { id: "x" } });
  strictEqual((await call("GET", "/things/%ff")).status, 400);
});

Deno.test("a path that is spelled out goes before one in which anything may stand", async () => {
  deepStrictEqual((await call("GET", "/things/upload")).body, { get: { id: "upload" } });
  strictEqual((await call("POST", "/things/upload", "{}")).status, 200);
});

Deno.test("another method is 405 and says which are right", async () => {
  const { status, headers, body } = await call("PUT", "/things/x");
  deepStrictEqual([status, headers.get("allow")], [405, "GET, DELETE, OPTIONS"]);
  strictEqual(body.error.message, "use GET or DELETE");
  strictEqual((await call("DELETE", "/things")).headers.get("allow"), "GET, OPTIONS");
});

Deno.test("an unknown path is 404 in the shape of every error", async () => {
  for (const path of ["/things/x/y", "/things//cancel", "/things/x/cancel/z"]) {
    const { status, body } = await call("POST", path, "{}");
    deepStrictEqual([path, status, body.error.code], [path, 404, "not_found"]);
  }
});

Deno.test("a browser is told what a path takes", async () => {
  const { status, headers } = await call("OPTIONS", "/things/x");
  deepStrictEqual([status, headers.get("access-control-allow-methods")], [204, "GET, DELETE, OPTIONS"]);
});

Deno.test("an answer may have another status", async () => {
  const { status, body } = await call("DELETE", "/things/x");
  deepStrictEqual([status, body], [202, { status: "stopping" }]);
});
