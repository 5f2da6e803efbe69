/** Objects that are there already: find, describe, move, copy, delete, sign. */
import type { ObjectRow, Sql, StorageContext } from "./context.ts";
import {
  bucketNotFound,
  contentNotHere,
  fromDatabase,
  invalidRequest,
  objectNotFound,
  StorageError,
} from "./errors.ts";
import { checkKey } from "./names.ts";
import { VersionMissing } from "./store.ts";
import { mayUpload } from "./upload.ts";
import { isoDates } from "./values.ts";

type Body = Record<string, unknown>;

const UPLOAD_URL_SECONDS = 2 * 3600;

/** The object if the caller may read it; a public bucket is read by all. */
export async function findReadable(context: StorageContext, bucketId: string, key: string): Promise<ObjectRow> {
  const bucket = await context.bucket(bucketId);
  if (bucket.public) return await findAny(context, bucketId, key);
  if (!context.isAuthenticated) throw bucketNotFound();
  const [row] = await context.asCaller(
    "object.get_authenticated",
    (sql) => sql<ObjectRow[]>`select * from storage.objects where bucket_id = ${bucketId} and name = ${key}`,
  );
  if (!row) throw objectNotFound();
  return row;
}

/** The object for whoever holds a signed URL, or reads a public bucket. */
export async function findAny(context: StorageContext, bucket: string, key: string): Promise<ObjectRow> {
  const [row] = await context.sql<ObjectRow[]>`
    select * from storage.objects where bucket_id = ${bucket} and name = ${key}`;
  if (!row) throw objectNotFound();
  return row;
}

export async function objectInfo(context: StorageContext, bucket: string, key: string): Promise<Response> {
  const row = await findReadable(context, bucket, key);
  return Response.json(isoDates({
    id: row.id,
    name: row.name,
    version: row.version,
    bucket_id: row.bucket_id,
    size: row.metadata.size,
    content_type: row.metadata.mimetype,
    cache_control: row.metadata.cacheControl,
    etag: row.metadata.eTag,
    metadata: row.user_metadata ?? {},
    last_modified: row.updated_at,
    created_at: row.created_at,
  }));
}

/** Give an object another name; its content stays where it is. */
export async function moveObject(context: StorageContext, body: Body): Promise<Response> {
  const { bucket, source, destinationBucket, destination } = readRoute(body);
  await context.bucket(bucket);
  await context.bucket(destinationBucket);
  await context.asCaller("object.move", async (sql) => {
    const [row] = await sql`select id from storage.objects where bucket_id = ${bucket} and name = ${source}`;
    if (!row) throw objectNotFound();
    const moved = await sql`
      update storage.objects set bucket_id = ${destinationBucket}, name = ${destination}, updated_at = now()
      where id = ${row.id}`;
    if (moved.count === 0) throw new StorageError(403, "Unauthorized", "The object may not be moved");
  });
  return Response.json({ message: "Successfully moved" });
}

export async function copyObject(context: StorageContext, body: Body, upsert: boolean): Promise<Response> {
  const { bucket, source, destinationBucket, destination } = readRoute(body);
  const original = await findReadable(context, bucket, source);
  await context.bucket(destinationBucket);
  await mayUpload(context, { bucket: destinationBucket, key: destination, upsert });
  const version = await context.versions.announce();
  try {
    await copyContent(context, original, version);
    const { copy, replaced } = await recordCopy(context, { original, destinationBucket, destination, version, upsert });
    await context.versions.remove([replaced]);
    return Response.json({ Id: copy.id, Key: `${destinationBucket}/${destination}`, ...shown(copy) });
  } catch (error) {
    await context.versions.remove([version]);
    throw fromDatabase(error);
  }
}

async function copyContent(context: StorageContext, original: ObjectRow, version: string): Promise<void> {
  try {
    await context.versions.store.copy(original.version, version);
  } catch (error) {
    throw error instanceof VersionMissing ? contentNotHere() : error;
  }
}

interface Copy {
  original: ObjectRow;
  destinationBucket: string;
  destination: string;
  version: string;
  upsert: boolean;
}

async function recordCopy(context: StorageContext, copying: Copy) {
  const { original, destinationBucket, destination, version, upsert } = copying;
  return await context.sql.begin(async (sql) => {
    await context.lock(sql, destinationBucket, destination);
    await context.versions.take(sql, version);
    const [existing] = await sql<ObjectRow[]>`
      select version from storage.objects where bucket_id = ${destinationBucket} and name = ${destination}`;
    const [copy] = await sql<ObjectRow[]>`
      insert into storage.objects (bucket_id, name, owner, owner_id, version, metadata, user_metadata)
      select ${destinationBucket}, ${destination}, ${context.owner}::uuid, ${context.owner}, ${version},
        metadata || jsonb_build_object('lastModified', ${new Date().toISOString()}::text), user_metadata
      from storage.objects where id = ${original.id}
      ${
      upsert
        ? sql`on conflict (bucket_id, name) do update set version = excluded.version, metadata = excluded.metadata,
                user_metadata = excluded.user_metadata, updated_at = now()`
        : sql``
    } returning *`;
    if (!copy) throw objectNotFound();
    return { copy, replaced: existing?.version ?? null };
  });
}

