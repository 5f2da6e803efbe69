import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { FakeServer, refusal } from "@/testing/server.ts";
import { answered, invoke, RequestError, rpc, supabase } from "./supabase.ts";

const RUN = "0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01";

async function failureOf(request: Promise<unknown>): Promise<RequestError> {
  try {
    await request;
  } catch (error) {
    if (error instanceof RequestError) return error;
    throw error;
  }
  throw new Error("it did not fail");
}

Deno.test("a function is called by its name and arguments, and null is an answer", async () => {
  using server = new FakeServer(() => Response.json(null));
  strictEqual(await rpc("turn_chat", { agent_state_id: RUN }), null);
  deepStrictEqual(server.asked.map(({ method, path, body }) => [method, path, body]), [
    ["POST", "/rest/v1/rpc/turn_chat", { agent_state_id: RUN }],
  ]);
});

Deno.test("a server that does not answer is offline, in every browser's words", async () => {
  for (const words of ["Failed to fetch", "NetworkError when attempting to fetch resource.", "Load failed", "…"]) {
    using _server = new FakeServer(() => Promise.reject(new TypeError(words)));
    const error = await failureOf(rpc("run_facets", {}));
    deepStrictEqual([error.isOffline, error.code, error.isUnknown], [true, null, false]);
  }
});

Deno.test("a refusal is not taken for a lost connection, whatever it says", async () => {
  using _server = new FakeServer(() => refusal("OM400", 400, "failed to fetch: network load failed"));
  const error = await failureOf(rpc("run_facets", {}));
  deepStrictEqual([error.isOffline, error.code, error.message], [
    false,
    "OM400",
    "failed to fetch: network load failed",
  ]);
});

Deno.test("an id that is unknown is told by its code", async () => {
  for (
    const [code, isUnknown] of [["OM404", true], ["PGRST116", true], ["22P02", true], ["OM403", false], [
      "42501",
      false,
    ]] as const
  ) {
    using _server = new FakeServer(() => refusal(code, 400, "unknown id"));
    strictEqual((await failureOf(rpc("run_health", { training_run_id: RUN }))).isUnknown, isUnknown, code);
  }
});

Deno.test("a proxy's page and a database that is away are a server that does not answer, and no page is shown", async () => {
  for (
    const answer of [
      () => new Response("<html>Bad gateway</html>", { status: 502 }),
      () => new Response("<html>Gateway time-out</html>", { status: 504 }),
      () => refusal("PGRST000", 503, "Could not connect with the database"),
    ]
  ) {
    using _server = new FakeServer(answer);
    const error = await failureOf(answered(supabase().from("training_runs").select("id")));
    deepStrictEqual([error.isOffline, error.message], [true, "The server does not answer."]);
  }
});

Deno.test("what Postgres forbids is said in words for people, what the database's functions forbid in their own", async () => {
  for (
    const [code, message] of [
      ["42501", "You may not do this: sign in, or ask its owner or an admin."],
      ["OM403", "permission denied for function preview_job"],
    ] as const
  ) {
    using _server = new FakeServer(() => refusal(code, 403, "permission denied for function preview_job"));
    strictEqual((await failureOf(rpc("run_facets", {}))).message, message);
  }
});

Deno.test("a token that is refused is told from a server that failed", async () => {
  for (const [code, isSignedOut] of [["PGRST303", true], ["57014", false], ["42501", false]] as const) {
    using _server = new FakeServer(() => refusal(code, isSignedOut ? 401 : 500));
    strictEqual((await failureOf(rpc("run_facets", {}))).isSignedOut, isSignedOut, code);
  }
});

Deno.test("a function that is refused, missing or behind a proxy without a server says so in words", async () => {
  for (
    const [answer, message, isOffline] of [
      [
        Response.json({ error: { code: "conflict", message: "it was used already" } }, { status: 409 }),
        "it was used already",
        false,
      ],
      [new Response("no", { status: 404 }), "This server has no function load-archive.", false],
      [new Response("<html>", { status: 502 }), "The server does not answer.", true],
      [Promise.reject(new TypeError("Failed to fetch")), "The server does not answer.", true],
    ] as const
  ) {
    using _server = new FakeServer(() => answer);
    const error = await failureOf(invoke("load-archive", {}));
    deepStrictEqual([error.message, error.isOffline], [message, isOffline]);
  }
});

Deno.test("what nobody waits for any more is not answered", async () => {
  using _server = new FakeServer(() => Response.json([]));
  const gone = new AbortController();
  gone.abort();
  await rejects(rpc("run_facets", {}, gone.signal), { name: "AbortError" });
});

Deno.test("a refusal names its field where the database says so", async () => {
  for (
    const [details, field] of [['{"field": "space.lr.min"}', "space.lr.min"], ["Key (id) is there.", null], [
      null,
      null,
    ]]
  ) {
    using _server = new FakeServer(() =>
      Response.json({ code: "OM400", message: "no", details, hint: null }, { status: 400 })
    );
    strictEqual((await failureOf(rpc("run_facets", {}))).field, field);
  }
});
