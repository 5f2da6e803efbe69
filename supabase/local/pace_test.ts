import { deepStrictEqual, strictEqual } from "node:assert";
import { announceRest, Slots } from "./pace.ts";

Deno.test("few come as often as they like", () => {
  const slots = new Slots(10, 500);
  // Each comes at its slot and takes the next one.
  let due = [slots.reserve(0), slots.reserve(0), slots.reserve(0)];
  for (let round = 0; round < 20; round++) due = due.map((at) => slots.reserve(at));
  strictEqual(due[0], 21 * 500);
});

Deno.test("of many each comes less often, and no two at once", () => {
  const slots = new Slots(10, 500);
  const due = Array.from({ length: 50 }, () => slots.reserve(0)).sort((a, b) => a - b);
  const came: number[] = [];
  for (let visit = 0; visit < 500; visit++) {
    const at = due.shift()!;
    came.push(at);
    due.push(slots.reserve(at));
  }
  // Slots of 100 ms, each taken once; each of the 50 comes every five seconds.
  for (let index = 1; index < came.length; index++) strictEqual(Math.round(came[index] - came[index - 1]), 100);
  strictEqual(Math.round(came[499] - came[449]), 5000);
});

Deno.test("those who went away are not waited for", () => {
  const slots = new Slots(10, 500);
  for (let index = 0; index < 50; index++) slots.reserve(0);
  strictEqual(slots.reserve(6_000), 6_500);
});

Deno.test("only couriers are told how long to rest", () => {
  const header = (path: string) => announceRest(new Response(), path).headers.get("X-Rest-Seconds");
  deepStrictEqual([header("/rest/v1/runs"), header("/rest/v1/rpc/ingest")], [null, null]);
  strictEqual(header("/rest/v1/rpc/load_batch"), "0.500");
});
