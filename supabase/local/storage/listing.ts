/** Listing a bucket folder by folder, or all of it by cursor. */
import type { Sql, StorageContext } from "./context.ts";
import { invalidRequest } from "./errors.ts";
import { isoDates } from "./values.ts";

type Body = Record<string, unknown>;
type Order = "asc" | "desc";

const SORTABLE = ["name", "updated_at", "created_at", "last_accessed_at"];
const SORTABLE_BY_CURSOR = ["name", "updated_at", "created_at"];
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1500;
const MAX_CURSOR_LIMIT = 1000;

/**
 * One folder's folders and objects, each named relative to it.
 *
 * Names are sorted without regard to case, and folders among objects; by any other column folders come first.
 */
export async function listObjects(context: StorageContext, bucket: string, body: Body): Promise<Response> {
  const folder = asFolder(body.prefix);
  const limit = count(body.limit ?? DEFAULT_LIMIT, "limit", 1, MAX_LIMIT);
  const offset = count(body.offset ?? 0, "offset", 0, Number.MAX_SAFE_INTEGER);
  const { column, order } = sorting(body.sortBy, SORTABLE);
  const pattern = `${escapeLike(folder + String(body.search ?? ""))}%`;
  const rows = await context.asCaller("object.list", (sql) => {
    const direction = order === "desc" ? sql`desc` : sql`asc`;
    const byName = sql`lower(case when kind = 0 then name || '/' else name end) collate "C" ${direction}`;
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
      order by ${column === "name" ? byName : sql`kind, ${sql(column)} ${direction}, ${byName}`}, name ${direction}
      limit ${limit} offset ${offset}`;
  });
  return Response.json(rows.map(isoDates));
}

/** Where a page ended, and how it was sorted: the pages that follow are sorted the same way. */
interface Position {
  column: string;
  order: Order;
  value: string | null;
  name: string;
  isFolder: boolean;
}

interface Entry extends Record<string, unknown> {
  name: string;
  is_folder: boolean;
  position: string | null;
}

/** Pages of keys by cursor; with a delimiter, deeper keys are told as their folder. */
export async function listObjectsByCursor(context: StorageContext, bucket: string, body: Body): Promise<Response> {
  const prefix = typeof body.prefix === "string" ? body.prefix : "";
  const limit = count(body.limit ?? MAX_CURSOR_LIMIT, "limit", 1, MAX_CURSOR_LIMIT);
  const after = body.cursor ? decodeCursor(String(body.cursor)) : null;
  const { column, order } = after ?? sorting(body.sortBy, SORTABLE_BY_CURSOR);
  const delimited = body.with_delimiter === true;
  const found = await context.asCaller(
    "object.list_v2",
    (sql) =>
      sql<Entry[]>`
      with entries as (${delimited ? foldedEntries(sql, bucket, prefix) : allEntries(sql, bucket, prefix)})
      select *, ${column === "name" ? sql`null` : sql`${sql(column)}::text`} as position from entries
      ${after === null ? sql`` : sql`where ${isBeyond(sql, after)}`}
      order by ${sortKey(sql, column, order)} limit ${limit + 1}`,
  );
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const more = found.length > limit && last;
  return Response.json({
    hasNext: !!more,
    nextCursor: more ? encodeCursor({ column, order, ...positionOf(last) }) : undefined,
    nextCursorKey: more ? last.name : undefined,
    folders: page.filter((entry) => entry.is_folder).map((entry) => described(entry, prefix, delimited)),
    objects: page.filter((entry) => !entry.is_folder).map((entry) => described(entry, prefix, delimited)),
  });
}

function allEntries(sql: Sql, bucket: string, prefix: string) {
  return sql`
    select name, id, updated_at, created_at, last_accessed_at, metadata, false as is_folder
    from storage.objects where bucket_id = ${bucket} and starts_with(name, ${prefix})`;
}

/** Objects directly below the prefix, and folders, which are as old as the first object in them. */
function foldedEntries(sql: Sql, bucket: string, prefix: string) {
  return sql`
    select ${prefix} || split_part(substr(name, ${prefix.length + 1}::int), '/', 1) as name, null::uuid as id,
      min(created_at) as updated_at, min(created_at) as created_at, null::timestamptz as last_accessed_at,
      null::jsonb as metadata, true as is_folder
    from storage.objects
    where bucket_id = ${bucket} and starts_with(name, ${prefix}) and strpos(substr(name, ${
    prefix.length + 1
  }::int), '/') > 0
    group by 1
    union all
    select * from (${allEntries(sql, bucket, prefix)}) o where strpos(substr(name, ${
    prefix.length + 1
  }::int), '/') = 0`;
}

function isBeyond(sql: Sql, { column, order, value, name, isFolder }: Position) {
  const beyond = order === "desc" ? sql`<` : sql`>`;
  return column === "name"
    ? sql`(name collate "C", is_folder) ${beyond} (${name}, ${isFolder})`
    : sql`(${sql(column)}, name collate "C", is_folder) ${beyond} (${value}::timestamptz, ${name}, ${isFolder})`;
}

function sortKey(sql: Sql, column: string, order: Order) {
  const direction = order === "desc" ? sql`desc` : sql`asc`;
  const byName = sql`name collate "C" ${direction}, is_folder ${direction}`;
  return column === "name" ? byName : sql`${sql(column)} ${direction}, ${byName}`;
}

const positionOf = (entry: Entry) => ({ value: entry.position, name: entry.name, isFolder: entry.is_folder });

/** An entry as clients read it; with a delimiter, `key` is its name below the prefix's last folder. */
function described({ is_folder, position: _, ...entry }: Entry, prefix: string, delimited: boolean) {
  const named = is_folder ? { ...entry, name: `${entry.name}/` } : entry;
  const key = entry.name.split("/")[prefix.split("/").length - 1];
  return isoDates(delimited ? { key, ...named } : named);
}

function sorting(given: unknown, columns: string[]): { column: string; order: Order } {
  const { column = "name", order = "asc" } = (given ?? {}) as { column?: unknown; order?: unknown };
  if (typeof column !== "string" || !columns.includes(column)) {
    throw invalidRequest(`body/sortBy/column must be equal to one of the allowed values: ${columns.join(", ")}`);
  }
  return { column, order: order === "desc" ? "desc" : "asc" };
}

function asFolder(prefix: unknown): string {
  const text = typeof prefix === "string" ? prefix : "";
  return text === "" || text.endsWith("/") ? text : `${text}/`;
}

function count(value: unknown, name: string, least: number, most: number): number {
  const number = Number(value);
  if (!Number.isInteger(number)) throw invalidRequest(`body/${name} must be integer`);
  if (number < least) throw invalidRequest(`body/${name} must be >= ${least}`);
  return Math.min(number, most);
}

function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, "\\$&");
}

function encodeCursor(position: Position): string {
  return new TextEncoder().encode(JSON.stringify(position)).toBase64();
}

function decodeCursor(cursor: string): Position {
  try {
    const { column, order, value, name, isFolder } = JSON.parse(
      new TextDecoder().decode(Uint8Array.fromBase64(cursor)),
    );
    const isTime = column !== "name" && /^\d{4,6}-\d\d-\d\d /.test(value);
    if (typeof name === "string" && typeof isFolder === "boolean" && (isTime || column === "name")) {
      return { ...sorting({ column, order }, SORTABLE_BY_CURSOR), value, name, isFolder };
    }
  } catch {
    // told below
  }
  throw invalidRequest("Invalid Parameter continuation token");
}
