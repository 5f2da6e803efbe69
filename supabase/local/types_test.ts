import { deepStrictEqual, strictEqual } from "node:assert";
import { formatArray, parseArray } from "./arrays.ts";
import { exactNumber, isoTimestamp, parseJson } from "./types.ts";

Deno.test("numbers keep every digit", () => {
  for (const text of ["0", "-1.5", "9223372036854775807", "1.10", "123456789012345678901234567890.123", "1e300"]) {
    strictEqual(JSON.stringify(exactNumber(text)), text === "1e300" ? "1e300" : text);
  }
  for (const text of ["NaN", "Infinity", "-Infinity"]) strictEqual(exactNumber(text), text);
});

Deno.test("long numbers inside JSON keep every digit", () => {
  const text = '{"id":12345678901234567890,"list":[0.1,1e5,"12345678901234567890"]}';
  strictEqual(JSON.stringify(parseJson(text)), text);
});

Deno.test("timestamps look like to_json writes them", () => {
  strictEqual(isoTimestamp("2026-11-16 00:51:00.123456+00"), "2026-11-16T00:51:00.123456+00:00");
  strictEqual(isoTimestamp("2026-11-16 00:51:00"), "2026-11-16T00:51:00");
  strictEqual(isoTimestamp("2026-11-16 00:51:00+05:30"), "2026-11-16T00:51:00+05:30");
  strictEqual(isoTimestamp("infinity"), "infinity");
});

Deno.test("array literals are read and written", () => {
  const text = '{a,"b,c",NULL,"NULL","q\\"q","back\\\\slash",""}';
  const elements = ["a", "b,c", null, "NULL", 'q"q', "back\\slash", ""];
  deepStrictEqual(parseArray(text, String), elements);
  deepStrictEqual(parseArray(formatArray(elements, String), String), elements);
  deepStrictEqual(parseArray("{{1,2},{3,NULL}}", Number), [[1, 2], [3, null]]);
  deepStrictEqual(parseArray("[0:1]={1,2}", Number), [1, 2]);
  deepStrictEqual(parseArray("{}", Number), []);
});
