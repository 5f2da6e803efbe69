/** Whether the schema has changed, for a Postgres in which nobody may make event triggers that tell. */
import type postgres from "postgres";

/** Whether Postgres itself notifies `pgrst` of every change to the schema. */
export async function tellsOfChanges(sql: postgres.Sql): Promise<boolean> {
  const rows =
    await sql`select from pg_catalog.pg_event_trigger where evtname = 'pgrst_ddl_watch' and evtenabled <> 'D'`;
  return rows.length > 0;
}

/** A text that is another after every change to what the Data API shows; it is read from a few hundred catalog rows. */
export async function fingerprint(sql: postgres.Sql): Promise<string> {
  const [{ state }] = await sql<{ state: string }[]>`
    with seen as (
      select c.xmin::text::bigint as change from pg_catalog.pg_class c where c.relnamespace = 'public'::regnamespace
      union all
      select a.xmin::text::bigint from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = 'public'::regnamespace
      union all
      select p.xmin::text::bigint from pg_catalog.pg_proc p where p.pronamespace = 'public'::regnamespace
      union all
      select k.xmin::text::bigint from pg_catalog.pg_constraint k where k.connamespace = 'public'::regnamespace
    )
    select format('%s of %s', count(*), sum(change)) as state from seen`;
  return state;
}
