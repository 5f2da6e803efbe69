/**
 * `/gateway/contents/<version>`: contents as they are stored, for backups of a store that the gateway alone reaches.
 *
 * Takes the secret key. What is written belongs to no object until the restored database says so.
 */
import { answered, requireSecretKey } from "../auth_api.ts";
import type { Keys } from "../keys.ts";
import { checkVersion, type ObjectStore, StoreUnavailable, VersionMissing } from "./store.ts";

const PATH = /^\/gateway\/contents\/([0-9a-f-]+)$/;

export function isContentsPath(pathname: string): boolean {
  return PATH.test(pathname);
}

export async function contents(request: Request, store: ObjectStore, keys: Keys): Promise<Response> {
  return await answered(async () => {
    await requireSecretKey(request, keys);
    const { pathname, searchParams } = new URL(request.url);
    try {
      return await route(request, store, checkVersion(PATH.exec(pathname)![1]), Number(searchParams.get("size")));
    } catch (error) {
      if (error instanceof VersionMissing) return Response.json({ message: error.message }, { status: 404 });
      if (error instanceof StoreUnavailable) return Response.json({ message: error.message }, { status: 503 });
      throw error;
    }
  });
}

async function route(request: Request, store: ObjectStore, version: string, size: number): Promise<Response> {
  switch (request.method) {
    case "GET": {
      if (!Number.isSafeInteger(size) || size < 0) return Response.json({ message: "size?" }, { status: 400 });
      const headers = { "content-type": "application/octet-stream", "content-length": String(size) };
      return new Response(await store.read(version, 0, size), { headers });
    }
    case "PUT":
      return Response.json(await store.write(version, request.body ?? new Blob([]).stream(), null));
    default:
      return Response.json({ message: `${request.method} is not supported here` }, { status: 405 });
  }
}
