import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { FakeServer } from "@/testing/server.ts";
import { listFiles, readTail } from "./files.ts";

const signal = new AbortController().signal;

/** Storage with one text. */
function storing(text: string): FakeServer {
  return new FakeServer(({ method }) =>
    method === "POST" ? Response.json({ signedURL: "/object/sign/logs/x?token=t" }) : new Response(text)
  );
}

Deno.test("the end of a text begins with a whole line", async () => {
  using _server = storing("f a line\nsecond\nthird\n");
  strictEqual(await readTail("logs", "x", 1_000, 100, signal), "second\nthird\n");
  strictEqual(await readTail("logs", "x", 22, 100, signal), "f a line\nsecond\nthird\n");
});

Deno.test("an empty text is read without asking", async () => {
  using server = storing("");
  strictEqual(await readTail("logs", "x", 0, 100, signal), "");
  strictEqual(server.asked.length, 0);
});

Deno.test("a storage that does not answer is offline; one that refuses says why", async () => {
  {
    using _server = new FakeServer(() => Promise.reject(new TypeError("in any words")));
    await rejects(listFiles("logs", "x"), { isOffline: true });
  }
  using _server = new FakeServer(() =>
    Response.json({ statusCode: "404", error: "Bucket not found", message: "Bucket not found" }, { status: 400 })
  );
  await rejects(listFiles("logs", "x"), { isOffline: false, code: "404", message: "Bucket not found" });
});

Deno.test("folders have neither size nor time", async () => {
  using _server = new FakeServer(() =>
    Response.json([
      { name: "run", id: null, updated_at: null, metadata: null },
      { name: "a.log", id: "1", updated_at: "2026-01-01T00:00:00Z", metadata: { size: 0, mimetype: "text/plain" } },
    ])
  );
  deepStrictEqual((await listFiles("logs", "")).map(({ name, isFolder, size }) => [name, isFolder, size]), [
    ["run", true, null],
    ["a.log", false, 0],
  ]);
});
