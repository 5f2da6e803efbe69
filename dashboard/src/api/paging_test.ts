import { deepStrictEqual, strictEqual } from "node:assert";
import { FakeServer, rows } from "@/testing/server.ts";
import { placeAfter } from "./paging.ts";
import { nextStatusPage, readStatusChanges } from "./run.ts";
import { nextEvaluationPage, readEvaluations } from "./run_evaluations.ts";

const signal = new AbortController().signal;
const TIME = "2026-01-02T03:04:05.678901+00:00";

Deno.test("a page that is not full is the last", () => {
  const at = (row: { time: string }) => row.time;
  strictEqual(placeAfter([], 2, at), null);
  strictEqual(placeAfter([{ id: "a", time: TIME }], 2, at), null);
  deepStrictEqual(placeAfter([{ id: "a", time: "x" }, { id: "b", time: TIME }], 2, at), { id: "b", time: TIME });
});

/** A table of rows of one time, which answers as the API does. */
function sameTime(column: string, idsDescend: boolean, count: number) {
  const ids = Array.from({ length: count }, (_, place) => String(place).padStart(4, "0"));
  if (idsDescend) ids.reverse();
  return new FakeServer(({ query }) => {
    const after = query.get("or")?.match(/id\.(gt|lt)\.(\d+)/);
    const rest = after ? ids.filter((id) => (after[1] === "gt" ? id > after[2]! : id < after[2]!)) : ids;
    return rows(rest.slice(0, Number(query.get("limit"))).map((id) => ({ id, [column]: TIME })));
  });
}

Deno.test("evaluations of one batch, which have one time, are all shown, each once", async () => {
  using server = sameTime("created_at", false, 250);
  const seen: string[] = [];
  for (let from: ReturnType<typeof nextEvaluationPage> = null;;) {
    const page = await readEvaluations("run", from, signal);
    seen.push(...page.map(({ id }) => id));
    from = nextEvaluationPage(page);
    if (!from) break;
  }
  deepStrictEqual([seen.length, new Set(seen).size], [250, 250]);
  strictEqual(server.asked[1]!.query.get("or"), `(created_at.lt."${TIME}",and(created_at.eq."${TIME}",id.gt.0099))`);
});

Deno.test("changes of status at one time are all shown, each once", async () => {
  using _server = sameTime("changed_at", true, 120);
  const seen: string[] = [];
  for (let from: ReturnType<typeof nextStatusPage> = null;;) {
    const page = await readStatusChanges("run", from, signal);
    seen.push(...page.map(({ id }) => id));
    from = nextStatusPage(page);
    if (!from) break;
  }
  deepStrictEqual([seen.length, new Set(seen).size], [120, 120]);
});
