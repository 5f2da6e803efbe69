/** Which form the rows are sent in: a JSON array, one JSON object, or CSV. */
import { ApiError } from "./errors.ts";
import { OPENAPI } from "./openapi.ts";
import type { Routine } from "./schema.ts";
import { raw, type Sql, sql } from "./sql.ts";

export interface Media {
  /** `text` and `bytes` are the value of a function that returns a media type of its own. */
  kind: "array" | "object" | "csv" | "text" | "bytes";
  contentType: string;
  stripsNulls: boolean;
}

/** What a function makes beside the forms of any result. */
interface Own {
  mediaType: string;
  isBinary: boolean;
}

export function ownMedia({ mediaType, returnsBytes }: Routine): Own | null {
  return mediaType === null ? null : { mediaType, isBinary: returnsBytes };
}

/** Choose the first form that the client accepts and we can write. */
export function negotiate(accept: string | null, own: Own | null = null): Media {
  const wanted = read(accept);
  for (const { type, options } of wanted) {
    const media = own && (type === own.mediaType || type === "*/*")
      ? mediaOfItsOwn(own)
      : mediaOf(type, options.includes("nulls=stripped"));
    if (media) return media;
  }
  throw notAvailable(wanted);
}

/** What the document of the API is sent as. */
export function negotiateDocument(accept: string | null): string {
  const wanted = read(accept);
  for (const { type } of wanted) {
    if (type === "*/*" || type === "application/*" || type === "application/openapi+json") return OPENAPI;
    if (type === "application/json") return JSON_ARRAY.contentType;
  }
  throw notAvailable(wanted);
}

interface Wanted {
  type: string;
  options: string[];
  quality: number;
}

/** The media types of an Accept header, the most wanted first. */
function read(accept: string | null): Wanted[] {
  const wanted = (accept ?? "*/*").split(",").map((part): Wanted => {
    const [type, ...options] = part.split(";").map((piece) => piece.trim());
    const quality = Number(options.find((option) => option.startsWith("q="))?.slice(2) ?? "1");
    return { type: type.toLowerCase(), options, quality };
  });
  return wanted.sort((left, right) => right.quality - left.quality);
}

function notAvailable(wanted: Wanted[]): ApiError {
  const names = wanted.map(({ type }) => type).join(", ");
  return new ApiError(406, "PGRST107", `None of these media types are available: ${names}`);
}

function mediaOfItsOwn({ mediaType, isBinary }: Own): Media {
  const named = mediaType === "*/*" ? "application/octet-stream" : mediaType;
  const contentType = named.startsWith("text/") ? `${named}; charset=utf-8` : named;
  return { kind: isBinary ? "bytes" : "text", contentType, stripsNulls: false };
}

const JSON_ARRAY: Media = { kind: "array", contentType: "application/json; charset=utf-8", stripsNulls: false };

function mediaOf(type: string, stripsNulls: boolean): Media | null {
  const suffix = `${stripsNulls ? ";nulls=stripped" : ""}; charset=utf-8`;
  switch (type) {
    case "*/*":
    case "application/*":
    case "application/json":
      return JSON_ARRAY;
    case "application/vnd.pgrst.array":
    case "application/vnd.pgrst.array+json":
      if (!stripsNulls) return JSON_ARRAY;
      return { kind: "array", contentType: `application/vnd.pgrst.array+json${suffix}`, stripsNulls };
    case "application/vnd.pgrst.object":
    case "application/vnd.pgrst.object+json":
      return { kind: "object", contentType: `application/vnd.pgrst.object+json${suffix}`, stripsNulls };
    case "text/csv":
      return { kind: "csv", contentType: "text/csv; charset=utf-8", stripsNulls: false };
  }
  return null;
}

/** What is written of the rows of `t`: all of them, the first, or one value of each. */
export interface Shape {
  isSingle: boolean;
  isScalar: boolean;
}

export const ROWS: Shape = { isSingle: false, isScalar: false };

/** The expression whose text is the body, over all rows of `t`. */
export function bodySql(media: Media, { isSingle, isScalar }: Shape): Sql {
  if (media.kind === "csv") return CSV;
  if (media.kind === "text") return raw(`coalesce((array_agg("t"."pgrst_scalar"))[1]::text, '')`);
  // As text on its way here.
  if (media.kind === "bytes") return raw(`coalesce(encode((array_agg("t"."pgrst_scalar"))[1]::bytea, 'hex'), '')`);
  const list = raw(isScalar ? `json_agg("t"."pgrst_scalar")` : `json_agg("t".*)`);
  const stripped = media.stripsNulls ? sql`json_strip_nulls(${list})` : list;
  if (isSingle || media.kind === "object") return sql`coalesce((${stripped} -> 0)::text, 'null')`;
  return sql`coalesce(${stripped}::text, '[]')`;
}

/** A row's own text, without its parentheses, is a line of CSV. */
const CSV = raw(`coalesce(
  (select string_agg(case when k ~ '[",\\n\\r]' then '"' || replace(k, '"', '""') || '"' else k end, ',' order by n)
    from json_object_keys((json_agg("t".*) -> 0)) with ordinality as keys (k, n))
  || E'\\n' || string_agg(substr(("t".*)::text, 2, length(("t".*)::text) - 2), E'\\n'), '')`);
