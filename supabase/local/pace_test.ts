import { deepStrictEqual, strictEqual } from "node:assert";
import { Allowance, announceRest, Slots } from "./pace.ts";

Deno.test("few come as often as they like", () => {
  const slots = new Slots(10, 500, 1);
  // Each comes at its slot and takes the next one.
  let due = [slots.reserve(0), slots.reserve(0), slots.reserve(0)];
  for (let round = 0; round < 20; round++) due = due.map((at) => slots.reserve(at));
  strictEqual(due[0], 21 * 500);
});

/** What is between the visits of fifty who come at their slots, and between two of the first's. */
function fifty(slots: Slots): { apart: Set<number>; first: number } {
  const due = Array.from({ length: 50 }, () => slots.reserve(0)).sort((a, b) => a - b);
  const came: number[] = [];
  for (let visit = 0; visit < 500; visit++) {
    const at = due.shift()!;
    came.push(at);
    due.push(slots.reserve(at));
  }
  return {
    apart: new Set(came.slice(1).map((at, index) => Math.round(at - came[index]))),
    first: Math.round(came[499] - came[449]),
  };
}

Deno.test("of many each comes less often, and no two at once", () => {
  // Slots of 100 ms, each taken once; each of the 50 comes every five seconds.
  deepStrictEqual(fifty(new Slots(10, 500, 1)), { apart: new Set([100]), first: 5000 });
});

Deno.test("the slower they are the less often they come, so that only a part of the time is theirs", () => {
  const slots = new Slots(10, 500, 0.5);
  for (let n = 0; n < 100; n++) slots.took(200);
  deepStrictEqual(fifty(slots), { apart: new Set([400]), first: 20_000 });
  for (let n = 0; n < 100; n++) slots.took(10);
  deepStrictEqual(fifty(slots).first, 5000);
});

Deno.test("those who went away are not waited for", () => {
  const slots = new Slots(10, 500, 1);
  for (let index = 0; index < 50; index++) slots.reserve(0);
  strictEqual(slots.reserve(6_000), 6_500);
});

Deno.test("only couriers are told how long to rest", () => {
  const header = (path: string) => announceRest(new Response(), path).headers.get("X-Rest-Seconds");
  deepStrictEqual([header("/rest/v1/runs"), header("/rest/v1/rpc/ingest")], [null, null]);
  strictEqual(header("/rest/v1/rpc/load_batch"), "0.500");
});

/** How many in a minute are told who then read for so long each. */
function told(allowance: Allowance, readMs: number, from = 0): number {
  let count = 0;
  const ends: { at: number; end: (now: number) => void }[] = [];
  for (let now = from; now < from + 60_000; now += 50) {
    while (ends.length > 0 && ends[0].at <= now) {
      const { at, end } = ends.shift()!;
      end(at);
    }
    if (!allowance.isLeft(now)) continue;
    count++;
    ends.push({ at: now + readMs, end: allowance.begin(now) });
  }
  ends.forEach(({ at, end }) => end(at));
  return count;
}

Deno.test("as many are told as leave the server half of its time", () => {
  strictEqual(told(new Allowance(1, 0.5), 10), 1200);
  for (const readMs of [100, 250, 800]) {
    const count = told(new Allowance(1, 0.5), readMs);
    strictEqual(Math.abs(count - 30_000 / readMs) <= 30_000 / readMs / 10 + 2, true, `${count} of ${readMs} ms`);
  }
});

Deno.test("reads at the same time count once, and on a large server only with many others", () => {
  const [small, large] = [new Allowance(1, 0.5), new Allowance(4, 0.5)];
  for (let at = 0; at < 60_000; at += 1000) {
    for (const allowance of [small, large]) {
      const ends = [1, 2, 3].map(() => allowance.begin(at));
      ends.forEach((end) => end(at + 400));
    }
  }
  deepStrictEqual([small.isLeft(60_000), large.isLeft(60_000)], [true, true]);
  [1, 2, 3].forEach(() => [small, large].forEach((allowance) => allowance.begin(60_000)));
  deepStrictEqual([small.isLeft(60_100), large.isLeft(60_100)], [false, true]);
});

Deno.test("nobody is told while the reads of those before are under way", () => {
  const allowance = new Allowance(1, 0.5);
  const end = allowance.begin(0);
  strictEqual(allowance.isLeft(40), false);
  end(50);
  strictEqual(allowance.isLeft(100), true);
});

Deno.test("who gives way waits until the reads are done, and not for long", async () => {
  const allowance = new Allowance(1, 0.5);
  const waited = async (longestMs: number) => {
    const began = performance.now();
    await allowance.quiet(longestMs);
    return performance.now() - began;
  };
  strictEqual(await waited(10_000) < 1_000, true);
  const end = allowance.begin(performance.now());
  strictEqual(await waited(50) >= 50, true);
  setTimeout(() => end(performance.now()), 50);
  strictEqual(await waited(10_000) < 5_000, true);
});

Deno.test("neither a long read nor what a busy minute cost holds anybody up for long", () => {
  const allowance = new Allowance(1, 0.5);
  const end = allowance.begin(0);
  deepStrictEqual([allowance.isLeft(999), allowance.isLeft(2_000)], [false, true]);
  end(300_000);
  strictEqual(allowance.isLeft(300_000), true);
  for (let at = 300_000; at < 360_000; at += 100) allowance.begin(at)(at + 90);
  deepStrictEqual([allowance.isLeft(360_000), allowance.isLeft(361_100)], [false, true]);
});
