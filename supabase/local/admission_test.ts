import { deepStrictEqual, rejects } from "node:assert";
import { Admission } from "./admission.ts";
import { currentClient } from "./client.ts";

const anon = { role: "anon" };

Deno.test("who has gone no longer stands in the line", async () => {
  const admission = new Admission(1, 1, 60_000);
  const inside = Promise.withResolvers<string>();
  const first = admission.run(anon, () => inside.promise);
  const client = new AbortController();
  const begun: string[] = [];
  const work = (name: string) => () => {
    begun.push(name);
    return Promise.resolve(name);
  };
  const left = Array.from(
    { length: 100 },
    () =>
      currentClient.run({ address: "", isLocal: true, gone: client.signal }, () => admission.run(anon, work("gone"))),
  );
  const refusals = left.map((one) => rejects(one, /gone/));
  await rejects(() => admission.run(anon, work("one too many")), /too many/);
  client.abort();
  await Promise.all(refusals);
  const next = admission.run(anon, work("next"));
  inside.resolve("first");
  deepStrictEqual([await first, await next], ["first", "next"]);
  deepStrictEqual(begun, ["next"]);
});

Deno.test("a failure leaves its place to others", async () => {
  const admission = new Admission(1, 1, 60_000);
  await rejects(() => admission.run(anon, () => Promise.reject(new Error("failed"))), /failed/);
  deepStrictEqual(await admission.run(anon, () => Promise.resolve(1)), 1);
});
