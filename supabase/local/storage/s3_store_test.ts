import { deepStrictEqual, strictEqual } from "node:assert";
import { elements } from "./s3.ts";
import { inParts } from "./s3_store.ts";

async function partsOf(chunks: number[][], partBytes: number): Promise<[number[], boolean][]> {
  const body = (async function* () {
    for (const chunk of chunks) yield await Promise.resolve(Uint8Array.from(chunk));
  })();
  const parts: [number[], boolean][] = [];
  for await (const { bytes, isLast } of inParts(body, partBytes)) parts.push([[...bytes], isLast]);
  return parts;
}

Deno.test("an empty stream is one empty part", async () => {
  deepStrictEqual(await partsOf([], 4), [[[], true]]);
  deepStrictEqual(await partsOf([[], []], 4), [[[], true]]);
});

Deno.test("a stream that fills its last part has no empty one after it", async () => {
  deepStrictEqual(await partsOf([[1, 2], [3, 4]], 4), [[[1, 2, 3, 4], true]]);
  deepStrictEqual(await partsOf([[1, 2, 3, 4, 5, 6, 7, 8]], 4), [[[1, 2, 3, 4], false], [[5, 6, 7, 8], true]]);
});

Deno.test("parts have one size whatever the chunks have", async () => {
  const parts = await partsOf([[1], [2, 3, 4, 5, 6, 7, 8, 9], [10]], 3);
  deepStrictEqual(parts.map(([bytes]) => bytes), [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]);
  deepStrictEqual(parts.map(([, isLast]) => isLast), [false, false, false, true]);
});

Deno.test("elements are found and unescaped", () => {
  const xml = "<Upload><UploadId>a&amp;b</UploadId></Upload><Upload><UploadId>c</UploadId></Upload>";
  deepStrictEqual(elements(xml, "UploadId"), ["a&b", "c"]);
  strictEqual(elements(xml, "Code").length, 0);
});
