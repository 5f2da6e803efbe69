/** How Storage writes values. */

const DATES = ["created_at", "updated_at", "last_accessed_at", "last_modified"];

/** Dates as hosted Storage writes them: to the millisecond, in UTC, with a Z. */
export function isoDates<T extends Record<string, unknown>>(row: T): T {
  const dates = DATES.filter((name) => typeof row[name] === "string");
  return { ...row, ...Object.fromEntries(dates.map((name) => [name, new Date(String(row[name])).toISOString()])) };
}
