/** One request handler for everything a Supabase project serves. */
import { App } from "@supabase/lite";
import { adminUsers, isAdminUsersPath } from "./admin_users.ts";
import { unknownPath } from "./auth_api.ts";
import { currentClient } from "./client.ts";
import { isPreflight, METHOD_LIST, METHODS, preflight, withCors } from "./cors.ts";
import { serveDashboard } from "./dashboard.ts";
import type { GatewayConnection } from "./database.ts";
import { drained } from "./drain.ts";
import { announceEncodings } from "./encodings.ts";
import { isUnavailable, unavailableResponse } from "./errors.ts";
import { functions } from "./functions.ts";
import { Hosts } from "./hosts.ts";
import { bearer, comesWithMemberKey, Keys } from "./keys.ts";
import { limited } from "./limits.ts";
import { KeyRefused, MemberKeys, refusedKey, refusedPath } from "./member_keys.ts";
import { Observer } from "./observer.ts";
import { Operations } from "./operations.ts";
import { asksForOwnUser, ownUser } from "./own_user.ts";
import { announceRest } from "./pace.ts";
import type { Settings } from "./settings.ts";
import { Realtime } from "./realtime/routes.ts";
import { DataApi } from "./rest/api.ts";
import { isSignInLinkPath, signInLinks } from "./sign_in_links.ts";
import { isSessionRequest, sessions } from "./sessions.ts";
import { contents, isContentsPath } from "./storage/contents.ts";
import { FileStore } from "./storage/files.ts";
import { Storage } from "./storage/routes.ts";
import { S3Store } from "./storage/s3_store.ts";
import { Signer } from "./storage/signing.ts";
import { requireLocation, Versions } from "./storage/versions.ts";

const FUNCTION_PATH = /^\/functions\/v1\/([a-z0-9_-]+)(?:\/.*)?$/;
/** Asked by the supervisor: answered without the database, so that a gateway that waits for it does not look hung. */
const ALIVE_PATH = "/gateway/alive";
/** As on hosted projects: a read without a limit answers at most this many rows. */
const MAX_ROWS = 1000;

/** Answers a request; one's own is what a function asks of its project. */
export type Handler = (request: Request, isOwn?: boolean) => Promise<Response>;

