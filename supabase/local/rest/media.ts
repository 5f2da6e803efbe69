/** Which form the rows are sent in: a JSON array, one JSON object, or CSV. */
import { ApiError } from "./errors.ts";
import { raw, type Sql, sql } from "./sql.ts";

export interface Media {
  kind: "array" | "object" | "csv";
  contentType: string;
  stripsNulls: boolean;
}

/** Choose the first form that the client accepts and we can write. */
export function negotiate(accept: string | null): Media {
  const wanted = (accept ?? "*/*").split(",").map((part) => {
    const [type, ...options] = part.split(";").map((piece) => piece.trim());
    const quality = Number(options.find((option) => option.startsWith("q="))?.slice(2) ?? "1");
    return { type: type.toLowerCase(), options, quality };
  });
  wanted.sort((left, right) => right.quality - left.quality);
  for (const { type, options } of wanted) {
    const media = mediaOf(type, options.includes("nulls=stripped"));
    if (media) return media;
  }
  const names = wanted.map(({ type }) => type).join(", ");
  throw new ApiError(406, "PGRST107", `None of these media types are available: ${names}`);
}

function mediaOf(type: string, stripsNulls: boolean): Media | null {
  const suffix = `${stripsNulls ? "; nulls=stripped" : ""}; charset=utf-8`;
  switch (type) {
    case "*/*":
    case "application/*":
    case "application/json":
      return { kind: "array", contentType: "application/json; charset=utf-8", stripsNulls: false };
    case "application/vnd.pgrst.array":
    case "application/vnd.pgrst.array+json":
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
