import { deepStrictEqual, strictEqual } from "node:assert";
import type { FoundRollout } from "@/api/rollouts.ts";
import { FakeServer, refusal } from "@/testing/server.ts";
import { PAGE, Search } from "./search.ts";

/** Rollouts, of which only the ids matter here. */
function found(...ids: (number | string)[]): FoundRollout[] {
  return ids.map((id) => ({ id: String(id), status: "running" } as FoundRollout));
}

function page(rollouts: FoundRollout[], next: string | null): Response {
  const cursor = next && { created_at: next, id: next };
  return Response.json({ rollouts, next: cursor, searched: 10, searched_to: next });
}

const ids = (search: Search) => search.progress.rows.map(({ id }) => id);

Deno.test("a page may take many calls, each going on where the last one ended", async () => {
  using server = new FakeServer(({ body }) => {
    const after = (body as { after: { id: string } | null }).after;
    if (!after) return page([], "1");
    return after.id === "1" ? page(found("a"), "2") : page(found("b"), null);
  });
  const search = new Search({});
  await search.more();
  deepStrictEqual([ids(search), search.progress.state, search.progress.searched], [["a", "b"], "ended", 30]);
  await search.more();
  strictEqual(server.asked.length, 3);
});

Deno.test("a full page stops, and the next one goes on; a row that comes twice is shown once", async () => {
  const all = found(...Array.from({ length: PAGE }, (_, place) => place));
  using _server = new FakeServer(({ body }) =>
    (body as { after: unknown }).after ? page([...all.slice(-1), ...found("more")], null) : page(all, "x")
  );
  const search = new Search({});
  await search.more();
  strictEqual(search.progress.state, "full");
  await search.more();
  deepStrictEqual([search.progress.rows.length, ids(search).at(-1), search.progress.state], [
    PAGE + 1,
    "more",
    "ended",
  ]);
});

Deno.test("when filters change while a page loads, what comes late for the old ones is not shown", async () => {
  const late = Promise.withResolvers<Response>();
  using _server = new FakeServer(({ body }) => {
    const { environment } = (body as { filters: { environment: string } }).filters;
    return environment === "old" ? late.promise : page(found("new"), null);
  });
  const [old, current] = [new Search({ environment: "old" }), new Search({ environment: "new" })];
  const loading = old.more();
  old.rest();
  await current.more();
  late.resolve(page(found("old"), null));
  await loading;
  deepStrictEqual([ids(old), old.progress.state, ids(current)], [[], "stopped", ["new"]]);
});

Deno.test("a search that was left goes on when someone looks, but not when a person stopped it", async () => {
  using server = new FakeServer(() => page(found("a"), null));
  const stopped = new Search({});
  void stopped.more();
  stopped.stop();
  stopped.wake();
  strictEqual(stopped.progress.state, "stopped");
  const left = new Search({});
  void left.more();
  left.rest();
  left.wake();
  strictEqual(left.progress.state, "searching");
  while (left.progress.state === "searching") await new Promise((resolve) => setTimeout(resolve));
  deepStrictEqual(ids(left), ["a"]);
  strictEqual(server.asked.length > 0, true);
});

Deno.test("a lost connection keeps what was found, and the search goes on from there", async () => {
  let calls = 0;
  using _server = new FakeServer(() => {
    calls++;
    if (calls === 2) throw new TypeError("gone");
    return calls === 1 ? page(found("a"), "1") : page(found("b"), null);
  });
  const search = new Search({});
  await search.more();
  deepStrictEqual([search.progress.state, ids(search)], ["failed", ["a"]]);
  await search.more();
  deepStrictEqual([search.progress.state, ids(search), search.progress.error], ["ended", ["a", "b"], null]);
});

Deno.test("a refused search says why", async () => {
  using _server = new FakeServer(() => refusal("OM400", 400, "sort: no"));
  const search = new Search({});
  await search.more();
  deepStrictEqual([search.progress.state, search.progress.error?.message], ["failed", "sort: no"]);
});

Deno.test("rows change in their places, and who listens hears of it only then", async () => {
  using _server = new FakeServer(() => page(found("a", "b"), null));
  const search = new Search({});
  await search.more();
  let heard = 0;
  search.subscribe(() => heard++);
  search.update(new Map([["b", { status: "running" as const }], ["elsewhere", { status: "failed" as const }]]));
  strictEqual(heard, 0);
  search.update(new Map([["b", { status: "failed" as const }]]));
  deepStrictEqual([heard, search.progress.rows.map(({ status }) => status)], [1, ["running", "failed"]]);
});
