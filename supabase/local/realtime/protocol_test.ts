import { deepStrictEqual, strictEqual, throws } from "node:assert";
import { type ActivityRow, checkActivity, matching } from "./activity.ts";
import { readBindings, readFilter } from "./bindings.ts";
import { decode, encode, versionOf } from "./protocol.ts";

const RUN = "0b4e1a9c-5d0f-4c7e-9a54-6f1f1b6f3c21";

Deno.test("a message survives both ways of writing it", () => {
  const message = { joinRef: "1", ref: "2", topic: "realtime:x", event: "phx_join", payload: { a: [1] } };
  for (const version of ["1.0.0", "2.0.0"] as const) {
    deepStrictEqual(decode(encode(message, version), version), message);
  }
});

Deno.test("what is no message is none", () => {
  for (const noise of ["", "x", "1", "null", "[]", "{}", "[1,2,3,4]", '{"topic":1,"event":"x"}', new ArrayBuffer(3)]) {
    strictEqual(decode(noise, "1.0.0"), null);
    strictEqual(decode(noise, "2.0.0"), null);
  }
  strictEqual(versionOf("3.0.0"), null);
});

Deno.test("a row goes to the bindings whose filter it fits", () => {
  const binding = { event: "*", schema: "public", table: "activity" };
  const bindings = readBindings({
    postgres_changes: [binding, { ...binding, filter: `training_run_id=eq.${RUN.toUpperCase()}` }],
  });
  const row: ActivityRow = { id: "x", training_run_id: RUN, changed_at: "2026-11-16T09:00:00+00:00" };
  deepStrictEqual(matching(bindings, row), bindings.map((one) => one.id));
  deepStrictEqual(matching(bindings, { ...row, training_run_id: null }), [bindings[0].id]);
  throws(() => checkActivity({ ...bindings[0], filter: "id=in.(x)" }), /id=in/);
  throws(() => checkActivity({ ...bindings[0], event: "DELETE" }), /told as UPDATE/);
  throws(() => readBindings({ postgres_changes: Array(101).fill(binding) }), /more than 100/);
  deepStrictEqual(readBindings({}), []);
});

Deno.test("a filter is a column, an operator and values", () => {
  deepStrictEqual(readFilter("a=eq.x=y.z"), { column: "a", operator: "eq", values: ["x=y.z"] });
  deepStrictEqual(readFilter("a=in.(1,2)"), { column: "a", operator: "in", values: ["1", "2"] });
  deepStrictEqual(readFilter("a=in.()"), { column: "a", operator: "in", values: [] });
  for (const text of ["", "a", "a=", "a=like.x", "a=in.1,2", "=eq.1"]) strictEqual(readFilter(text), null, text);
});
