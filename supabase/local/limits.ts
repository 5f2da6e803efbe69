/**
 * What a request may cost: checked before its body is read, and while it is.
 *
 * The publishable key is known to everybody who can open the dashboard. Whatever it can make the gateway do ends soon,
 * takes little memory, and leaves room for others.
 */
import { isNestedDeeper, MAX_NESTING } from "../functions/_shared/nesting.ts";
import { decompressed, encodingOf } from "./encodings.ts";
import { bearer, type Keys } from "./keys.ts";

const MB = 1024 * 1024;
const MAX_URL_LENGTH = 32 * 1024;
const MAX_SELECT_DEPTH = 8;
const MAX_SELECT_PARTS = 64;
/** `or=(…)`, `not.and=(…)`, `author.or=(…)` */
const LOGIC = /(^|\.)(or|and)$/;
const MAX_LOGIC_DEPTH = 32;
const MAX_AUTH_BODY_BYTES = 256 * 1024;
/** What all bodies but those of the secret key may take together while they are read and answered. */
const MAX_TOTAL_BYTES = 256 * MB;

interface Limits {
  bodyBytes: number;
  bodySeconds: number;
  statementSeconds: number;
}

const LIMITS: Record<string, Limits> = {
  anon: { bodyBytes: MB, bodySeconds: 30, statementSeconds: 3 },
  authenticated: { bodyBytes: 16 * MB, bodySeconds: 60, statementSeconds: 8 },
  service_role: { bodyBytes: 128 * MB, bodySeconds: 600, statementSeconds: 120 },
};

/** How long a statement of a role may take; a role that somebody made is somebody signed in. */
export function statementTimeoutMs(role: string): number {
  return (LIMITS[role] ?? LIMITS.authenticated).statementSeconds * 1000;
}

class TooMuch extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

let heldBytes = 0;

/** Answer a request to the Data API or Auth within its caller's limits; `answer` gets a body that was read already. */
export async function limited(
  request: Request,
  keys: Keys,
  answer: (request: Request) => Promise<Response>,
): Promise<Response> {
  let held = 0;
  try {
    checkAddress(new URL(request.url));
    if (!request.body) return await answer(request);
    const role = await roleOf(request, keys);
    const { pathname } = new URL(request.url);
    // Without a key the answer is a refusal, which needs no body; a sign-in link is a key of its own.
    if (role === null && !/^\/auth\/v1\/verify\/?$/.test(pathname)) return await answer(withBody(request, null));
    const { bodyBytes, bodySeconds } = LIMITS[role ?? "anon"] ?? LIMITS.authenticated;
    const most = pathname.startsWith("/auth/") ? Math.min(bodyBytes, MAX_AUTH_BODY_BYTES) : bodyBytes;
    const isTrusted = role === "service_role";
    const body = await readBody(request, most, bodySeconds, (bytes) => {
      if (isTrusted) return;
      held += bytes;
      heldBytes += bytes;
      if (heldBytes > MAX_TOTAL_BYTES) throw new TooMuch(503, "too_busy", "Too many large requests at once");
    });
    if (isJson(request) && isNestedDeeper(body)) {
      throw new TooMuch(400, "too_deep", `JSON may be nested ${MAX_NESTING} deep`);
    }
    return await answer(withBody(request, body));
  } catch (error) {
    if (error instanceof TooMuch) return refusal(error, new URL(request.url).pathname);
    throw error;
  } finally {
    heldBytes -= held;
  }
}

/** Whom a request's key and token make its sender; null without a valid key. */
async function roleOf(request: Request, keys: Keys): Promise<string | null> {
  const apikey = request.headers.get("apikey") ?? new URL(request.url).searchParams.get("apikey");
  const token = bearer(request.headers);
  if (!apikey || !(await keys.kindOf(apikey))) return null;
  return (await keys.claims(token ?? apikey))?.role ?? "anon";
}

function checkAddress(url: URL): void {
  if (url.href.length > MAX_URL_LENGTH) throw new TooMuch(414, "too_long", "The address of the request is too long");
  if (!url.pathname.startsWith("/rest/")) return;
  for (const [name, value] of url.searchParams) {
    const [depth, parts] = nesting(value);
    if (name === "select" && (depth > MAX_SELECT_DEPTH || parts > MAX_SELECT_PARTS)) {
      throw new TooMuch(400, "too_deep", `select may embed ${MAX_SELECT_PARTS} relations, ${MAX_SELECT_DEPTH} deep`);
    }
    if (LOGIC.test(name) && depth > MAX_LOGIC_DEPTH) {
      throw new TooMuch(400, "too_deep", `${name} may be nested ${MAX_LOGIC_DEPTH} deep`);
    }
  }
}

/** How deep the parentheses of a parameter are nested, and how many there are. */
function nesting(value: string): [depth: number, parts: number] {
  let [depth, deepest, parts] = [0, 0, 0];
  for (let i = 0; i < value.length; i++) {
    if (value[i] === "(") [depth, parts] = [depth + 1, parts + 1];
    else if (value[i] === ")") depth--;
    deepest = Math.max(deepest, depth);
  }
  return [deepest, parts];
}

async function readBody(
  request: Request,
  most: number,
  seconds: number,
  hold: (bytes: number) => void,
): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () => new TooMuch(413, "too_large", `The body may have ${most} bytes`);
  if (Number(request.headers.get("content-length") ?? 0) > most) throw tooLarge();
  const encoding = encodingOf(request.headers);
  if (encoding === undefined) throw new TooMuch(415, "unknown_encoding", "The body may be compressed with gzip only");
  // Counted as it is after decompression: a small body may become a large one.
  const reader = (encoding ? decompressed(request.body!) : request.body!).getReader();
  const late = Promise.withResolvers<never>();
  late.promise.catch(() => {});
  const reason = new TooMuch(408, "too_slow", `The body did not arrive within ${seconds} s`);
  const timer = setTimeout(() => late.reject(reason), seconds * 1000);
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    while (true) {
      const { done, value } = await Promise.race([encoding ? readable(reader) : reader.read(), late.promise]);
      if (done) break;
      length += value.byteLength;
      if (length > most) throw tooLarge();
      hold(value.byteLength);
      chunks.push(value);
    }
  } finally {
    clearTimeout(timer);
    reader.releaseLock();
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.byteLength;
  }
  return body;
}

/** Read on; what was not compressed as it says is the sender's mistake. */
async function readable(reader: ReadableStreamDefaultReader<Uint8Array>) {
  try {
    return await reader.read();
  } catch (error) {
    if (error instanceof TypeError) {
      throw new TooMuch(400, "not_compressed", "The body is not what Content-Encoding says");
    }
    throw error;
  }
}

function withBody({ url, method, headers }: Request, body: Uint8Array<ArrayBuffer> | null): Request {
  const plain = new Headers(headers);
  for (const name of plain.has("content-encoding") ? ["content-encoding", "content-length"] : []) plain.delete(name);
  return new Request(url, { method, headers: plain, body });
}

function isJson(request: Request): boolean {
  // Without a type it is taken for JSON.
  return /json|^$/i.test(request.headers.get("content-type") ?? "");
}

function refusal({ status, code, message }: TooMuch, pathname: string): Response {
  const body = pathname.startsWith("/auth/")
    ? { code: status, error_code: code, msg: message }
    : { code, message, details: null, hint: null };
  return Response.json(body, { status, headers: status === 503 ? { "Retry-After": "1" } : {} });
}
