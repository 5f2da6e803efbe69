/** `/storage/v1`: which operation a request asks for, and with whose rights. */
import { readJsonObject } from "../bodies.ts";
import type { Claims, GatewayConnection } from "../database.ts";
import { isUnavailable } from "../errors.ts";
import { bearer, type Keys } from "../keys.ts";
import * as buckets from "./buckets.ts";
import { StorageContext } from "./context.ts";
import { sendObject } from "./download.ts";
import {
  accessDenied,
  bucketNotFound,
  diskFull,
  featureNotEnabled,
  fromDatabase,
  invalidRequest,
  routeNotFound,
  StorageError,
} from "./errors.ts";
import { listObjects, listObjectsByCursor } from "./listing.ts";
import * as objects from "./objects.ts";
import type { Signer } from "./signing.ts";
import { StoreUnavailable } from "./store.ts";
import { upload } from "./upload.ts";
import type { Versions } from "./versions.ts";

type Route = (context: StorageContext, request: Request, parts: string[]) => Promise<Response>;

/** The parts of a path below `/storage/v1`, each percent-decoded. */
function pathParts(request: Request): string[] {
  const path = new URL(request.url).pathname.replace(/^\/storage\/v1\/?/, "");
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    throw invalidRequest("The path is not valid percent-encoding");
  }
}

async function json(request: Request): Promise<Record<string, unknown>> {
  const body = await readJsonObject(request);
  if (body === null) throw invalidRequest("The body must be a JSON object");
  return body;
}

const keyOf = (parts: string[]) => parts.join("/");
const wantsUpsert = (request: Request) => request.headers.get("x-upsert") === "true";

const readObject: Route = async (context, request, [bucket, ...key]) =>
  await sendObject(context, () => objects.findReadable(context, bucket, keyOf(key)), request);

const readPublic: Route = async (context, request, [bucket, ...key]) => {
  if (!(await context.bucket(bucket)).public) throw bucketNotFound();
  return await sendObject(context, () => objects.findAny(context, bucket, keyOf(key)), request);
};

const readSigned: Route = async (context, request, [bucket, ...key]) => {
  const token = new URL(request.url).searchParams.get("token");
  const { signer } = await context.signer.verify("download", `${bucket}/${keyOf(key)}`, token);
  return await sendObject(context, () => objects.findReadable(context.as(signer), bucket, keyOf(key)), request);
};

const storeSigned: Route = async (context, request, [bucket, ...key]) => {
  const token = new URL(request.url).searchParams.get("token");
  const { signer, upsert } = await context.signer.verify("upload", `${bucket}/${keyOf(key)}`, token);
  const row = await upload(context.as(signer), { bucket, key: keyOf(key), upsert }, request);
  return Response.json({ Id: row.id, Key: `${bucket}/${row.name}` });
};

function store(upsertOf: (request: Request) => boolean): Route {
  return async (context, request, [bucket, ...key]) => {
    const row = await upload(context, { bucket, key: keyOf(key), upsert: upsertOf(request) }, request);
    return Response.json({ Id: row.id, Key: `${bucket}/${row.name}` });
  };
}

const info: Route = (context, _request, [bucket, ...key]) => objects.objectInfo(context, bucket, keyOf(key));

/** Whether a route needs a key, takes one, or looks at none because a URL says enough. */
type Access = "key" | "optional" | "none";

/** Method, fixed beginning of the path, how many parts may follow, and what answers; the first match wins. */
const ROUTES: [method: string, start: string, rest: "none" | "one" | "key", route: Route, access?: Access][] = [
  ["GET", "bucket", "none", (context, request) => buckets.listBuckets(context, new URL(request.url).searchParams)],
  ["POST", "bucket", "none", async (context, request) => buckets.createBucket(context, await json(request))],
  ["GET", "bucket", "one", (context, _request, [id]) => buckets.getBucket(context, id)],
  ["PUT", "bucket", "one", async (context, request, [id]) => buckets.updateBucket(context, id, await json(request))],
  ["DELETE", "bucket", "one", (context, _request, [id]) => buckets.deleteBucket(context, id)],
  ["POST", "object/list", "one", async (context, request, [id]) => listObjects(context, id, await json(request))],
  [
    "POST",
    "object/list-v2",
    "one",
    async (context, request, [id]) => listObjectsByCursor(context, id, await json(request)),
  ],
  ["POST", "object/move", "none", async (context, request) => objects.moveObject(context, await json(request))],
  [
    "POST",
    "object/copy",
    "none",
    async (context, request) => objects.copyObject(context, await json(request), wantsUpsert(request)),
  ],
  ["GET", "object/info/authenticated", "key", info],
  ["GET", "object/info/public", "key", info, "none"],
  ["GET", "object/info", "key", info, "optional"],
  ["GET", "object/sign", "key", readSigned, "none"],
  [
    "POST",
    "object/sign",
    "one",
    async (context, request, [id]) => objects.signDownloads(context, id, await json(request)),
  ],
  [
    "POST",
    "object/sign",
    "key",
    async (context, request, [id, ...key]) => objects.signDownload(context, id, keyOf(key), await json(request)),
  ],
  ["PUT", "object/upload/sign", "key", storeSigned, "none"],
  [
    "POST",
    "object/upload/sign",
    "key",
    (context, request, [id, ...key]) => objects.signUpload(context, id, keyOf(key), wantsUpsert(request)),
  ],
  ["GET", "object/public", "key", readPublic, "none"],
  ["GET", "object/authenticated", "key", readObject],
  ["GET", "object", "key", readObject, "optional"],
  ["POST", "object", "key", store(wantsUpsert)],
  ["PUT", "object", "key", store(() => true)],
  [
    "DELETE",
    "object",
    "one",
    async (context, request, [id]) => objects.removeObjects(context, id, await json(request)),
  ],
  ["DELETE", "object", "key", (context, _request, [id, ...key]) => objects.removeObject(context, id, keyOf(key))],
];

