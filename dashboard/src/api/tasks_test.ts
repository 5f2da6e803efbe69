import { deepStrictEqual, strictEqual } from "node:assert";
import { FakeServer, rows } from "@/testing/server.ts";
import { knownTasks, type NewTask, taskId, writeTasks } from "./tasks.ts";

function tasks(count: number): NewTask[] {
  return Array.from({ length: count }, (_, place) => ({
    id: String(place),
    external_id: String(place),
    environment: null,
    name: null,
    description: "find it",
    expected_answer: null,
    split: null,
    metadata: {},
  }));
}

Deno.test("tasks are written in batches, and what is refused keeps its place in the whole", async () => {
  using server = new FakeServer(({ body }) => {
    const { length } = (body as { batch: { tasks: unknown[] } }).batch.tasks;
    const refused = [{ kind: "tasks", index: length - 1, id: null, code: "OM400", field: null, message: "no" }];
    return Response.json({ received: length, refused });
  });
  const progress: number[] = [];
  const refused = await writeTasks(tasks(450), (written) => progress.push(written));
  deepStrictEqual(progress, [200, 400, 450]);
  deepStrictEqual(refused.map(({ index }) => index), [199, 399, 449]);
  strictEqual(server.asked.length, 3);
});

Deno.test("what a task does not say is left out, so that it clears nothing", async () => {
  using server = new FakeServer(() => Response.json({ received: 1, refused: [] }));
  await writeTasks(tasks(1), () => {});
  deepStrictEqual(server.asked.map(({ body }) => body), [
    { batch: { tasks: [{ id: "0", external_id: "0", description: "find it", metadata: {} }] } },
  ]);
});

Deno.test("of nothing, nothing is written or asked", async () => {
  using server = new FakeServer(() => rows([]));
  deepStrictEqual(await writeTasks([], () => {}), []);
  strictEqual((await knownTasks([])).size, 0);
  strictEqual(server.asked.length, 0);
});

Deno.test("a task's id is that of the Python package", async () => {
  strictEqual(await taskId("alfworld", "42"), "93f6343b-10b4-5fad-9536-3f8aac086446");
  strictEqual(await taskId(null, "ü"), "91b28908-e66f-5a98-be16-b07f97e425b1");
});