/** Delete what the caller may delete of these; the answer lists what is gone. */
export async function removeObjects(context: StorageContext, bucket: string, body: Body): Promise<Response> {
  const { prefixes } = body;
  if (!Array.isArray(prefixes) || !prefixes.every((key) => typeof key === "string")) {
    throw invalidRequest("body/prefixes must be a list of keys");
  }
  return Response.json((await remove(context, bucket, prefixes)).map(shown));
}

export async function removeObject(context: StorageContext, bucket: string, key: string): Promise<Response> {
  await context.bucket(bucket);
  const removed = await remove(context, bucket, [key]);
  if (removed.length === 0) throw objectNotFound();
  return Response.json({ message: "Successfully deleted" });
}

async function remove(context: StorageContext, bucket: string, keys: string[]): Promise<ObjectRow[]> {
  const removed = await context.asCaller(
    "object.delete_many",
    (sql) =>
      sql<ObjectRow[]>`delete from storage.objects where bucket_id = ${bucket} and name = any(${keys}) returning *`,
  );
  await context.versions.remove(removed.map((row) => row.version));
  return [...removed];
}

export async function signDownload(context: StorageContext, bucket: string, key: string, body: Body) {
  const row = await findReadable(context, bucket, key);
  return Response.json({ signedURL: await signedUrl(context, bucket, row.name, body.expiresIn) });
}

/** Sign many; one that cannot be signed says so and does not stop the others. */
export async function signDownloads(context: StorageContext, bucket: string, body: Body): Promise<Response> {
  const { paths, expiresIn } = body;
  if (!Array.isArray(paths) || !paths.every((path) => typeof path === "string")) {
    throw invalidRequest("body/paths must be a list of keys");
  }
  const readable = await readableOf(context, bucket, paths);
  const error = "Either the object does not exist or you do not have access to it";
  return Response.json(
    await Promise.all(
      paths.map(async (path) =>
        readable.has(path)
          ? { error: null, path, signedURL: await signedUrl(context, bucket, path, expiresIn) }
          : { error, path, signedURL: null }
      ),
    ),
  );
}

/** Those of these keys that the caller may read. */
async function readableOf(context: StorageContext, bucket: string, keys: string[]): Promise<Set<string>> {
  const isPublic = (await context.findBucket(bucket))?.public ?? false;
  const find = (sql: Sql) =>
    sql<{ name: string }[]>`select name from storage.objects where bucket_id = ${bucket} and name = any(${keys})`;
  const rows = isPublic ? await find(context.sql as unknown as Sql) : await context.asCaller("object.sign_many", find);
  return new Set(rows.map((row) => row.name));
}

async function signedUrl(context: StorageContext, bucket: string, key: string, expiresIn: unknown): Promise<string> {
  const token = await context.signer.sign("download", `${bucket}/${key}`, expiresIn, context.claims);
  // Not percent-encoded, as on hosted projects: clients do that.
  return `/object/sign/${bucket}/${key}?token=${token}`;
}

export async function signUpload(context: StorageContext, bucket: string, key: string, upsert: boolean) {
  checkKey(key);
  await context.bucket(bucket);
  await mayUpload(context, { bucket, key, upsert });
  const token = await context.signer.sign("upload", `${bucket}/${key}`, UPLOAD_URL_SECONDS, context.claims, upsert);
  return Response.json({ url: `/object/upload/sign/${bucket}/${key}?token=${token}`, token });
}

/** An object's row as clients read it. */
function shown({ id, name, bucket_id, owner, owner_id, version, ...row }: ObjectRow) {
  const { metadata, user_metadata, created_at, updated_at, last_accessed_at } = row;
  const dates = { created_at, updated_at, last_accessed_at };
  return isoDates({ id, name, bucket_id, owner, owner_id, version, metadata, user_metadata, ...dates });
}

function readRoute(body: Body) {
  const { bucketId, sourceKey, destinationKey, destinationBucket } = body;
  if (typeof bucketId !== "string" || typeof sourceKey !== "string" || typeof destinationKey !== "string") {
    throw invalidRequest("body must have bucketId, sourceKey and destinationKey");
  }
  return {
    bucket: bucketId,
    source: sourceKey,
    destination: checkKey(destinationKey),
    destinationBucket: typeof destinationBucket === "string" ? destinationBucket : bucketId,
  };
}
