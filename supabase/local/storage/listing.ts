/** Listing a bucket folder by folder. */
import type { StorageContext } from "./context.ts";
import { invalidRequest } from "./errors.ts";

type Body = Record<string, unknown>;

const SORTABLE = new Set(["name", "updated_at", "created_at", "last_accessed_at"]);
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 10_000;

/** One folder's folders and then its objects, each named relative to it. */
export async function listObjects(context: StorageContext, bucket: string, body: Body): Promise<Response> {
  await context.bucket(bucket);
  const folder = asFolder(body.prefix);
  const limit = count(body.limit ?? DEFAULT_LIMIT, "limit", MAX_LIMIT);
  const offset = count(body.offset ?? 0, "offset", Number.MAX_SAFE_INTEGER);
  const { column = "name", order = "asc" } = (body.sortBy ?? {}) as { column?: string; order?: string };
  if (!SORTABLE.has(column)) throw invalidRequest(`sortBy.column must be one of ${[...SORTABLE].join(", ")}`);
  const pattern = `${escapeLike(folder + String(body.search ?? ""))}%`;
  const rows = await context.asCaller("object.list", (sql) => {
    const direction = order === "desc" ? sql`desc` : sql`asc`;
    return sql`
      with found as (
        select *, substr(name, ${folder.length + 1}::int) as rest
        from storage.objects
        where bucket_id = ${bucket} and name ilike ${pattern} and starts_with(name, ${folder})
      ), entries as (
        select distinct split_part(rest, '/', 1) as name, null::uuid as id, null::timestamptz as updated_at,
          null::timestamptz as created_at, null::timestamptz as last_accessed_at, null::jsonb as metadata,
          0 as kind
        from found where strpos(rest, '/') > 0
        union all
        select rest, id, updated_at, created_at, last_accessed_at, metadata, 1 from found where strpos(rest, '/') = 0
      )
      select name, id, updated_at, created_at, last_accessed_at, metadata from entries
      order by kind, ${sql(column)} ${direction}, name ${direction}
      limit ${limit} offset ${offset}`;
  });
  return Response.json(rows);
}

/** Pages of keys by cursor; with a delimiter, deeper keys are told as their folder. */
export async function listObjectsByCursor(context: StorageContext, bucket: string, body: Body): Promise<Response> {
  await context.bucket(bucket);
  const prefix = typeof body.prefix === "string" ? body.prefix : "";
  const limit = count(body.limit ?? 1000, "limit", 1000);
  const { column = "name", order = "asc" } = (body.sortBy ?? {}) as { column?: string; order?: string };
  if (column !== "name") throw invalidRequest("sortBy.column must be name");
  const after = body.cursor ? decodeCursor(String(body.cursor)) : null;
  const delimited = body.with_delimiter === true;
  const rows = await context.asCaller("object.list_v2", (sql) => {
    const descending = order === "desc";
    const key = delimited
      ? sql`case when strpos(substr(name, ${prefix.length + 1}::int), '/') > 0
              then ${prefix} || split_part(substr(name, ${prefix.length + 1}::int), '/', 1) || '/' else name end`
      : sql`name`;
    return sql`
      with keyed as (
        select distinct on (key) * from (
          select *, (${key}) collate "C" as key from storage.objects
          where bucket_id = ${bucket} and starts_with(name, ${prefix})
        ) every_object
        order by key
      )
      select * from keyed
      where ${after === null ? sql`true` : descending ? sql`key < ${after}` : sql`key > ${after}`}
      order by key ${descending ? sql`desc` : sql`asc`} limit ${limit + 1}`;
  });
  const page = rows.slice(0, limit);
  const isFolder = (row: Record<string, unknown>) => delimited && String(row.key).endsWith("/");
  return Response.json({
    hasNext: rows.length > limit,
    nextCursor: rows.length > limit ? encodeCursor(page.at(-1)!.key) : undefined,
    folders: page.filter(isFolder).map((row) => ({ key: row.key, name: row.key })),
    objects: page.filter((row) => !isFolder(row)).map((row) => ({
      id: row.id,
      key: row.name,
      name: row.name,
      updated_at: row.updated_at,
      created_at: row.created_at,
      last_accessed_at: row.last_accessed_at,
      metadata: row.metadata,
    })),
  });
}

function asFolder(prefix: unknown): string {
  const text = typeof prefix === "string" ? prefix : "";
  return text === "" || text.endsWith("/") ? text : `${text}/`;
}

function count(value: unknown, name: string, max: number): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0) throw invalidRequest(`${name} must be a number from 0`);
  return Math.min(number, max);
}

function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, "\\$&");
}

const encodeCursor = (key: string) => btoa(String.fromCharCode(...new TextEncoder().encode(key)));

function decodeCursor(cursor: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(cursor), (char) => char.charCodeAt(0)));
  } catch {
    throw invalidRequest("cursor is not one that was handed out");
  }
}
