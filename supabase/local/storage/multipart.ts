/** A multipart/form-data body read as a stream: fields are kept, the file flows through. */
import { invalidRequest } from "./errors.ts";

const MAX_HEADER_BYTES = 16 * 1024;
const MAX_FIELD_BYTES = 1024 * 1024;
const CRLF2 = new TextEncoder().encode("\r\n\r\n");

export interface MultipartUpload {
  /** The fields that stood before the file. */
  fields: Map<string, string>;
  contentType: string | null;
  file: AsyncIterable<Uint8Array>;
}

/** The boundary of a multipart content type, or null when it is something else. */
export function multipartBoundary(contentType: string | null): string | null {
  if (!/^multipart\/form-data\b/i.test(contentType ?? "")) return null;
  const match = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType!);
  if (!match) throw invalidRequest("The multipart body names no boundary");
  return match[1] ?? match[2];
}

/** Read up to the file, and hand it over as a stream that ends where the file ends. */
export async function readMultipart(body: ReadableStream<Uint8Array>, boundary: string): Promise<MultipartUpload> {
  const reader = new DelimitedReader(body);
  const delimiter = new TextEncoder().encode(`\r\n--${boundary}`);
  const fields = new Map<string, string>();
  reader.unread(new TextEncoder().encode("\r\n")); // so that the first boundary looks like the others
  await drain(reader.until(delimiter), MAX_HEADER_BYTES);
  while (!(await reader.atFinalBoundary())) {
    const headers = await readHeaders(reader);
    const disposition = headers.get("content-disposition") ?? "";
    if (/;\s*filename\*?=/i.test(disposition)) {
      return { fields, contentType: headers.get("content-type"), file: fileOf(reader, delimiter) };
    }
    const name = /;\s*name="([^"]*)"/i.exec(disposition)?.[1] ?? "";
    fields.set(name, new TextDecoder().decode(await drain(reader.until(delimiter), MAX_FIELD_BYTES)));
  }
  throw invalidRequest("The multipart body holds no file");
}

async function* fileOf(reader: DelimitedReader, delimiter: Uint8Array): AsyncGenerator<Uint8Array> {
  yield* reader.until(delimiter);
  // What follows the file is of no use, but the client must be allowed to finish sending it.
  await reader.discardRest();
}

async function readHeaders(reader: DelimitedReader): Promise<Headers> {
  const text = new TextDecoder().decode(await drain(reader.until(CRLF2), MAX_HEADER_BYTES));
  const headers = new Headers();
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    try {
      headers.append(line.slice(0, colon).trim(), line.slice(colon + 1).trim());
    } catch {
      // A file name outside Latin-1 is no header value; all that matters is that there is a file name.
      if (/^content-disposition$/i.test(line.slice(0, colon).trim())) {
        headers.append("content-disposition", line.slice(colon + 1).replace(/[^\x20-\x7e]/g, "?").trim());
      }
    }
  }
  return headers;
}

async function drain(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  let collected = new Uint8Array(0);
  for await (const chunk of chunks) {
    if (collected.length + chunk.length > maxBytes) throw invalidRequest("A part of the multipart body is too long");
    collected = concat(collected, chunk);
  }
  return collected;
}

/** Splits a byte stream at delimiters, holding back no more than could be the start of one. */
class DelimitedReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #buffer: Uint8Array = new Uint8Array(0);

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  unread(bytes: Uint8Array): void {
    this.#buffer = concat(bytes, this.#buffer);
  }

  /** The bytes before the delimiter, which is consumed. */
  async *until(delimiter: Uint8Array): AsyncGenerator<Uint8Array> {
    while (true) {
      const found = indexOf(this.#buffer, delimiter);
      if (found >= 0) {
        if (found > 0) yield this.#buffer.subarray(0, found);
        this.#buffer = this.#buffer.subarray(found + delimiter.length);
        return;
      }
      const safe = this.#buffer.length - (delimiter.length - 1);
      if (safe > 0) {
        yield this.#buffer.subarray(0, safe);
        this.#buffer = this.#buffer.subarray(safe);
      }
      if (!(await this.#fill())) throw invalidRequest("The multipart body ended early");
    }
  }

  /** After a boundary: whether the two dashes that end the body follow it. */
  async atFinalBoundary(): Promise<boolean> {
    while (this.#buffer.length < 2) {
      if (!(await this.#fill())) throw invalidRequest("The multipart body ended early");
    }
    return this.#buffer[0] === 0x2d && this.#buffer[1] === 0x2d;
  }

  async discardRest(): Promise<void> {
    while (await this.#fill()) this.#buffer = new Uint8Array(0);
  }

  async #fill(): Promise<boolean> {
    const { done, value } = await this.#reader.read();
    if (done) return false;
    this.#buffer = this.#buffer.length === 0 ? value : concat(this.#buffer, value);
    return true;
  }
}

function concat(left: Uint8Array, right: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(left.length + right.length);
  joined.set(left);
  joined.set(right, left.length);
  return joined;
}

function indexOf(haystack: Uint8Array, needle: Uint8Array): number {
  for (let at = haystack.indexOf(needle[0]); at >= 0; at = haystack.indexOf(needle[0], at + 1)) {
    if (at + needle.length > haystack.length) return -1;
    let matched = 1;
    while (matched < needle.length && haystack[at + matched] === needle[matched]) matched++;
    if (matched === needle.length) return at;
  }
  return -1;
}
