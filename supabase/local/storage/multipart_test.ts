import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { multipartBoundary, readMultipart } from "./multipart.ts";

const encoder = new TextEncoder();

function streamOf(bytes: Uint8Array, chunkSize: number): ReadableStream<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += chunkSize) chunks.push(bytes.subarray(at, at + chunkSize));
  return ReadableStream.from(chunks);
}

function body(content: Uint8Array, { after = "" } = {}): Uint8Array {
  const head = encoder.encode(
    '--B\r\nContent-Disposition: form-data; name="cacheControl"\r\n\r\n3600\r\n' +
      '--B\r\nContent-Disposition: form-data; name="file"; filename="é.txt"\r\nContent-Type: text/plain\r\n\r\n',
  );
  const tail = encoder.encode(`\r\n--B${after}--\r\n`);
  return new Uint8Array([...head, ...content, ...tail]);
}

async function collect(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const bytes: number[] = [];
  for await (const part of parts) bytes.push(...part);
  return new Uint8Array(bytes);
}

Deno.test("a file comes out whole however its body is cut", async () => {
  const content = encoder.encode("one\r\n--A\r\n\r\n--\r\n-\r\r\n--bytes\r\n--");
  const whole = body(content, { after: '\r\nContent-Disposition: form-data; name="late"\r\n\r\nx\r\n--B' });
  for (let size = 1; size <= whole.length; size++) {
    const { fields, contentType, file } = await readMultipart(streamOf(whole, size), "B");
    deepStrictEqual([...fields], [["cacheControl", "3600"]]);
    strictEqual(contentType, "text/plain");
    deepStrictEqual(await collect(file), content, `in chunks of ${size}`);
  }
});

Deno.test("an empty file is a file", async () => {
  const { file } = await readMultipart(streamOf(body(new Uint8Array()), 7), "B");
  deepStrictEqual(await collect(file), new Uint8Array());
});

Deno.test("a body that ends early, or holds no file, is refused", async () => {
  const whole = body(encoder.encode("content"));
  const torn = await readMultipart(streamOf(whole.subarray(0, whole.length - 8), 16), "B");
  await rejects(() => collect(torn.file), /ended early/);
  await rejects(() => readMultipart(streamOf(encoder.encode("--B--\r\n"), 3), "B"), /no file/);
  await rejects(() => readMultipart(streamOf(encoder.encode("nothing of the sort"), 3), "B"), /ended early/);
});

Deno.test("a part that never ends does not fill the memory", async () => {
  const endless = encoder.encode("--B\r\nContent-Disposition: " + "x".repeat(100_000));
  await rejects(() => readMultipart(streamOf(endless, 1000), "B"), /too long/);
});

Deno.test("the boundary may be quoted, and must be there", () => {
  strictEqual(multipartBoundary('multipart/form-data; boundary="a b"'), "a b");
  strictEqual(multipartBoundary("Multipart/Form-Data; charset=x; boundary=ab"), "ab");
  strictEqual(multipartBoundary("text/plain"), null);
});
