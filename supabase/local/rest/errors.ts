/** What the Data API answers instead of rows: `{code, message, details, hint}` with PostgREST's codes. */
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

  response(isHead = false): Response {
    const { details = null, hint = null, headers = {} } = this.explanation;
    const body = JSON.stringify({ code: this.code, message: this.message, details, hint });
    return new Response(isHead ? null : body, {
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

/** A part of the query string that cannot be read. */
export function unreadable(what: string, text: string, position: number, expected: string): ApiError {
  const found = position < text.length ? `"${String.fromCodePoint(text.codePointAt(position)!)}"` : "end of input";
  return new ApiError(400, "PGRST100", `"failed to parse ${what} (${text})" (line 1, column ${position + 1})`, {
    details: `unexpected ${found} expecting ${expected}`,
  });
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

/** The candidate most like the name, if any is like it at all. */
export function nearest(name: string, candidates: Iterable<string>): string | null {
  let best: string | null = null;
  let bestScore = 0.6;
  for (const candidate of candidates) {
    const score = likeness(name, candidate);
    if (score > bestScore) [best, bestScore] = [candidate, score];
  }
  return best;
}

/** The share of letter pairs that two names have in common, 0 to 1. */
function likeness(left: string, right: string): number {
  const pairs = (name: string) => Array.from({ length: name.length + 1 }, (_, i) => `-${name}-`.slice(i, i + 2));
  const [ours, theirs] = [pairs(left.slice(0, 63)), pairs(right)];
  const common = ours.filter((pair) => theirs.includes(pair)).length;
  return (2 * common) / (ours.length + theirs.length);
}
