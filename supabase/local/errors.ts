/** Postgres and connection errors as PostgREST would answer them. */

export interface DatabaseError {
  code?: unknown;
  message?: unknown;
  detail?: unknown;
  hint?: unknown;
}

/** Codes of postgres.js and of the system that say the database cannot be reached. */
const CONNECTION_CODES = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_DESTROYED",
  "CONNECTION_ENDED",
  "CONNECT_TIMEOUT",
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOENT",
  "57P01",
  "57P02",
  "57P03",
]);

export class DatabaseUnavailable extends Error {
  readonly code = "CONNECTION_CLOSED";
}

export function isUnavailable(error: unknown): boolean {
  const code = (error as DatabaseError | null)?.code;
  return typeof code === "string" && (CONNECTION_CODES.has(code) || /^08/.test(code));
}

/** Whether Postgres takes no more connections, from anybody or as this role; one may be free again soon. */
export function isFull(error: unknown): boolean {
  return (error as DatabaseError | null)?.code === "53300";
}

/** The answer while the database is away; clients may try again. */
export function unavailableResponse(): Response {
  return Response.json(
    {
      code: "PGRST000",
      message: "Could not connect with the database",
      details: null,
      hint: "The database is starting or was stopped; try again shortly",
    },
    { status: 503, headers: { "Retry-After": "1", "Access-Control-Allow-Origin": "*" } },
  );
}

/** SQLSTATE prefixes and their HTTP status, the longest match first; what is not listed is 400. */
const STATUS_BY_SQLSTATE: [prefix: string, status: number][] = [
  ["21000", 500],
  ["23503", 409],
  ["23505", 409],
  ["25006", 405],
  ["42883", 404],
  ["42P01", 404],
  ["42P17", 500],
  ["53400", 500],
  ["P0001", 400],
  ["0L", 403],
  ["0P", 403],
  ["28", 403],
  ["08", 503],
  ["53", 503],
  ...["09", "25", "2D", "38", "39", "3B", "40", "54", "55", "57", "58", "F0", "HV", "P0", "XX"]
    .map((prefix): [string, number] => [prefix, 500]),
];

export function statusOfSqlstate(code: string): number {
  return STATUS_BY_SQLSTATE.find(([prefix]) => code.startsWith(prefix))?.[1] ?? 400;
}
