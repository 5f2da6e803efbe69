/** What Supabase Lite may tell of the schema in the document at `/rest/v1/`. */
import type { IntrospectResult } from "@supabase/lite";
import { EXPOSED_SCHEMA } from "./rest/schema.ts";

/**
 * Lite's schema cache without what is not exposed.
 *
 * Lite looks tables up by name alone in places, so that a table of `auth` would answer for one of ours.
 */
export function exposedOnly(schema: IntrospectResult): IntrospectResult {
  const exposed = <T extends { schema: string }>(items: T[]) => items.filter((item) => item.schema === EXPOSED_SCHEMA);
  return {
    ...schema,
    tables: exposed(schema.tables),
    columns: exposed(schema.columns),
    indexes: exposed(schema.indexes),
    foreign_keys: exposed(schema.foreign_keys).filter((key) => (key.ref_schema ?? EXPOSED_SCHEMA) === EXPOSED_SCHEMA),
    primary_keys: exposed(schema.primary_keys),
    views: exposed(schema.views),
    check_constraints: exposed(schema.check_constraints),
    unique_constraints: exposed(schema.unique_constraints),
    comments: exposed(schema.comments),
    functions: exposed(schema.functions ?? []),
    partitions: exposed(schema.partitions ?? []),
  };
}