export async function createHandler(
  settings: Settings,
  connection: GatewayConnection,
  stopping: AbortSignal,
): Promise<Handler> {
  const keys = new Keys(settings, (signingKey) => new MemberKeys(connection, signingKey));
  const store = settings.s3 ? new S3Store(settings.s3) : new FileStore(settings.storageDir);
  await requireLocation(connection, store);
  await store.prepare();
  const versions = new Versions(connection, store);
  versions.keepSwept(stopping);
  const storage = new Storage(connection, versions, new Signer(settings.jwtSecret), keys);
  const realtime = new Realtime(connection, keys, stopping);
  const lite = createLite(settings, connection);
  const dataApi = new DataApi(connection, keys, MAX_ROWS, settings.version);
  const hosts = new Hosts(settings.publicUrl);
  const observer = new Observer();
  const operations = new Operations(connection, keys, observer, realtime, settings.version);

  const routeOutside = async (request: Request): Promise<Response> => {
    const refused = hosts.refuse(request);
    if (refused) return refused;
    return await route(request, false);
  };

  const route = async (request: Request, isOwn: boolean): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    if (pathname === ALIVE_PATH) {
      return Response.json({ version: settings.version, database_silent_ms: connection.silentMs });
    }
    if (isContentsPath(pathname)) return await contents(request, store, keys);
    if (pathname.startsWith("/realtime/v1/")) {
      return isPreflight(request) ? preflight(request) : await realtime.fetch(request);
    }
    if (!/^\/(rest|auth|storage|functions)\/v1(\/|$)/.test(pathname)) {
      return await operations.fetch(request) ?? await serveDashboard(request, hosts.originOf(request), settings);
    }
    // Functions answer for themselves, as they do when deployed.
    if (isPreflight(request) && !pathname.startsWith("/functions/v1")) return preflight(request);
    if (comesWithMemberKey(request) && isAccountPath(request.method, pathname)) return withCors(refusedPath());
    const { method, body } = request;
    const url = `${hosts.originOf(request)}${pathname}${search}`;
    const translated = new Request(url, { method, body, headers: await keys.translate(request) });
    if (!isOwn) await noteCaller(translated, keys);
    if (pathname.startsWith("/functions/v1")) return await callFunction(translated, pathname);
    if (pathname.startsWith("/storage/v1")) return withCors(await storage.fetch(translated));
    const response = await limited(translated, keys, (bounded) => routeBounded(bounded, pathname));
    return withCors(announceRest(announceEncodings(response, pathname), pathname));
  };

  const routeBounded = async (translated: Request, pathname: string): Promise<Response> => {
    if (isAdminUsersPath(pathname)) return await adminUsers(translated, connection, keys);
    if (isSignInLinkPath(pathname)) {
      return await signInLinks(translated, connection, keys);
    }
    if (await asksForOwnUser(translated, pathname, keys)) return await ownUser(translated, connection.driver, keys);
    if (await isSessionRequest(translated, pathname, keys)) {
      return await sessions(translated, connection, keys);
    }
    if (pathname.startsWith("/rest/v1")) return await dataApi.fetch(translated);
    const unknown = await unknownPath(translated, pathname, keys);
    if (unknown) return unknown;
    const response = await lite.fetch(translated);
    if (response.status === 500 && !(await connection.answers())) return unavailableResponse();
    return response;
  };

  const refuseMethod = () => Promise.resolve(new Response(null, { status: 405, headers: { Allow: METHOD_LIST } }));

  return async (request, isOwn = false) => {
    try {
      if (!METHODS.has(request.method)) return await observer.watch(request, refuseMethod);
      // What a function asks of its own project is part of a request that is counted already.
      const answer: Handler = isOwn ? (read) => route(read, true) : (read) => observer.watch(read, routeOutside);
      return await drained(request, answer);
    } catch (error) {
      if (error instanceof KeyRefused) return withCors(refusedKey(error, new URL(request.url).pathname));
      if (isUnavailable(error)) return unavailableResponse();
      console.error("request failed:", new URL(request.url).pathname, error);
      return withCors(Response.json({ message: "Internal server error" }, { status: 500 }));
    }
  };
}

/** For whoever looks who is connected: as whom the request acts, if its key or token is one of ours. */
async function noteCaller({ headers }: Request, keys: Keys): Promise<void> {
  const client = currentClient.getStore();
  const token = bearer(headers) ?? headers.get("apikey");
  if (client && token) client.caller = await keys.claims(token) ?? undefined;
}

function createLite(settings: Settings, connection: GatewayConnection): App {
  return new App({
    connection,
    api: { enabled: false },
    auth: {
      enabled: true,
      enable_signup: false,
      jwt_secret: settings.jwtSecret,
      publishable_key: settings.publishableKey,
      secret_key: settings.secretKey,
      email: { enable_signup: false, enable_confirmations: false },
    },
    studio: { enabled: false },
    options: { server: { admin: false, disableStudio: true } },
    // deno-lint-ignore no-explicit-any
  } as any) as unknown as App;
}

/** Whether a request is about an account itself, which a key has no say in, beyond whose it is. */
function isAccountPath(method: string, pathname: string): boolean {
  return pathname.startsWith("/auth/v1") && !(method === "GET" && /^\/auth\/v1\/user\/?$/.test(pathname));
}

async function callFunction(request: Request, pathname: string): Promise<Response> {
  const name = FUNCTION_PATH.exec(pathname)?.[1];
  const edgeFunction = name && Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (!edgeFunction) {
    const error = { code: "NOT_FOUND", message: "Requested function was not found", details: null };
    return Response.json({ error }, { status: 404, headers: { "Access-Control-Allow-Origin": "*" } });
  }
  return await edgeFunction.fetch(request);
}
