/** The one Supabase client, and the one place where its errors become ours. */
import { createClient, FunctionsHttpError, type SupabaseClient } from "@supabase/supabase-js";
import type { Config } from "./config.ts";
import type { Database, ErrorCode } from "./database.ts";

let client: SupabaseClient<Database>;

export function connect(config: Config): void {
  client = createClient<Database>(config.supabaseUrl, config.publishableKey, {
    // What fails is asked again by who asked, who also says so.
    db: { retry: false },
    // Anybody can make a link: who is signed in already must not be signed out, or in as another, by opening one.
    auth: { storageKey: "openmanus-rl", detectSessionInUrl: false, persistSession: true, autoRefreshToken: true },
  });
}

export function supabase(): SupabaseClient<Database> {
  return client;
}

const UNKNOWN_ID: ErrorCode = "OM404";
/** The API's own: a row was asked for, and there is none. */
const NO_ROW = "PGRST116";
/** Postgres': an address names what cannot be an id. */
const NO_ID = "22P02";
/** Postgres': the role may not call this, or a policy forbids it. */
const FORBIDDEN = "42501";
/** The API's own: it does not accept the token of a session. */
const NO_SESSION = /^PGRST30[0-3]$/;
/** A proxy's words for a server that is away, and the API's for a database that is. */
const AWAY_STATUSES = [502, 503, 504];

/** What went wrong, in words for the person in front of the page. */
export class RequestError extends Error {
  constructor(
    message: string,
    readonly code: string | null,
    readonly isOffline = false,
    /** What is to blame, with dots, where the database says so. */
    readonly field: string | null = null,
  ) {
    super(message);
  }

  /** There is nothing by this id, or the visitor may not see it. */
  static unknown(message: string): RequestError {
    return new RequestError(message, UNKNOWN_ID);
  }

  static offline(): RequestError {
    return new RequestError("The server does not answer.", null, true);
  }

  /** Who asked is signed in no more. */
  get isSignedOut(): boolean {
    return NO_SESSION.test(this.code ?? "");
  }

  get isUnknown(): boolean {
    return this.code === UNKNOWN_ID || this.code === NO_ROW || this.code === NO_ID;
  }
}

/** What the API answered; the status is 0 where nobody did. */
export interface Answer<T> {
  data: T;
  error: { message: string; code?: string; details?: string | null } | null;
  status: number;
}

/** Whether nobody answered, or only whoever stands in front of the server. */
export function isAway(status: number): boolean {
  return status === 0 || AWAY_STATUSES.includes(status);
}

/** The data of an answer, null where it is, or a RequestError that can be shown. */
export function unwrap<T>({ data, error, status }: Answer<T>): T {
  if (error === null) return data;
  if (isAway(status)) throw RequestError.offline();
  // Postgres' own words name functions and policies.
  const message = error.code === FORBIDDEN
    ? "You may not do this: sign in, or ask its owner or an admin."
    : error.message;
  throw new RequestError(message, error.code || null, false, fieldOf(error.details));
}

function fieldOf(details: string | null | undefined): string | null {
  try {
    const { field } = JSON.parse(details ?? "") as { field?: unknown };
    return typeof field === "string" ? field : null;
  } catch {
    // Those of Postgres itself are sentences.
    return null;
  }
}

/** The rows of an answer, or a RequestError that can be shown. */
export async function answered<T>(request: PromiseLike<Answer<T>>): Promise<NonNullable<T>> {
  // Without an error there are rows.
  return unwrap(await request)!;
}

type Functions = Database["public"]["Functions"];

/** Call a database function. */
export async function rpc<Name extends keyof Functions>(
  name: Name,
  args: Functions[Name]["Args"],
  signal?: AbortSignal,
): Promise<Functions[Name]["Returns"]> {
  const request = client.rpc(name, args);
  const answer: Answer<unknown> = await (signal ? request.abortSignal(signal) : request);
  // Who asked has gone: that is no answer, and no connection lost.
  signal?.throwIfAborted();
  // The client's own types say the same, but not of a name that the compiler does not know yet.
  return unwrap(answer) as Functions[Name]["Returns"];
}

/** What an edge function says when it refuses. */
export interface Refusal {
  code?: string;
  message?: string;
  details?: unknown;
}

/** What an edge function answered where it refused; a server that is away is a RequestError. */
export async function refusalOf(error: Error): Promise<{ refusal: Refusal | null; status: number }> {
  if (!(error instanceof FunctionsHttpError) || isAway(error.context.status)) throw RequestError.offline();
  const answer = await error.context.json().catch(() => null) as { error?: Refusal } | null;
  return { refusal: answer?.error ?? null, status: error.context.status };
}

/** Call an edge function; what it refuses is a RequestError in its words. */
export async function invoke<T>(name: string, body: object): Promise<T> {
  const { data, error } = await client.functions.invoke<T>(name, { body });
  if (!error) return data!;
  const { refusal, status } = await refusalOf(error);
  const unsaid = status === 404 ? `This server has no function ${name}.` : `The server refused it (${status}).`;
  throw new RequestError(refusal?.message ?? unsaid, refusal?.code ?? null);
}
