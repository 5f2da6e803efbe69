import { deepStrictEqual, strictEqual } from "node:assert";
import {
  ago,
  between,
  bytes,
  compact,
  dateTime,
  duration,
  number,
  partOf,
  percent,
  share,
  shortId,
  UNKNOWN,
} from "./format.ts";

const NOTHING = [null, undefined];
const UNCOUNTABLE = [...NOTHING, NaN, Infinity, -Infinity];

Deno.test("what is unknown is a dash, and so is what was counted from it", () => {
  for (const value of NOTHING) strictEqual(number(value), UNKNOWN);
  for (const value of UNCOUNTABLE) {
    for (const shown of [percent(value), compact(value), duration(value), bytes(value)]) strictEqual(shown, UNKNOWN);
  }
  for (const time of [...NOTHING, "", "yesterday"]) {
    for (const shown of [dateTime(time), ago(time)]) strictEqual(shown, UNKNOWN);
  }
});

Deno.test("a reward or loss that is no number is shown by its name", () => {
  deepStrictEqual((["NaN", "Infinity", "-Infinity", NaN] as const).map((value) => number(value as "NaN")), [
    "NaN",
    "Infinity",
    "-Infinity",
    "NaN",
  ]);
});

Deno.test("numbers keep the digits that matter, huge and tiny ones as powers of ten", () => {
  const shown: [number, string][] = [
    [0, "0"],
    [-0, "0"],
    [5, "5"],
    [-1234567, "-1,234,567"],
    [1e15, "1.000e+15"],
    [1e300, "1.000e+300"],
    [0.5, "0.5"],
    [0.123456, "0.1235"],
    [12345.678, "12,346"],
    [1234567.5, "1.23e+6"],
    [0.0001, "0.0001"],
    [0.00001234, "1.23e-5"],
    [Number.MIN_VALUE, "4.94e-324"],
    [Number.MAX_VALUE, "1.798e+308"],
    [-2.5e-9, "-2.50e-9"],
  ];
  for (const [value, text] of shown) strictEqual(number(value), text);
});

Deno.test("shares are of something", () => {
  strictEqual(share(0, 4), 0);
  strictEqual(share(3, 4), 0.75);
  for (const whole of [0, ...UNCOUNTABLE]) strictEqual(share(1, whole), null);
  for (const part of UNCOUNTABLE) strictEqual(share(part, 4), null);
  strictEqual(percent(share(1, 3)), "33.3%");
  strictEqual(percent(1, 0), "100%");
});

Deno.test("a part is told of its whole where both are known", () => {
  strictEqual(partOf(1200, 3000), "1,200 of 3,000");
  strictEqual(partOf(0, 0), "0 of 0");
  // Results may be recorded with a rate alone.
  for (const value of UNCOUNTABLE) deepStrictEqual([partOf(value, 1), partOf(1, value)], [null, null]);
});

Deno.test("counts are short", () => {
  deepStrictEqual([0, 999, 1500, 2_000_000, 1e15].map(compact), ["0", "999", "1.5K", "2M", "1000T"]);
});

Deno.test("times under a millisecond are told in microseconds or as less", () => {
  deepStrictEqual([-5, 0, 0.0004, 0.0006, 0.25, 0.9996].map(duration), [
    "< 1 ms",
    "< 1 ms",
    "< 1 µs",
    "1 µs",
    "250 µs",
    "1.0 ms",
  ]);
});

Deno.test("no unit is shown as full of the next smaller one", () => {
  deepStrictEqual([1.5, 40, 999.4, 999.6, 1500, 59_400, 59_600, 3_599_400, 3_599_600].map(duration), [
    "1.5 ms",
    "40 ms",
    "999 ms",
    "1.0 s",
    "1.5 s",
    "59 s",
    "1 min 0 s",
    "59 min 59 s",
    "1 h 0 min",
  ]);
  deepStrictEqual([86_369_000, 86_371_000, 90_000_000, 1e12].map(duration), [
    "23 h 59 min",
    "1 d 0 h",
    "1 d 1 h",
    "11574 d 2 h",
  ]);
  deepStrictEqual([0, 1, 1023, 1024, 1536, 102_400, 1_048_575, 1_048_576, 1e15].map(bytes), [
    "0 B",
    "1 B",
    "1023 B",
    "1.0 KB",
    "1.5 KB",
    "100 KB",
    "1.0 MB",
    "1.0 MB",
    "909 TB",
  ]);
});

Deno.test("the time between two moments is exact to the microsecond", () => {
  const [first, second] = ["2026-01-01T00:00:00.123+00:00", "2026-01-01T00:00:00.123456+00:00"];
  strictEqual(between(first, second), 0.456);
  strictEqual(between(second, first), -0.456);
  strictEqual(duration(between(first, second)), "456 µs");
  strictEqual(between("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"), 0);
  for (const time of [null, undefined, "", "no time"]) strictEqual(between(time, second), null);
});

Deno.test("how long ago something was grows with time, and clocks that differ do no harm", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  const before = (seconds: number) => ago(new Date(now - seconds * 1000).toISOString(), now);
  deepStrictEqual([-3600, 0, 4, 5, 59.6, 3599, 3600, 86_399, 86_400, 86_400 * 29].map(before), [
    "just now",
    "just now",
    "just now",
    "5 s ago",
    "1 min ago",
    "59 min ago",
    "1 h ago",
    "23 h ago",
    "1 d ago",
    "29 d ago",
  ]);
});

Deno.test("the end of an id tells those apart that were made together", () => {
  strictEqual(shortId("0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01"), "4f1e6a01");
});
