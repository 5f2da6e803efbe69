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
import type { Method } from "./operation.ts";
import { methodsOf, routeOf } from "./routes.ts";

export { v } from "./deps.ts";
export { FunctionError } from "./errors.ts";

export const MAX_BODY_BYTES = 16 * 1024 * 1024;

export interface Call<Input> {
  input: Input;
  /** Acts as the caller: row level security holds. */
  client: SupabaseClient;
  caller: Caller;
  request: Request;
}

export interface FunctionSpec<S extends Schema> {
  method: Method;
  /** The path below the function's own, such as `/{id}`, whose parts in braces are fields of the input. */
  path?: string;
  /** Which credentials may call. */
  auth: readonly Access[];
  /** Checks the JSON body of a POST, or the query parameters of others (all strings). */
  input: S;
  /** Where the handler reads the body itself: the input is then in the query parameters. */
  bodies?: unknown;
  maxBodyBytes?: number;
  /** Returns what is answered as JSON with 200, or an Answer; throw a FunctionError for anything else. */
  handler(call: Call<v.InferOutput<S>>): unknown | Promise<unknown>;
}

/** What is answered with another status than 200. */
export class Answer {
  constructor(readonly status: number, readonly body: unknown) {}
}

export interface EdgeFunction {
  fetch(request: Request): Promise<Response>;
}

/** An edge function from the descriptions of what is done at its paths. */
export function serve<Inputs extends readonly Schema[]>(
  ...specs: { [Index in keyof Inputs]: FunctionSpec<Inputs[Index]> }
): EdgeFunction {
  const routes = specs as readonly FunctionSpec<Schema>[];
  return {
    async fetch(request) {
      try {
        if (request.method === "OPTIONS") return preflight(methodsOf(routes, request));
        const result = await answer(routes, request);
        return result instanceof Answer ? reply(result.status, result.body) : reply(200, result);
      } catch (error) {
        const failure = error instanceof FunctionError ? error : internal(error);
        return reply(failure.status, failure.body, failure.headers);
      }
    },
  };
}

async function answer(routes: readonly FunctionSpec<Schema>[], request: Request): Promise<unknown> {
  const { route, parameters } = routeOf(routes, request);
  const { caller, client } = await authenticate(request, route.auth, getEnvironment());
  const input = validate(route.input, { ...await rawInput(route, request), ...parameters });
  return await route.handler({ input, client, caller, request });
}

async function rawInput(route: FunctionSpec<Schema>, request: Request): Promise<object> {
  if (route.method !== "POST" || route.bodies) return queryOf(request);
  // What is done to one row often needs nothing but its id.
  return await readJson(request, route.maxBodyBytes ?? MAX_BODY_BYTES, { mayBeEmpty: route.path?.includes("{") });
}
