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
import type { Settings } from "./settings.ts";
import { Realtime } from "./realtime/routes.ts";
import { isSignInLinkPath, signInLinks } from "./sign_in_links.ts";
import { currentRequest } from "./writes.ts";
import { FileStore } from "./storage/files.ts";
import { Storage } from "./storage/routes.ts";
import { Signer } from "./storage/signing.ts";

const FUNCTION_PATH = /^\/functions\/v1\/([a-z0-9_-]+)(?:\/.*)?$/;
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

  const route = async (request: Request): Promise<Response> => {
    const refused = refuseForeignHost(request);
    if (refused) return refused;
    const { pathname } = new URL(request.url);
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
    if (isAdminUsersPath(pathname)) return withCors(await adminUsers(translated, connection, keys));
    if (isSignInLinkPath(pathname)) {
      return withCors(await signInLinks(translated, connection, keys, (inner) => lite.fetch(inner)));
    }
    const response = pathname.startsWith("/rest/v1")
      ? await callDataApi(translated, lite, connection)
      : await lite.fetch(translated);
    if (response.status === 500 && !(await connection.answers())) return unavailableResponse();
    return withCors(response);
  };

  return async (request) => {
    try {
      return await drained(request, route);
    } catch (error) {
      if (isUnavailable(error)) return unavailableResponse();
      console.error("request failed:", new URL(request.url).pathname, error);
      return Response.json({ message: "Internal server error" }, { status: 500 });
    }
  };
}

function createLite(settings: Settings, connection: GatewayConnection): App {
  return new App({
    connection,
    api: { enabled: true, schemas: ["public"], max_rows: MAX_ROWS },
    auth: {
      enabled: true,
      enable_signup: true,
      jwt_secret: settings.jwtSecret,
      publishable_key: settings.publishableKey,
      secret_key: settings.secretKey,
      email: { enable_signup: true, enable_confirmations: false },
    },
    studio: { enabled: false },
    options: { server: { admin: false, disableStudio: true } },
    // deno-lint-ignore no-explicit-any
  } as any) as unknown as App;
}

async function callDataApi(request: Request, lite: App, connection: GatewayConnection): Promise<Response> {
  // Without the schema every table would be unknown; a database that is away is told as such.
  await connection.introspect({ useCache: true });
  const isJson = /^application\/(vnd\.pgrst\.\w+\+)?json\b/.test(request.headers.get("content-type") ?? "");
  if (!request.body || !isJson) return await lite.fetch(request);
  const body = await request.text();
  const rebuilt = new Request(request.url, { method: request.method, headers: request.headers, body });
  return await currentRequest.run({ body }, () => lite.fetch(rebuilt));
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
