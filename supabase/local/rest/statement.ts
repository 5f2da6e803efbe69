/** One statement for a request: its rows as text, how many there are, and what SQL wants the response to be. */
import type postgres from "postgres";
import { mayPrepare } from "./prepared.ts";
import { bodySql, type Media, type Shape } from "./media.ts";
import { empty, raw, type Sql, sql } from "./sql.ts";
import { INSERTED } from "./write.ts";

export interface Answer {
  /** How many rows there are without the limit; null when they were not counted. */
  total: number | null;
  page: number;
  body: string;
  /** `response.headers` and `response.status`, which functions may set. */
  headers: string | null;
  status: string | null;
  inserted: number | null;
  /** Name and text of each column of the primary key. */
  location: [name: string, value: string | null][] | null;
}

interface Parts {
  /** A write or a call, whose rows `rows` reads as `pgrst_source`. */
  source?: Sql;
  rows: Sql;
  /** A query with a row for each that is to be counted. */
  total: Sql | null;
  /** Null when no body is wanted. */
  media: Media | null;
  shape: Shape;
  hasLocation?: boolean;
}

const LOCATION = raw(`(select json_agg(json_build_array(key, value)) from json_each_text(json_agg("t".*) -> 0))`);

export function statementOf({ source, rows, total, media, shape, hasLocation }: Parts): Sql {
  const setting = (name: string) => raw(`nullif(current_setting('${name}', true), '')`);
  return sql`${source ? sql`with "pgrst_source" as (${source}) ` : empty}select
    ${total ? sql`(select count(*) from (${total}) as "counted")` : raw("null::bigint")} as "total",
    count(*) as "page",
    ${media ? bodySql(media, shape) : raw("''")} as "body",
    ${setting("response.headers")} as "headers",
    ${setting("response.status")} as "status",
    ${setting(INSERTED)}::int as "inserted",
    ${hasLocation ? LOCATION : raw("null::json")} as "location"
    from (${rows}) as "t"`;
}

/** Send the statement at once; with `version`, of the schema that it was made for, it is prepared when it comes often. */
export async function execute(connection: Connection, statement: Sql, version: number): Promise<Answer> {
  const [rendered, parameters] = statement.render();
  // What Postgres inferred of the parameters' types holds for one schema only.
  const text = `/* ${version} */ ${rendered}`;
  const [answer] = await connection.unsafe<Answer[]>(text, parameters, { prepare: mayPrepare(text) });
  return answer;
}

type Connection = postgres.Sql | postgres.TransactionSql;

/** How many rows Postgres expects of a query. */
export async function plannedRows(transaction: Connection, query: Sql): Promise<number> {
  const [text, parameters] = query.render();
  const [row] = await transaction.unsafe(`explain (format json) ${text}`, parameters);
  return row["QUERY PLAN"][0].Plan["Plan Rows"];
}
