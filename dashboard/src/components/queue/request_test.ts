import { deepStrictEqual } from "node:assert";
import { EMPTY, problemsOf, requestOf } from "./request.ts";

const fieldsOf = (form: Partial<typeof EMPTY>, tasks = 1) => Object.keys(problemsOf({ ...EMPTY, ...form }, tasks));

Deno.test("a form that was not touched asks for one rollout of each task, as the task says", () => {
  deepStrictEqual(problemsOf(EMPTY, 3), {});
  deepStrictEqual(requestOf(EMPTY, ["a", "b", "c"]), { task_ids: ["a", "b", "c"], attempts: 1 });
});

Deno.test("what was filled in is asked for, and what was emptied again is not", () => {
  const form = {
    ...EMPTY,
    agent: " chat ",
    model: "qwen",
    environment: " ",
    attempts: 4,
    priority: -3,
    limits: { max_steps: 10, max_tokens: "", max_cost_usd: 0.5 },
    reuse: true,
  };
  deepStrictEqual(problemsOf(form, 1), {});
  deepStrictEqual(requestOf(form, ["a"]), {
    task_ids: ["a"],
    attempts: 4,
    agent: "chat",
    model: "qwen",
    priority: -3,
    limits: { max_steps: 10, max_cost_usd: 0.5 },
    reuse: true,
  });
});

Deno.test("every number that the database would refuse is told at its field", () => {
  for (const attempts of [0, -1, 1.5, 1_001, "", "x"]) deepStrictEqual(fieldsOf({ attempts }), ["attempts"]);
  deepStrictEqual(fieldsOf({ attempts: 10 }, 1_001), ["attempts"]);
  deepStrictEqual(fieldsOf({ attempts: 10 }, 1_000), []);
  for (const priority of [1_001, -1_001, 0.5, ""]) deepStrictEqual(fieldsOf({ priority }), ["priority"]);
  deepStrictEqual(fieldsOf({ limits: { max_steps: 1.5, max_seconds: 0.5, max_tokens: 0, max_cost_usd: -1 } }), [
    "max_steps",
    "max_tokens",
    "max_cost_usd",
  ]);
});

Deno.test("an agent is one of those that come with the package, or an import path", () => {
  for (const agent of ["", "browser", "pkg.mod:Agent"]) deepStrictEqual(fieldsOf({ agent }), []);
  for (const agent of ["chatt", "pkg.mod", "a b:c", ":x"]) deepStrictEqual(fieldsOf({ agent }), ["agent"]);
});
