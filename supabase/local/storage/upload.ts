/** Receiving an object: every check that can be made is made before its content is read. */
import { findUnstorable } from "../../functions/_shared/storable.ts";
import type { Bucket, ObjectMetadata, ObjectRow, StorageContext } from "./context.ts";
import { alreadyExists, fromDatabase, invalidRequest, mimeTypeRefused, tooLarge } from "./errors.ts";
import { multipartBoundary, readMultipart } from "./multipart.ts";
import { checkKey, mimeTypeAllowed } from "./names.ts";
import type { Written } from "./store.ts";

/** What a multipart body may hold beside the file: its boundaries, headers and fields. */
const MULTIPART_OVERHEAD_BYTES = 64 * 1024;
const DEFAULT_TYPE = "application/octet-stream";

interface Incoming {
  contentType: string;
  cacheControl: string;
  userMetadata: Record<string, unknown> | null;
  content: AsyncIterable<Uint8Array>;
}

export interface UploadTarget {
  bucket: string;
  key: string;
  upsert: boolean;
}

/** Store an object for a caller whose rights the policies decide. */
export async function upload(context: StorageContext, target: UploadTarget, request: Request): Promise<ObjectRow> {
  checkKey(target.key);
  const bucket = await context.bucket(target.bucket);
  refuseDeclaredSize(request, bucket);
  await mayUpload(context, target);
  return await receive(context, bucket, target, request);
}

class Probed extends Error {}

/** Try the write with the caller's rights and take it back; throws what the policies say. */
export async function mayUpload(context: StorageContext, { bucket, key, upsert }: UploadTarget): Promise<void> {
  try {
    await context.asCaller("object.upload", async (sql) => {
      await sql`
        insert into storage.objects (bucket_id, name, owner, owner_id, version)
        values (${bucket}, ${key}, ${context.owner}, ${context.owner}, '1')
        ${upsert ? sql`on conflict (bucket_id, name) do update set version = excluded.version` : sql``}`;
      throw new Probed();
    });
  } catch (error) {
    if (!(error instanceof Probed)) throw error;
  }
}

function refuseDeclaredSize(request: Request, bucket: Bucket): void {
  if (bucket.file_size_limit === null) return;
  const overhead = multipartBoundary(request.headers.get("content-type")) === null ? 0 : MULTIPART_OVERHEAD_BYTES;
  if (Number(request.headers.get("content-length") ?? 0) > bucket.file_size_limit + overhead) throw tooLarge();
}

async function receive(
  context: StorageContext,
  bucket: Bucket,
  target: UploadTarget,
  request: Request,
): Promise<ObjectRow> {
  const incoming = await readIncoming(request);
  // Whoever downloads it is sent both.
  if (![incoming.contentType, incoming.cacheControl].every(isHeader)) {
    throw invalidRequest("the content type and cacheControl must be texts that a header can hold");
  }
  if (!mimeTypeAllowed(incoming.contentType, bucket.allowed_mime_types)) throw mimeTypeRefused(incoming.contentType);
  const { versions } = context;
  const version = await versions.announce();
  try {
    const content = versions.announced(version, incoming.content);
    const written = { version, ...await versions.store.write(version, content, bucket.file_size_limit) };
    // Again, since a large file takes long: whoever lost the right in the meantime stores nothing.
    await mayUpload(context, target);
    const { row, replaced } = await record(context, target, incoming, written);
    await versions.remove([replaced]);
    return row;
  } catch (error) {
    // Unless the row was committed after all, and the answer to that was lost.
    await versions.remove([version]);
    throw fromDatabase(error);
  }
}

async function readIncoming(request: Request): Promise<Incoming> {
  const type = request.headers.get("content-type");
  const body = request.body ?? new Blob([]).stream();
  const boundary = multipartBoundary(type);
  if (boundary === null) {
    return {
      contentType: type || DEFAULT_TYPE,
      cacheControl: request.headers.get("cache-control") ?? "no-cache",
      userMetadata: decodeMetadataHeader(request.headers.get("x-metadata")),
      content: body,
    };
  }
  const { fields, contentType, file } = await readMultipart(body, boundary);
  const seconds = fields.get("cacheControl");
  return {
    contentType: fields.get("contentType") || contentType || DEFAULT_TYPE,
    cacheControl: seconds ? `max-age=${seconds}` : "no-cache",
    userMetadata: parseMetadata(fields.get("metadata") ?? fields.get("userMetadata") ?? null),
    content: file,
  };
}

function decodeMetadataHeader(header: string | null): Record<string, unknown> | null {
  if (header === null) return null;
  try {
    return parseMetadata(new TextDecoder().decode(Uint8Array.from(atob(header), (char) => char.charCodeAt(0))));
  } catch {
    throw invalidRequest("x-metadata must be base64 of a JSON object of which Postgres can keep every text");
  }
}

function parseMetadata(text: string | null): Record<string, unknown> | null {
  if (!text) return null;
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value) && !findUnstorable(value)) return value;
  } catch {
    // told below, in the caller's terms
  }
  throw invalidRequest("metadata must be a JSON object of which Postgres can keep every text");
}

function isHeader(text: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
}

/** Let the row name the new version; the file of the one it replaces is no longer needed. */
async function record(
  context: StorageContext,
  { bucket, key, upsert }: UploadTarget,
  incoming: Incoming,
  written: Written & { version: string },
): Promise<{ row: ObjectRow; replaced: string | null }> {
  const metadata: ObjectMetadata = {
    eTag: written.eTag,
    size: written.size,
    mimetype: incoming.contentType,
    cacheControl: incoming.cacheControl,
    lastModified: new Date().toISOString(),
    contentLength: written.size,
    httpStatusCode: 200,
  };
  return await context.sql.begin(async (sql) => {
    await context.lock(sql, bucket, key);
    await context.versions.take(sql, written.version);
    const [existing] = await sql<ObjectRow[]>`
      select * from storage.objects where bucket_id = ${bucket} and name = ${key}`;
    if (existing && !upsert) throw alreadyExists();
    const columns = {
      bucket_id: bucket,
      name: key,
      owner: context.owner,
      owner_id: context.owner,
      version: written.version,
      metadata: sql.json(metadata as never),
      user_metadata: incoming.userMetadata === null ? null : sql.json(incoming.userMetadata as never),
    };
    const [row] = await sql<ObjectRow[]>`
      insert into storage.objects ${sql(columns)}
      on conflict (bucket_id, name) do ${
      upsert
        ? sql`update set version = excluded.version, metadata = excluded.metadata,
                user_metadata = excluded.user_metadata, owner = excluded.owner, owner_id = excluded.owner_id,
                updated_at = now()`
        : sql`nothing`
    } returning *`;
    if (!row) throw alreadyExists();
    return { row, replaced: existing?.version ?? null };
  });
}
