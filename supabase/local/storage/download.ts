/** Sending an object: whole, in part, or not at all when the client has it already. */
import type { ObjectRow, StorageContext } from "./context.ts";
import { contentNotHere, StorageError } from "./errors.ts";
import { VersionMissing } from "./store.ts";

interface ByteRange {
  start: number;
  end: number;
}

/** How often an object may be replaced between looking it up and reading its content. */
const MAX_REPLACEMENTS = 5;

/** Answer GET or HEAD of an object that the caller may read, which `find` looks up. */
export async function sendObject(
  context: StorageContext,
  find: () => Promise<ObjectRow>,
  request: Request,
): Promise<Response> {
  let row = await find();
  for (let replaced = 0;; replaced++) {
    try {
      return await send(context, row, request);
    } catch (error) {
      if (!(error instanceof VersionMissing)) throw error;
      const current = await find();
      if (current.version === row.version || replaced === MAX_REPLACEMENTS) throw contentNotHere();
      row = current;
    }
  }
}

async function send(context: StorageContext, row: ObjectRow, request: Request): Promise<Response> {
  const { metadata } = row;
  const headers = describe(row);
  const downloadName = new URL(request.url).searchParams.get("download");
  if (downloadName !== null) {
    headers.set("content-disposition", attachment(downloadName));
  }
  if (unchanged(request, row)) return new Response(null, { status: 304, headers });

  const range = isCurrent(request, row) ? requestedRange(request.headers.get("range"), metadata.size) : null;
  if (range === "unsatisfiable") {
    const error = new StorageError(416, "InvalidRange", "The requested range is not satisfiable");
    return Response.json(error.body, { status: 416, headers: { "Content-Range": `bytes */${metadata.size}` } });
  }
  const { start, end } = range ?? { start: 0, end: metadata.size - 1 };
  headers.set("content-length", String(end - start + 1));
  if (range) headers.set("content-range", `bytes ${start}-${end}/${metadata.size}`);
  const status = range ? 206 : 200;
  if (request.method === "HEAD") return new Response(null, { status, headers });
  const content = await context.versions.store.read(row.version, start, end - start + 1);
  return new Response(content, { status, headers });
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

/** Without a name, browsers take the last part of the URL. */
function attachment(name: string): string {
  const encoded = encodeURIComponent(name);
  return name === "" ? "attachment;" : `attachment; filename=${encoded}; filename*=UTF-8''${encoded}`;
}

function unchanged(request: Request, { metadata }: ObjectRow): boolean {
  const tags = request.headers.get("if-none-match");
  if (tags !== null) {
    return tags.split(",").some((tag) => ["*", metadata.eTag].includes(tag.trim().replace(/^W\//, "")));
  }
  const since = Date.parse(request.headers.get("if-modified-since") ?? "");
  return Number.isFinite(since) && Math.floor(Date.parse(metadata.lastModified) / 1000) * 1000 <= since;
}

/** Whether a part may be sent: a client that has another version's beginning is sent the whole. */
function isCurrent({ headers }: Request, { metadata }: ObjectRow): boolean {
  const known = headers.get("if-range")?.trim();
  return known === undefined || known === metadata.eTag || known === new Date(metadata.lastModified).toUTCString();
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
