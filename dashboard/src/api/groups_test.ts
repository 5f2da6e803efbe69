import { deepStrictEqual, strictEqual } from "node:assert";
import { FakeServer, refusal, rows } from "@/testing/server.ts";
import { groupsOfStep, isFlat, neighboursOf, rewardsOf, type StepGroup } from "./groups.ts";

const signal = new AbortController().signal;

function group(id: string, rollouts: number): StepGroup {
  const unknown = { reward_count: 0, reward_mean: null, reward_std: null };
  const counts = { rollout_count: rollouts, completed_count: 0, success_count: 0 };
  return { id, number: 0, task_description: null, ...counts, ...unknown };
}

Deno.test("rewards are asked for in as few requests as the API's limit of rows allows", async () => {
  using server = new FakeServer(({ query }) => {
    const ids = query.get("group_id")!.slice(4, -1).split(",");
    return rows(ids.map((id) => ({ id: `rollout of ${id}`, group_id: id, status: "success", total_reward: "NaN" })));
  });
  const found = await rewardsOf([group("a", 600), group("b", 400), group("c", 1), group("d", 5000)], signal);
  deepStrictEqual(server.asked.map(({ query }) => query.get("group_id")), ["in.(a,b)", "in.(c)", "in.(d)"]);
  deepStrictEqual([...found].map(([id, rewards]) => [id, rewards.length]), [["a", 1], ["b", 1], ["c", 1], ["d", 1]]);
});

Deno.test("of no groups nothing is asked, and a group without rollouts has no rewards", async () => {
  using server = new FakeServer(() => rows([]));
  strictEqual((await rewardsOf([], signal)).size, 0);
  strictEqual(server.asked.length, 0);
  deepStrictEqual((await rewardsOf([group("a", 0)], signal)).get("a"), []);
});

Deno.test("a page of groups beyond the last is empty", async () => {
  using _server = new FakeServer(() => refusal("PGRST103", 416));
  const none = await groupsOfStep("step", { page: 99, sort: "std_low", only: "flat" }, signal);
  deepStrictEqual(none, { groups: [], count: 0 });
});

Deno.test("the neighbours of a step are the nearest that anything is known of", async () => {
  using _server = new FakeServer(({ path, query }) => {
    const isNext = query.get("step")!.startsWith("gt");
    if (path.endsWith("training_steps")) return rows(isNext ? [] : [{ step: 3 }]);
    return rows(isNext ? [{ step: 9 }] : [{ step: 4 }]);
  });
  deepStrictEqual(await neighboursOf("run", 5, signal), { previous: 4, next: 9 });
});

Deno.test("a group is flat where at least two rewards are the same", () => {
  strictEqual(isFlat({ reward_count: 2, reward_std: 0 }), true);
  strictEqual(isFlat({ reward_count: 1, reward_std: 0 }), false);
  for (const reward_std of [null, 0.1, "NaN"] as const) strictEqual(isFlat({ reward_count: 2, reward_std }), false);
});