export class Storage {
  constructor(
    readonly connection: GatewayConnection,
    readonly versions: Versions,
    readonly signer: Signer,
    readonly keys: Keys,
  ) {}

  /** Answer a request whose JWT key, if it had one, was translated already. */
  async fetch(request: Request): Promise<Response> {
    try {
      return await this.#route(request);
    } catch (caught) {
      const error = fromDatabase(caught);
      if (error instanceof StorageError) return error.toResponse();
      if (isDiskFull(error)) return diskFull().toResponse();
      if (isUnavailable(error)) {
        return new StorageError(503, "DatabaseUnavailable", "The database cannot be reached; try again").toResponse();
      }
      if (error instanceof StoreUnavailable) {
        console.error("the object storage failed:", error.message);
        return new StorageError(503, "StoreUnavailable", "The files cannot be reached; try again").toResponse();
      }
      console.error("storage failed:", request.method, new URL(request.url).pathname, error);
      return new StorageError(500, "InternalError", "Internal server error").toResponse();
    }
  }

  async #route(request: Request): Promise<Response> {
    const parts = pathParts(request);
    // POST bucket/:id/empty is the one path that ends in a fixed part.
    if (request.method === "POST" && parts.length === 3 && parts[0] === "bucket" && parts[2] === "empty") {
      return await buckets.emptyBucket(await this.#context(request, "key"), parts[1]);
    }
    const method = request.method === "HEAD" ? "GET" : request.method;
    for (const [routeMethod, start, rest, route, access = "key"] of ROUTES) {
      const fixed = start.split("/");
      if (routeMethod !== method || fixed.some((part, i) => parts[i] !== part)) continue;
      const remaining = parts.slice(fixed.length);
      const fits = rest === "none"
        ? remaining.length === 0
        : rest === "one"
        ? remaining.length === 1
        : remaining.length > 1;
      if (fits) return await route(await this.#context(request, access), request, remaining);
    }
    if (parts[0] === "render" && parts[1] === "image") throw featureNotEnabled();
    throw routeNotFound(request.method, `/${parts.map(encodeURIComponent).join("/")}${new URL(request.url).search}`);
  }

  async #context(request: Request, access: Access): Promise<StorageContext> {
    const hasKey = request.headers.has("apikey") || bearer(request.headers) !== null;
    const isAuthenticated = access === "key" || (access === "optional" && hasKey);
    const claims = isAuthenticated ? await this.#claims(request) : { role: "anon" };
    return new StorageContext(this.connection, this.versions, this.signer, claims, isAuthenticated);
  }

  /** Whose rights the request has: a member's token before the key it came with. */
  async #claims(request: Request): Promise<Claims> {
    const apikey = request.headers.get("apikey");
    const token = bearer(request.headers);
    const keyKind = apikey ? await this.keys.kindOf(apikey) : null;
    if (apikey && !keyKind) throw new StorageError(401, "Unauthorized", "Invalid API key");
    if (token && token !== apikey) {
      const kind = await this.keys.kindOf(token);
      if (kind) return claimsOf(kind);
      const claims = await this.keys.verify(token);
      if (!claims || typeof claims.role !== "string") throw new StorageError(401, "Unauthorized", "Invalid JWT");
      return claims as Claims;
    }
    // The words in which hosted Storage says that there was no token.
    if (!keyKind) throw accessDenied("Invalid Compact JWS");
    return claimsOf(keyKind);
  }
}

function isDiskFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes((error as { code?: string } | null)?.code ?? "");
}

function claimsOf(kind: "publishable" | "secret"): Claims {
  return { role: kind === "secret" ? "service_role" : "anon" };
}
