import { deepStrictEqual, strictEqual, throws } from "node:assert";
import { type ActivityRow, checkActivity, matching } from "./activity.ts";
import { readBindings, readFilters } from "./bindings.ts";
import { decode, encode, versionOf } from "./protocol.ts";

const RUN = "0b4e1a9c-5d0f-4c7e-9a54-6f1f1b6f3c21";

Deno.test("a message survives both ways of writing it", () => {
  const message = { joinRef: "1", ref: "2", topic: "realtime:x", event: "phx_join", payload: { a: [1] } };
  for (const version of ["1.0.0", "2.0.0"] as const) {
    deepStrictEqual(decode(encode(message, version), version), message);
    deepStrictEqual(decode(encode({ ...message, ref: 2 }, version), version)?.ref, 2);
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

Deno.test("a filter is conditions, each of a column, an operator and values", () => {
  const one = (column: string, operator: string, values: string[], isNegated = false) => ({
    column,
    isNegated,
    operator,
    values,
  });
  deepStrictEqual(readFilters("a=eq.x=y.z"), [one("a", "eq", ["x=y.z"])]);
  deepStrictEqual(readFilters("a=in.(1,2)"), [one("a", "in", ["1", "2"])]);
  deepStrictEqual(readFilters("a=in.()"), [one("a", "in", [])]);
  deepStrictEqual(readFilters("a=eq.x,y=z"), [one("a", "eq", ["x,y=z"])]);
  deepStrictEqual(readFilters('a=eq."b=eq.1,c=lt.2",b=not.is.null,c=in.("x,)",y(1))'), [
    one("a", "eq", ["b=eq.1,c=lt.2"]),
    one("b", "is", ["null"], true),
    one("c", "in", ["x,)", "y(1)"]),
  ]);
  deepStrictEqual(readFilters("a=eq.1,"), [one("a", "eq", ["1,"])]);
  for (const text of ["", "a", "a=", "a=cs.{x}", "a=in.1,2", "a=in.(1", "=eq.1"]) {
    strictEqual(readFilters(text), null, text);
  }
});
