/** Dates and times as RFC 3339 writes them. */

const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:0\d|1[0-4]):[0-5]\d)$/;

/** Whether a text names an instant that Postgres can keep: an existing day of a year from 1 on. */
export function isTimestamp(text: string): boolean {
  const match = RFC3339.exec(text);
  if (match === null) return false;
  const [year, month, day] = match.slice(1, 4).map(Number);
  const date = new Date(0);
  // Years below 100 would be taken for those of the last century by Date.UTC.
  date.setUTCFullYear(year, month - 1, day);
  return year >= 1 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
