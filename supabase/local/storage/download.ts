/** Sending an object: whole, in part, or not at all when the client has it already. */
import type { ObjectRow, StorageContext } from "./context.ts";
import { objectNotFound, StorageError } from "./errors.ts";

const CHUNK_BYTES = 256 * 1024;

interface ByteRange {
  start: number;
  end: number;
}

/** Answer GET or HEAD of an object the caller was found to be allowed to read. */
export async function sendObject(context: StorageContext, row: ObjectRow, request: Request): Promise<Response> {
  const { metadata } = row;
  const headers = describe(row);
  const downloadName = new URL(request.url).searchParams.get("download");
  if (downloadName !== null) {
    headers.set("content-disposition", attachment(downloadName || row.name.split("/").at(-1)!));
  }
  if (unchanged(request, row)) return new Response(null, { status: 304, headers });

  const range = requestedRange(request.headers.get("range"), metadata.size);
  if (range === "unsatisfiable") {
    const error = new StorageError(416, "InvalidRange", "The requested range is not satisfiable");
    return Response.json(error.body, { status: 416, headers: { "Content-Range": `bytes */${metadata.size}` } });
  }
  const { start, end } = range ?? { start: 0, end: metadata.size - 1 };
  headers.set("content-length", String(end - start + 1));
  if (range) headers.set("content-range", `bytes ${start}-${end}/${metadata.size}`);
  const status = range ? 206 : 200;
  if (request.method === "HEAD") return new Response(null, { status, headers });
  return new Response(await contentOf(context, row, start, end - start + 1), { status, headers });
}

function describe({ metadata, created_at, updated_at }: ObjectRow): Headers {
  const headers = new Headers({
    "accept-ranges": "bytes",
    "cache-control": metadata.cacheControl,
    "etag": metadata.eTag,
    "last-modified": new Date(metadata.lastModified ?? updated_at ?? created_at).toUTCString(),
    "x-robots-tag": "none",
    // Objects are whatever was uploaded; a browser must not take one for a page of this origin.
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox",
  });
  headers.set("content-type", metadata.mimetype);
  return headers;
}

function attachment(name: string): string {
  return `attachment; filename="${name.replace(/[^\x20-\x7e]|["\\]/g, "_")}"; filename*=UTF-8''${
    encodeURIComponent(name)
  }`;
}

function unchanged(request: Request, { metadata }: ObjectRow): boolean {
  const tags = request.headers.get("if-none-match");
  if (tags !== null) {
    return tags.split(",").some((tag) => ["*", metadata.eTag].includes(tag.trim().replace(/^W\//, "")));
  }
  const since = Date.parse(request.headers.get("if-modified-since") ?? "");
  return Number.isFinite(since) && Math.floor(Date.parse(metadata.lastModified) / 1000) * 1000 <= since;
}

/** The one range asked for; null when the whole is to be sent, as for ranges we do not understand. */
function requestedRange(header: string | null, size: number): ByteRange | "unsatisfiable" | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return null;
  if (match[1] === "") {
    const length = Math.min(Number(match[2]), size);
    return length === 0 ? "unsatisfiable" : { start: size - length, end: size - 1 };
  }
  const start = Number(match[1]);
  const end = match[2] === "" ? size - 1 : Math.min(Number(match[2]), size - 1);
  if (start >= size) return "unsatisfiable";
  return end < start ? null : { start, end };
}

async function contentOf(
  context: StorageContext,
  row: ObjectRow,
  start: number,
  length: number,
): Promise<ReadableStream<Uint8Array>> {
  let file: Deno.FsFile;
  try {
    file = await context.files.open(row.version);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw objectNotFound();
    throw error;
  }
  if (start > 0) await file.seek(start, Deno.SeekMode.Start);
  let left = length;
  return new ReadableStream({
    async pull(controller) {
      const buffer = new Uint8Array(Math.min(CHUNK_BYTES, left));
      const read = left === 0 ? null : await file.read(buffer);
      if (read === null) {
        file.close();
        controller.close();
        return;
      }
      left -= read;
      controller.enqueue(buffer.subarray(0, read));
    },
    cancel() {
      file.close();
    },
  }, { highWaterMark: 0 });
}
