import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { FakeServer, rows } from "@/testing/server.ts";
import { type Entry, knownTasks, partsOf, taskId, uploadTasks } from "./tasks.ts";

const entries = (count: number, text = "find it"): Entry[] =>
  Array.from({ length: count }, (_, place) => ({ place, value: { id: place, task: text } }));

const tasksIn = (body: unknown) => (body as { tasks: { id: number }[] }).tasks;

Deno.test("a file is sent in parts that the function takes, in its order", async () => {
  using server = new FakeServer(({ body }) => Response.json({ message: "", count: tasksIn(body).length }));
  const progress: number[] = [];
  const outcome = await uploadTasks(entries(12_000), "shop", "key", (sent) => progress.push(sent));
  deepStrictEqual(outcome, { written: 12_000, problems: [], left: [] });
  deepStrictEqual(progress, [5_000, 10_000, 12_000]);
  deepStrictEqual(server.asked.map(({ body }) => tasksIn(body)[0]!.id), [0, 5_000, 10_000]);
  // By their length too: a part must stay far below what the function takes.
  deepStrictEqual(partsOf(entries(5, "x".repeat(1_500_000))).map((part) => part.entries.length), [2, 2, 1]);
});

Deno.test("what is wrong keeps its place in the file, and those that came with it are left to be sent", async () => {
  using _server = new FakeServer(({ body }) => {
    if (tasksIn(body)[0]!.id === 0) return Response.json({ message: "", count: 5_000 });
    const details = [{ index: 1, field: "task", message: "is required" }];
    return Response.json({ error: { code: "invalid_input", message: "1 is wrong", details } }, { status: 400 });
  });
  const { written, problems, left } = await uploadTasks(entries(5_003), null, "key", () => {});
  strictEqual(written, 5_000);
  deepStrictEqual(problems, [{ place: 5_001, field: "task", message: "is required" }]);
  deepStrictEqual(left.map(({ place }) => place), [5_000, 5_002]);
});

Deno.test("a refusal of the whole is told in the server's words", async () => {
  const error = { code: "forbidden", message: "only editors may" };
  using _server = new FakeServer(() => Response.json({ error }, { status: 403 }));
  await rejects(uploadTasks(entries(1), null, "key", () => {}), { message: "only editors may", code: "forbidden" });
});

Deno.test("of nothing, nothing is sent or asked", async () => {
  using server = new FakeServer(() => rows([]));
  deepStrictEqual(await uploadTasks([], null, "key", () => {}), { written: 0, problems: [], left: [] });
  strictEqual((await knownTasks([])).size, 0);
  strictEqual(server.asked.length, 0);
});

Deno.test("a task's id is that of the Python package", async () => {
  strictEqual(await taskId("alfworld", "42"), "93f6343b-10b4-5fad-9536-3f8aac086446");
  strictEqual(await taskId(null, "ü"), "91b28908-e66f-5a98-be16-b07f97e425b1");
});
