/** Errors a caller may see, and how the database's errors become them. */

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
export const conflict = (message: string) => new FunctionError(409, "conflict", message);

/** What supabase-js reports when a call failed. */
export interface DatabaseFailure {
  code?: string | null;
  message: string;
  details?: string | null;
  hint?: string | null;
}

const UNAVAILABLE = /^(PGRST00\d|08...|53...|57P0\d|57014|40001|40P01|55P03)$/;
const INVALID = /^(OM400|22...|23502|23514|23P01|54...|21000)$/;

/** The caller's view of a database error; what only we should know is left out of it. */
export function fromDatabase(failure: DatabaseFailure): FunctionError {
  const { code, message } = failure;
  const details = structured(failure.details);
  // supabase-js answers without a code when no server could be asked.
  if (!code) {
    return /fetch|network|connect/i.test(message) ? unavailable() : internal(failure);
  }
  if (UNAVAILABLE.test(code)) return unavailable();
  if (INVALID.test(code)) return invalid(message, details);
  switch (code) {
    case "OM403":
      return forbidden(message);
    case "42501":
      return forbidden("not allowed by the project's policies");
    case "OM404":
      return notFound(message);
    case "PGRST116":
      return notFound("no such row");
    case "23503":
      // Either the row referred to is missing, or others still refer to this one.
      return /still referenced/.test(failure.details ?? "")
        ? new FunctionError(409, "conflict", message, details)
        : new FunctionError(404, "not_found", message, details);
    case "OM409":
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
export function unwrap<T>(result: { data: T; error: DatabaseFailure | null }): T {
  if (result.error) throw fromDatabase(result.error);
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
