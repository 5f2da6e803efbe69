import { deepStrictEqual, ok, strictEqual, throws } from "node:assert";
import { draftOf } from "./draft.ts";

const page = (json: Record<string, unknown>) => ({ json, title: "A paper", urls: [] });

Deno.test("a map is taken over, with what the paper says of rewards and steps", () => {
  const { name, kind, spec, description } = draftOf(page({
    kind: "grid",
    name: "four rooms",
    description: "Find the goal.",
    map: ["A.G", "..."],
    rewards: { step: -0.01, goal: 10, other: 1 },
    max_steps: 50,
  }));
  deepStrictEqual([name, kind, description], ["four rooms", "grid", "Find the goal."]);
  deepStrictEqual(spec, { map: ["A.G", "..."], rewards: { step: -0.01, goal: 10 }, ends: { max_steps: 50 } });
});

Deno.test("a map is mended, and that is said", () => {
  const { spec, warnings } = draftOf(
    page({
      kind: "grid",
      name: "x",
      map: ["A.GA", "?x", "", 7, "#".repeat(99)],
    }),
  );
  const rows = spec.map as string[];
  deepStrictEqual(rows.map((row) => row.length), [64, 64, 64]);
  strictEqual(rows[0]!.slice(0, 4), "A.G.");
  strictEqual(rows[1]!.slice(0, 3), "..#");
  ok(warnings.some((warning) => warning.startsWith("map: it was mended")));
});

Deno.test("without a map there is a size, or nothing", () => {
  const { spec } = draftOf(
    page({
      kind: "grid",
      name: "x",
      width: 99,
      height: 3,
      max_steps: -1,
      rewards: { goal: 1e9 },
    }),
  );
  deepStrictEqual(spec, { size: { width: 64, height: 3 }, objects: [{ name: "goal", kind: "goal", random: 1 }] });
  for (
    const json of [{}, { width: 0, height: 3 }, { width: 1, height: 1 }, {
      width: "5",
      height: 5,
    }, { map: "A.G" }]
  ) {
    throws(() => draftOf(page({ kind: "grid", ...json })), { status: 422 });
  }
});

Deno.test("an id is taken over only if it makes nobody import a module", () => {
  const { spec, warnings } = draftOf(page({
    kind: "gymnasium",
    name: "cart",
    gymnasium_id: "ALE/Breakout-v5",
    arguments: { frameskip: 4, mode: "easy", path: "../../etc/passwd", deep: { a: 1 }, "not a name": 1 },
  }));
  deepStrictEqual(spec, { id: "ALE/Breakout-v5", arguments: { frameskip: 4, mode: "easy" } });
  strictEqual(warnings.length, 4);
  for (
    const id of [
      "os:system",
      "evil_package:Env-v0",
      "../x/y",
      "a b",
      "",
      null,
      5,
    ]
  ) {
    throws(() => draftOf(page({ kind: "gymnasium", gymnasium_id: id })), {
      status: 422,
    });
  }
});

Deno.test("no environment is an error that has what was found", () => {
  for (const kind of ["none", "other", undefined, 5, "grid", "process"]) {
    throws(
      () => draftOf(page({ kind, name: "Poker", description: "Cards." })),
      {
        status: 422,
        code: "unprocessable",
      },
    );
  }
  try {
    draftOf(page({ kind: "other", name: "Poker", description: "Cards." }));
  } catch (error) {
    deepStrictEqual((error as { details: unknown }).details, {
      found: {
        kind: "other",
        name: "Poker",
        description: "Cards.",
        title: "A paper",
      },
    });
  }
});

Deno.test("texts can be stored", () => {
  const { name, description } = draftOf(
    page({
      kind: "grid",
      name: "a\0b\ud800\nc",
      description: "\0",
      map: ["A.G"],
    }),
  );
  deepStrictEqual([name, description], ["a b\ufffd c", null]);
});
