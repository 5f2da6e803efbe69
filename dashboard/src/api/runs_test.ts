import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { FakeServer, refusal, rows } from "@/testing/server.ts";
import { containing, readListedRun, readRuns, type RunFilters, RUNS_PER_PAGE, type RunSort } from "./runs.ts";

const ALL: RunFilters = {
  search: "",
  status: [],
  algorithm: null,
  environment: null,
  owner: null,
  from: null,
  to: null,
};
const NEWEST: RunSort = { column: "created_at", direction: "desc" };
const signal = new AbortController().signal;

Deno.test("every character of a search means itself, as far as the API lets it", () => {
  strictEqual(containing("50%_a\\b"), "%50\\%\\_a\\\\b%");
  strictEqual(containing("a*b"), "%a_b%");
  strictEqual(containing(""), "%%");
});

Deno.test("what is not set filters nothing, and days are those of the person", async () => {
  using server = new FakeServer(() => rows([], 0));
  await readRuns(ALL, NEWEST, 1, signal);
  const filtered = { ...ALL, search: " x ", status: ["failed"], owner: "o", from: "2026-03-01", to: "2026-03-01" };
  await readRuns(filtered, NEWEST, 1, signal);
  await readRuns({ ...ALL, from: "no day", to: "" }, NEWEST, 1, signal);
  const [all, some, wrong] = server.asked.map(({ query }) => query);
  deepStrictEqual([...all!.keys()].sort(), ["limit", "offset", "order", "select"]);
  deepStrictEqual([...wrong!.keys()].sort(), [...all!.keys()].sort());
  strictEqual(some!.get("search_text"), "ilike.%x%");
  strictEqual(some!.get("shown_status"), "in.(failed)");
  const [from, before] = some!.getAll("created_at");
  strictEqual(Date.parse(before!.slice(3)) - Date.parse(from!.slice(4)), 86_400_000);
});

Deno.test("a later page asks for ids alone, and shows the runs in their order without those that are gone", async () => {
  using server = new FakeServer(({ query }) =>
    query.get("select") === "id"
      ? rows([{ id: "c" }, { id: "a" }, { id: "gone" }, { id: "b" }], 103)
      : rows([{ id: "a", name: "A" }, { id: "b", name: "B" }, { id: "c", name: "C" }])
  );
  const { runs, count, page } = await readRuns(ALL, NEWEST, 3, signal);
  deepStrictEqual(runs.map(({ name }) => name), ["C", "A", "B"]);
  deepStrictEqual([count, page, server.asked[0]!.query.get("offset")], [103, 3, String(2 * RUNS_PER_PAGE)]);
});

Deno.test("a page that is not there any more is the first", async () => {
  for (const beyond of [() => refusal("PGRST103", 416), () => rows([], 1)]) {
    using _server = new FakeServer(({ query }) => query.get("offset") === "0" ? rows([{ id: "a" }], 1) : beyond());
    const { runs, page } = await readRuns(ALL, NEWEST, 9, signal);
    deepStrictEqual([runs.length, page], [1, 1]);
  }
});

Deno.test("no runs are no error, and an error is not taken for none", async () => {
  {
    using _server = new FakeServer(() => rows([], 0));
    deepStrictEqual(await readRuns(ALL, NEWEST, 1, signal), { runs: [], count: 0, page: 1 });
  }
  using _server = new FakeServer(() => refusal("57014", 500, "too slow"));
  for (const page of [1, 2]) await rejects(readRuns(ALL, NEWEST, page, signal), { code: "57014" });
});

Deno.test("what is no id is no run, without asking", async () => {
  using server = new FakeServer(() => rows([]));
  strictEqual(await readListedRun("latest", signal), null);
  strictEqual(server.asked.length, 0);
});
