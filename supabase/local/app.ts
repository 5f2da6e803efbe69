/** One request handler for everything a Supabase project serves. */
import { App } from "@supabase/lite";
import { adminUsers, isAdminUsersPath } from "./admin_users.ts";
import { isPreflight, preflight, withCors } from "./cors.ts";
import { serveDashboard } from "./dashboard.ts";
import type { GatewayConnection } from "./database.ts";
import { drained } from "./drain.ts";
import { isUnavailable, unavailableResponse } from "./errors.ts";
import { functions } from "./functions.ts";
import { refuseForeignHost } from "./hosts.ts";
import { Keys } from "./keys.ts";
import { limited } from "./limits.ts";
import type { Settings } from "./settings.ts";
import { Realtime } from "./realtime/routes.ts";
import { DataApi } from "./rest/api.ts";
import { isSignInLinkPath, signInLinks } from "./sign_in_links.ts";
import { isSessionRequest, sessions } from "./sessions.ts";
import { FileStore } from "./storage/files.ts";
import { Storage } from "./storage/routes.ts";
import { Signer } from "./storage/signing.ts";

const FUNCTION_PATH = /^\/functions\/v1\/([a-z0-9_-]+)(?:\/.*)?$/;
/** The document that describes the Data API; everything else below `/rest/v1` is the Data API itself. */
const ROOT_DOCUMENT = /^\/rest\/v1\/?$/;
/** Asked by the supervisor: answered without the database, so that a gateway that waits for it does not look hung. */
const ALIVE_PATH = "/gateway/alive";
/** As on hosted projects: a read without a limit answers at most this many rows. */
const MAX_ROWS = 1000;

export type Handler = (request: Request) => Promise<Response>;

export async function createHandler(
  settings: Settings,
  connection: GatewayConnection,
  stopping: AbortSignal,
): Promise<Handler> {
  const keys = new Keys(settings);
  const files = new FileStore(settings.storageDir);
  await files.prepare();
  const storage = new Storage(connection, files, new Signer(settings.jwtSecret), keys);
  const realtime = new Realtime(connection, keys, stopping);
  const lite = createLite(settings, connection);
  const dataApi = new DataApi(connection, keys, MAX_ROWS);

  const route = async (request: Request): Promise<Response> => {
    const refused = refuseForeignHost(request);
    if (refused) return refused;
    const { pathname } = new URL(request.url);
    if (pathname === ALIVE_PATH) {
      return Response.json({ version: settings.version, database_silent_ms: connection.silentMs });
    }
    if (pathname.startsWith("/realtime/v1/")) return await realtime.fetch(request);
    if (!/^\/(rest|auth|storage|functions)\/v1(\/|$)/.test(pathname)) {
      return await serveDashboard(request, settings);
    }
    // Functions answer for themselves, as they do when deployed.
    if (isPreflight(request) && !pathname.startsWith("/functions/v1")) return preflight(request);
    const { url, method, body } = request;
    const translated = new Request(url, { method, body, headers: await keys.translate(request) });
    if (pathname.startsWith("/functions/v1")) return await callFunction(translated, pathname);
    if (pathname.startsWith("/storage/v1")) return withCors(await storage.fetch(translated));
    return withCors(await limited(translated, keys, (bounded) => routeBounded(bounded, pathname)));
  };

  const routeBounded = async (translated: Request, pathname: string): Promise<Response> => {
    if (isAdminUsersPath(pathname)) return await adminUsers(translated, connection, keys);
    if (isSignInLinkPath(pathname)) {
      return await signInLinks(translated, connection, keys);
    }
    if (await isSessionRequest(translated, pathname, keys)) {
      return await sessions(translated, connection, keys, (inner) => lite.fetch(inner));
    }
    if (pathname.startsWith("/rest/v1") && !ROOT_DOCUMENT.test(pathname)) {
      return await dataApi.fetch(translated);
    }
    const response = await lite.fetch(translated);
    if (response.status === 500 && !(await connection.answers())) return unavailableResponse();
    return response;
  };

  return async (request) => {
    try {
      return await drained(request, route);
    } catch (error) {
      if (isUnavailable(error)) return unavailableResponse();
      console.error("request failed:", new URL(request.url).pathname, error);
      return withCors(Response.json({ message: "Internal server error" }, { status: 500 }));
    }
  };
}

function createLite(settings: Settings, connection: GatewayConnection): App {
  return new App({
    connection,
    api: { enabled: true, schemas: ["public"], max_rows: MAX_ROWS },
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

async function callFunction(request: Request, pathname: string): Promise<Response> {
  const name = FUNCTION_PATH.exec(pathname)?.[1];
  const edgeFunction = name && Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (!edgeFunction) {
    const error = { code: "NOT_FOUND", message: "Requested function was not found", details: null };
    return Response.json({ error }, { status: 404, headers: { "Access-Control-Allow-Origin": "*" } });
  }
  return await edgeFunction.fetch(request);
}
