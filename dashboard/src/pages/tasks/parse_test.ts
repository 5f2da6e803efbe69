import { deepStrictEqual, strictEqual } from "node:assert";
import { parseTasks, shownField } from "./parse.ts";

const places = (text: string) => parseTasks(text).entries.map(({ place, value }) => [place, value]);

Deno.test("a list, an object with tasks, and lines are read alike", () => {
  const entries = [[0, { id: "a" }], [1, 7]];
  deepStrictEqual(places('[{"id": "a"}, 7]'), entries);
  deepStrictEqual(places('{"tasks": [{"id": "a"}, 7]}'), entries);
  deepStrictEqual(places('{"id": "a"}\n\n7\n'), entries);
  deepStrictEqual(places('{"id": "a", "task": "one line alone"}'), [[0, { id: "a", task: "one line alone" }]]);
  strictEqual(parseTasks('{"tasks": [1], "environment": "shop"}').environment, "shop");
});

Deno.test("a line that is torn is told by its place, and the others are read", () => {
  const { entries, problems } = parseTasks('{"id": 1}\n{"id":\n{"id": 3}');
  deepStrictEqual(entries.map(({ place }) => place), [0, 2]);
  deepStrictEqual(problems.map(({ place, field }) => [place, field]), [[1, null]]);
});

Deno.test("a file without entries says what is expected", () => {
  for (const text of ["", " \n", "[{", "{}", "[]", "null", "3", '{"tasks": 3}', '"text"']) {
    const { entries, problems } = parseTasks(text);
    deepStrictEqual([entries.length, problems.map(({ place }) => place)], [0, [null]]);
  }
});

Deno.test("numbers too long for JavaScript are sent as they are written", () => {
  const [entry] = parseTasks('[{"id": 12345678901234567890, "answer": 0.10}]').entries;
  strictEqual(JSON.stringify(entry!.value), '{"id":12345678901234567890,"answer":0.10}');
  strictEqual(shownField(entry!.value, "id"), "12345678901234567890");
});

Deno.test("a preview shows what there is, under either name", () => {
  strictEqual(shownField({ description: "x" }, "task", "description"), "x");
  strictEqual(shownField({ answer: { a: 1 } }, "answer"), '{"a":1}');
  for (const value of [null, "x", 3, {}, { task: null }]) strictEqual(shownField(value, "task"), null);
});
