/** Errors a caller may see, and how the database's errors become them: told apart by their codes, never by their wording. */
import type { ErrorCode } from "./constants.ts";

/** The one shape of an error: `{error: {code, message, details}}` with the status that fits. */
export class FunctionError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: unknown = null,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
    this.name = "FunctionError";
  }

  get body() {
    return { error: { code: this.code, message: this.message, details: this.details } };
  }
}

export const invalid = (message: string, details: unknown = null) =>
  new FunctionError(400, "invalid_input", message, details);
export const unauthorized = (message: string) => new FunctionError(401, "unauthorized", message);
export const forbidden = (message: string) => new FunctionError(403, "forbidden", message);
export const notFound = (message: string) => new FunctionError(404, "not_found", message);
export const conflict = (message: string, details: unknown = null) =>
  new FunctionError(409, "conflict", message, details);

/** What supabase-js reports when a call failed. */
export interface DatabaseFailure {
  code?: string | null;
  message: string;
  details?: string | null;
  hint?: string | null;
}

const UNAVAILABLE = /^(PGRST00\d|08...|53...|57P0\d|57014|40001|40P01|55P03)$/;
const INVALID = /^(22...|23502|23514|23P01|54...|21000)$/;

/** What the codes mean that our own SQL raises. */
const OWN: Record<ErrorCode, (message: string, details: unknown) => FunctionError> = {
  OM400: invalid,
  OM403: forbidden,
  OM404: notFound,
  OM409: conflict,
  OM413: (message, details) => new FunctionError(413, "too_large", message, details),
};

/**
 * The caller's view of a database error; what only we should know is left out of it.
 *
 * `status` is the API's, 0 where it did not answer at all.
 */
export function fromDatabase(failure: DatabaseFailure, status: number): FunctionError {
  const { code, message } = failure;
  const details = structured(failure.details);
  if (status === 413) {
    return new FunctionError(413, "too_large", "more than the database takes at once; send it in parts");
  }
  // Whatever stands between us and the API, such as a proxy, answers without a code.
  if (!code) return status === 0 || status >= 502 ? unavailable() : internal(failure);
  if (isOwn(code)) return OWN[code](message, details);
  if (UNAVAILABLE.test(code)) return unavailable();
  if (INVALID.test(code)) return invalid(message, details);
  switch (code) {
    case "42501":
      return forbidden("not allowed by the project's policies");
    case "PGRST116":
      return notFound("no such row");
    case "23503":
      return new FunctionError(404, "not_found", message, details);
    case "23505":
      return new FunctionError(409, "conflict", message, details);
    case "PGRST301":
    case "PGRST302":
    case "PGRST303":
      return unauthorized("the token is invalid or has expired");
    default:
      return internal(failure);
  }
}

function isOwn(code: string): code is ErrorCode {
  return Object.hasOwn(OWN, code);
}

/** Our SQL says in JSON which record and field it refused; Postgres itself says it in words. */
function structured(details: string | null | undefined): unknown {
  if (!details?.startsWith("{")) return details || null;
  try {
    return JSON.parse(details);
  } catch {
    return details;
  }
}

/** The data of a supabase-js result, or its error thrown as the caller may see it. */
export function unwrap<T>(result: { data: T; error: DatabaseFailure | null; status: number }): T {
  if (result.error) throw fromDatabase(result.error, result.status);
  return result.data;
}

function unavailable(): FunctionError {
  return new FunctionError(503, "unavailable", "the database cannot be reached; try again shortly", null, {
    "Retry-After": "1",
  });
}

/** A failure of ours: logged in full under an id that the caller gets. */
export function internal(cause: unknown): FunctionError {
  const requestId = crypto.randomUUID();
  console.error(`internal error ${requestId}:`, cause);
  return new FunctionError(500, "internal", "internal error; the log has it under this request id", {
    request_id: requestId,
  });
}
