/**
 * What every edge function shares: CORS, method, keys and tokens, body limits, validation, one shape of errors.
 *
 *     export default serve({
 *       method: "POST",
 *       auth: ["secret", "user"],
 *       input: v.object({ rollout_id: v.pipe(v.string(), v.uuid()) }),
 *       handler: async ({ input, client }) => unwrap(await client.rpc("rollout_outline", input)),
 *     });
 */
import { type Access, authenticate, type Caller } from "./auth.ts";
import { type SupabaseClient, v } from "./deps.ts";
import { getEnvironment } from "./environment.ts";
import { FunctionError, internal } from "./errors.ts";
import { preflight, reply } from "./http.ts";
import { queryOf, readJson, type Schema, validate } from "./input.ts";

export { v } from "./deps.ts";
export { FunctionError } from "./errors.ts";

const DEFAULT_MAX_BODY_BYTES = 16 * 1024 * 1024;

export interface Call<Input> {
  input: Input;
  /** Acts as the caller: row level security holds. */
  client: SupabaseClient;
  caller: Caller;
  request: Request;
}

export interface FunctionSpec<S extends Schema> {
  method: "GET" | "POST";
  /** Which credentials may call. */
  auth: readonly Access[];
  /** Checks the JSON body of a POST, or the query parameters of a GET (all strings). */
  input: S;
  maxBodyBytes?: number;
  /** Returns what is answered as JSON with 200; throw a FunctionError for anything else. */
  handler(call: Call<v.InferOutput<S>>): unknown | Promise<unknown>;
}

export interface EdgeFunction {
  fetch(request: Request): Promise<Response>;
}

/** An edge function from its description. */
export function serve<S extends Schema>(spec: FunctionSpec<S>): EdgeFunction {
  return {
    async fetch(request) {
      if (request.method === "OPTIONS") return preflight([spec.method]);
      try {
        return reply(200, await answer(spec, request));
      } catch (error) {
        const failure = error instanceof FunctionError ? error : internal(error);
        return reply(failure.status, failure.body, failure.headers);
      }
    },
  };
}

async function answer<S extends Schema>(spec: FunctionSpec<S>, request: Request): Promise<unknown> {
  if (request.method !== spec.method) {
    throw new FunctionError(405, "method_not_allowed", `use ${spec.method}`, null, {
      Allow: `${spec.method}, OPTIONS`,
    });
  }
  const { caller, client } = await authenticate(request, spec.auth, getEnvironment());
  const raw = spec.method === "GET"
    ? queryOf(request)
    : await readJson(request, spec.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES);
  const input = validate(spec.input, raw);
  return await spec.handler({ input, client, caller, request });
}
