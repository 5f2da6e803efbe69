/** What the Data API answers instead of rows: `{code, details, hint, message}` with PostgREST's codes. */
import { type DatabaseError, statusOfSqlstate } from "../errors.ts";

interface Explanation {
  details?: unknown;
  hint?: string | null;
  headers?: Record<string, string>;
}

/** A request that is refused; thrown inside a transaction it undoes the transaction. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly explanation: Explanation = {},
  ) {
    super(message);
  }

  withStatus(status: number): ApiError {
    return new ApiError(status, this.code, this.message, this.explanation);
  }

  response(): Response {
    const { details = null, hint = null, headers = {} } = this.explanation;
    // In the order of hosted projects, so that the text is the same.
    const body = JSON.stringify({ code: this.code, details, hint, message: this.message });
    return new Response(body, {
      status: this.status,
      headers: {
        "Content-Type": "application/json; charset=utf-8",
        "Proxy-Status": proxyStatus(this.code),
        ...headers,
      },
    });
  }
}

const proxyStatus = (code: string) => `PostgREST; error=${/^[\w.-]+$/.test(code) ? code : "PGRSTX00"}`;

/** A part of the query string that cannot be read, from `position` on. */
export function unreadable(what: string, text: string, position: number, details: string, offset = 0): ApiError {
  const message = `"failed to parse ${what} (${text})" (line 1, column ${position + offset + 1})`;
  return new ApiError(400, "PGRST100", message, { details });
}

/** In the words of the gateway of hosted projects, which is not PostgREST. */
export function schemaIsForbidden(): Response {
  const hint = "Accessing the schema via the Data API is only allowed using a secret API key.";
  return Response.json({ message: "Access to schema is forbidden", hint }, { status: 403 });
}

export function invalidBody(message: string): ApiError {
  return new ApiError(400, "PGRST102", message);
}

/** An error that Postgres reported, as an answer; `isAnonymous` callers are asked to sign in rather than refused. */
export function fromDatabase(error: DatabaseError & { code: string }, isAnonymous: boolean): ApiError {
  const { code, detail = null, hint = null } = error;
  const message = String(error.message ?? "");
  if (code === "PGRST") return raisedAnswer(message, detail);
  const explanation = { details: detail, hint: hint as string | null };
  if (code.startsWith("PT")) {
    const status = Number(code.slice(2));
    return new ApiError(status >= 200 && status <= 599 ? status : 500, code, message, explanation);
  }
  if (code === "42501" && isAnonymous) {
    return new ApiError(401, code, message, { ...explanation, headers: { "WWW-Authenticate": "Bearer" } });
  }
  // What pg-safeupdate refuses is the client's mistake.
  if (code === "21000" && message.endsWith("requires a WHERE clause")) {
    return new ApiError(400, code, message, explanation);
  }
  return new ApiError(code === "42501" ? 403 : statusOfSqlstate(code), code, message, explanation);
}

/** `raise sqlstate 'PGRST'` chooses the whole answer: its message is the body, its detail status and headers. */
function raisedAnswer(message: string, detail: unknown): ApiError {
  const body = parsedObject(message);
  if (typeof body?.code !== "string" || typeof body.message !== "string") {
    return badlyRaised(`Invalid JSON value for MESSAGE: '${message}'`, RAISED_MESSAGE);
  }
  if (detail === null || detail === undefined) {
    return badlyRaised("DETAIL is missing in the RAISE statement", RAISED_DETAIL);
  }
  const { status, headers } = parsedObject(String(detail)) ?? {};
  if (typeof status !== "number" || status < 200 || status > 599 || typeof headers !== "object") {
    return badlyRaised(`Invalid JSON value for DETAIL: '${detail}'`, RAISED_DETAIL);
  }
  const explanation = { details: body.details, hint: body.hint as string | null };
  return new ApiError(status, body.code, body.message, { ...explanation, headers: headers as Record<string, string> });
}

const RAISED_MESSAGE = "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: " +
  "'details', 'hint'.";
const RAISED_DETAIL = "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: " +
  "'status_text'.";

function badlyRaised(details: string, hint: string): ApiError {
  return new ApiError(500, "PGRST121", `Could not parse JSON in the "RAISE SQLSTATE 'PGRST'" error`, { details, hint });
}

function parsedObject(text: string): Record<string, unknown> | null {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** How like a name must be to be suggested instead. */
export const NEAR = 0.75;
/** Of names that whoever asks may know anyway. */
export const FAIRLY_NEAR = 1 / 3;

/** The candidate most like the name, if any is like it at all. */
export function nearest(name: string, candidates: Iterable<string>, least = NEAR): string | null {
  let best: string | null = null;
  let bestScore = 0;
  for (const candidate of candidates) {
    const score = likeness(name, candidate);
    if (score >= least && score > bestScore) [best, bestScore] = [candidate, score];
  }
  return best;
}

/** The share of letters that need not be changed to make one name of the other, 0 to 1; 0 if no two in a row agree. */
function likeness(left: string, right: string): number {
  const [ours, theirs] = [lettersOf(left.slice(0, 200)), lettersOf(right)];
  const pairs = (letters: string) =>
    Array.from({ length: letters.length + 1 }, (_, i) => `-${letters}-`.slice(i, i + 2));
  const known = new Set(pairs(theirs));
  if (!pairs(ours).some((pair) => known.has(pair))) return 0;
  const changes = changesBetween(left.slice(0, 200).toLowerCase(), right.toLowerCase());
  return 1 - changes / Math.max(left.length, right.length, 1);
}

const lettersOf = (name: string) => name.toLowerCase().replace(/[^\p{L}\p{N}, ]/gu, "");

function changesBetween(ours: string, theirs: string): number {
  let previous = Array.from(theirs, (_, i) => i + 1);
  for (let i = 0; i < ours.length; i++) {
    const row: number[] = [];
    for (let j = 0; j < theirs.length; j++) {
      const kept = (j === 0 ? i : previous[j - 1]) + (ours[i] === theirs[j] ? 0 : 1);
      row.push(Math.min(kept, previous[j] + 1, (j === 0 ? i + 1 : row[j - 1]) + 1));
    }
    previous = row;
  }
  return previous.at(-1) ?? ours.length;
}
