import { deepStrictEqual } from "node:assert";
import { parts, typedNumber, typedValue, typedWhole, writtenPart } from "./typed.ts";

Deno.test("numbers are read as programs write them", () => {
  deepStrictEqual(["3e-4", "1_000", ".5", "+2", " 7 ", "-0.0", "5."].map(typedNumber), [3e-4, 1000, 0.5, 2, 7, -0, 5]);
});

Deno.test("a number that would be stored as another is none", () => {
  const texts = [
    "1e-400",
    "1e400",
    "12345678901234567890",
    "-9007199254740993",
    "NaN",
    "Infinity",
    "",
    "0x10",
    "1,5",
    "1e",
  ];
  deepStrictEqual(texts.map(typedNumber), texts.map(() => null));
  deepStrictEqual(
    ["0", "0e-400", "9007199254740993000e-3", "100000000000000000000"].map((text) => typedNumber(text) !== null),
    [
      true,
      true,
      true,
      true,
    ],
  );
});

Deno.test("whole numbers may be grouped, and nothing else is taken for a group", () => {
  deepStrictEqual(["100,000", "1 000 000", "1_000", "1e3", "7"].map(typedWhole), [100_000, 1_000_000, 1000, 1000, 7]);
  deepStrictEqual(["1,5", "1,0000", "1.5", "", "1e-400", ",100"].map(typedWhole), Array(6).fill(null));
});

Deno.test("a value is a number, JSON or a word", () => {
  deepStrictEqual(["64", "true", "null", '"64"', '""', "[1, 2]", "MlpPolicy", "it's"].map(typedValue), [
    64,
    true,
    null,
    "64",
    "",
    [1, 2],
    "MlpPolicy",
    "it's",
  ]);
  deepStrictEqual(
    ["NaN", "-inf", "1e-400", "99999999999999999999", '{"a":', '"open'].map(typedValue),
    Array(6).fill(undefined),
  );
});

Deno.test("parts are between commas, but not inside of JSON", () => {
  deepStrictEqual(parts('64, 128,,"a, b", {"start": 1, "end": [0, 1]}, x'), [
    "64",
    "128",
    '"a, b"',
    '{"start": 1, "end": [0, 1]}',
    "x",
  ]);
  deepStrictEqual(parts(" , "), []);
  deepStrictEqual(parts('"a\\", b", c'), ['"a\\", b"', "c"]);
  deepStrictEqual(parts("🤖, é"), ["🤖", "é"]);
});

Deno.test("what is written is read as the same", () => {
  const values = [
    1,
    1.5,
    "a",
    "a, b",
    "1",
    "true",
    "",
    "null",
    " x",
    "NaN",
    true,
    null,
    { a: [1, "b"] },
    ["x"],
    '"',
    "[",
    "1e-400",
  ];
  deepStrictEqual(parts(values.map(writtenPart).join(", ")).map(typedValue), values);
});
