import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { type Ask, type Extent, type Series, SeriesReader } from "./metrics.ts";

const WHOLE: Extent = { maxPoints: 100, fromStep: null, toStep: null };
const series = (value: number): Series => ({ steps: [1], values: [value], times: ["2026-01-01T00:00:00Z"] });

/** A reader, and what it asked for. */
function reading(answer: (names: string[]) => Record<string, Series>): [SeriesReader, unknown[][]] {
  const asked: unknown[][] = [];
  const ask: Ask = (runId, names, extent) => {
    asked.push([runId, names, extent.fromStep]);
    return Promise.resolve().then(() => answer(names));
  };
  return [new SeriesReader(ask), asked];
}

Deno.test("series that are asked for in one tick are read together, the same one once", async () => {
  const [reader, asked] = reading((names) => Object.fromEntries(names.map((name, place) => [name, series(place)])));
  const found = await Promise.all(["loss", "kl", "loss"].map((name) => reader.read("run", name, WHOLE)));
  deepStrictEqual(asked, [["run", ["loss", "kl"], null]]);
  deepStrictEqual(found, [series(0), series(1), series(0)]);
});

Deno.test("other runs and other stretches are other requests, and so are more than eight names", async () => {
  const [reader, asked] = reading(() => ({}));
  const names = Array.from({ length: 10 }, (_, place) => `m${place}`);
  await Promise.all([
    ...names.map((name) => reader.read("run", name, WHOLE)),
    reader.read("other", "m0", WHOLE),
    reader.read("run", "m0", { ...WHOLE, fromStep: 5 }),
  ]);
  deepStrictEqual(asked, [
    ["run", names.slice(0, 8), null],
    ["run", names.slice(8), null],
    ["other", ["m0"], null],
    ["run", ["m0"], 5],
  ]);
});

Deno.test("a metric without points is null, also one that is called as objects' own things are", async () => {
  const [reader] = reading(() => ({}));
  for (const name of ["loss", "constructor", "toString", "__proto__", ""]) {
    strictEqual(await reader.read("run", name, WHOLE), null);
  }
});

Deno.test("when a request fails, all who waited for it are told, and who asks again is answered", async () => {
  let isDown = true;
  const [reader] = reading((names) => {
    if (isDown) throw new Error("down");
    return Object.fromEntries(names.map((name) => [name, series(1)]));
  });
  const waiting = [reader.read("run", "a", WHOLE), reader.read("run", "b", WHOLE)];
  for (const one of waiting) await rejects(one, /down/);
  isDown = false;
  deepStrictEqual(await reader.read("run", "a", WHOLE), series(1));
});
