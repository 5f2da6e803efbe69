/** Buckets: create, read, change, empty, delete. */
import type { Bucket, StorageContext } from "./context.ts";
import { bucketNotEmpty, bucketNotFound, invalidRequest } from "./errors.ts";
import { checkBucketName } from "./names.ts";
import { isoDates } from "./values.ts";

type Body = Record<string, unknown>;

const UNITS: Record<string, number> = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30 };
const SORTABLE = new Set(["id", "name", "created_at", "updated_at"]);

export async function createBucket(context: StorageContext, body: Body): Promise<Response> {
  const name = checkBucketName(body.name ?? body.id);
  const id = checkBucketName(body.id ?? name);
  const owner = context.owner;
  await context.asCaller(
    "bucket.create",
    (sql) =>
      sql`insert into storage.buckets (id, name, owner, owner_id, public, file_size_limit, allowed_mime_types)
        values (${id}, ${name}, ${owner}, ${owner}, ${body.public === true}, ${sizeLimit(body.file_size_limit)},
                ${mimeTypes(body.allowed_mime_types)})`,
  );
  return Response.json({ name });
}

export async function listBuckets(context: StorageContext, query: URLSearchParams): Promise<Response> {
  const column = query.get("sortColumn") ?? "name";
  if (!SORTABLE.has(column)) throw invalidRequest(`sortColumn must be one of ${[...SORTABLE].join(", ")}`);
  const descending = query.get("sortOrder") === "desc";
  const rows = await context.asCaller("bucket.list", (sql) =>
    sql<Bucket[]>`select * from storage.buckets
        where name ilike ${`%${(query.get("search") ?? "").replace(/[\\%_]/g, "\\$&")}%`}
        order by ${sql(column)} ${descending ? sql`desc` : sql`asc`}
        limit ${positive(query.get("limit"), "limit")} offset ${positive(query.get("offset"), "offset") ?? 0}`);
  return Response.json(rows.map((row) => ({ ...shown(row), type: "STANDARD" })));
}

export async function getBucket(context: StorageContext, id: string): Promise<Response> {
  const [row] = await context.asCaller(
    "bucket.get",
    (sql) => sql<Bucket[]>`select * from storage.buckets where id = ${id}`,
  );
  if (!row) throw bucketNotFound();
  return Response.json(shown(row));
}

export async function updateBucket(context: StorageContext, id: string, body: Body): Promise<Response> {
  const changes: Record<string, unknown> = { updated_at: new Date().toISOString() };
  if (body.public !== undefined) changes.public = body.public === true;
  if (body.file_size_limit !== undefined) changes.file_size_limit = sizeLimit(body.file_size_limit);
  if (body.allowed_mime_types !== undefined) changes.allowed_mime_types = mimeTypes(body.allowed_mime_types);
  const updated = await context.asCaller(
    "bucket.update",
    (sql) => sql`update storage.buckets set ${sql(changes)} where id = ${id}`,
  );
  if (updated.count === 0) throw bucketNotFound();
  return Response.json({ message: "Successfully updated" });
}

export async function emptyBucket(context: StorageContext, id: string): Promise<Response> {
  const removed = await context.asCaller("bucket.empty", async (sql) => {
    const [bucket] = await sql`select id from storage.buckets where id = ${id}`;
    if (!bucket) throw bucketNotFound();
    return await sql<
      { version: string | null }[]
    >`delete from storage.objects where bucket_id = ${id} returning version`;
  });
  await context.versions.remove(removed.map((row) => row.version));
  return Response.json({ message: "Empty bucket has been queued. Completion may take up to an hour." });
}

export async function deleteBucket(context: StorageContext, id: string): Promise<Response> {
  const [{ filled }] = await context.sql`
    select exists (select from storage.objects where bucket_id = ${id}) as filled`;
  if (filled) throw bucketNotEmpty();
  const removed = await context.asCaller("bucket.delete", (sql) => sql`delete from storage.buckets where id = ${id}`);
  if (removed.count === 0) throw bucketNotFound();
  return Response.json({ message: "Successfully deleted" });
}

/** A bucket as clients read it: they insist on an owner that is a string. */
function shown({ id, name, owner, ...bucket }: Bucket) {
  const { public: isPublic, file_size_limit, allowed_mime_types, created_at, updated_at } = bucket;
  return isoDates({
    id,
    name,
    owner: owner ?? "",
    public: isPublic,
    file_size_limit,
    allowed_mime_types,
    created_at,
    updated_at,
  });
}

/** A limit in bytes, given as a number or as text such as `50MB`. */
function sizeLimit(value: unknown): number | null {
  if (value === undefined || value === null) return null;
  const match = /^(\d+(?:\.\d+)?)\s*([KMG]?i?B)?$/i.exec(String(value).trim());
  if (!match) throw invalidRequest(`file_size_limit must be a number of bytes or text such as "50MB"`);
  return Math.floor(Number(match[1]) * UNITS[(match[2] ?? "B").toUpperCase()]);
}

function mimeTypes(value: unknown): string[] | null {
  if (value === undefined || value === null) return null;
  if (
    !Array.isArray(value) || !value.every((type) => typeof type === "string" && /^[\w*.+-]+\/[\w*.+-]+$/.test(type))
  ) {
    throw invalidRequest("allowed_mime_types must be a list of media types");
  }
  return value;
}

function positive(value: string | null, name: string): number | null {
  if (value === null) return null;
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0) throw invalidRequest(`${name} must be a number`);
  return number;
}
