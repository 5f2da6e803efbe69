/** The dashboard's static files, and the configuration it starts from. */
import type { Settings } from "./settings.ts";

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  gif: "image/gif",
  html: "text/html; charset=utf-8",
  ico: "image/x-icon",
  jpg: "image/jpeg",
  js: "text/javascript; charset=utf-8",
  json: "application/json; charset=utf-8",
  map: "application/json; charset=utf-8",
  mjs: "text/javascript; charset=utf-8",
  png: "image/png",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  wasm: "application/wasm",
  webmanifest: "application/manifest+json",
  woff2: "font/woff2",
};

/** Serve a file of the dashboard; a path without an extension is a page of the app, which routes it itself. */
export async function serveDashboard(request: Request, origin: string, settings: Settings): Promise<Response> {
  const response = await findPage(request, origin, settings);
  for (const [name, value] of Object.entries(protection(origin))) response.headers.set(name, value);
  return response;
}

async function findPage(request: Request, origin: string, settings: Settings): Promise<Response> {
  const directory = settings.dashboardDir;
  const { pathname } = new URL(request.url);
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response(null, { status: 405, headers: { Allow: "GET, HEAD" } });
  }
  if (pathname === "/config.json") return configuration(origin, settings);
  if (!directory) return pathname === "/" ? welcome() : notFound();
  const segments = decodedSegments(pathname);
  if (!segments) return notFound();
  const last = segments.at(-1) ?? "";
  const relative = last.includes(".") ? segments.join("/") : "index.html";
  return await sendFile(`${directory}/${relative}`, relative, request.method === "HEAD");
}

/** Where the dashboard finds its Supabase; no other origin may read this, since no CORS header allows it. */
function configuration(origin: string, { publishableKey, version }: Settings): Response {
  const config = { supabaseUrl: origin, publishableKey, embedded: true, version };
  return Response.json(config, { headers: { "Cache-Control": "no-store" } });
}

/** Headers that keep text from agents from ever becoming code, and other sites from framing the pages. */
function protection(origin: string): Record<string, string> {
  const policy = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "media-src": "'self' blob:",
    // Not every browser counts a socket to the same host as 'self'.
    "connect-src": `'self' ${origin.replace(/^http/, "ws")}`,
    "frame-ancestors": "'none'",
    "base-uri": "'self'",
    "object-src": "'none'",
    "form-action": "'self'",
  };
  return {
    "Content-Security-Policy": Object.entries(policy).map((rule) => rule.join(" ")).join("; "),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
  };
}

/** The path's parts, or null when one of them would leave the directory. */
function decodedSegments(pathname: string): string[] | null {
  try {
    const segments = pathname.split("/").filter(Boolean).map(decodeURIComponent);
    return segments.some((part) => part === ".." || part === "." || /[/\\\0]/.test(part)) ? null : segments;
  } catch {
    return null; // a malformed percent escape
  }
}

async function sendFile(path: string, relative: string, headOnly: boolean): Promise<Response> {
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path, { read: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return notFound();
    throw error;
  }
  const info = await file.stat();
  if (!info.isFile) {
    file.close();
    return notFound();
  }
  const headers = {
    "Content-Type": TYPES[relative.split(".").at(-1)!.toLowerCase()] ?? "application/octet-stream",
    "Content-Length": String(info.size),
    // Built assets carry a hash in their name; pages and anything else must be asked for again.
    "Cache-Control": relative.startsWith("assets/") ? "public, max-age=31536000, immutable" : "no-cache",
  };
  if (headOnly) {
    file.close();
    return new Response(null, { headers });
  }
  return new Response(file.readable, { headers });
}

function welcome(): Response {
  return new Response(
    "OpenManus-RL is running here. This installation has no dashboard: `openmanus-rl runs list` shows what was recorded.\n" +
      "The API is under /rest/v1, /auth/v1, /storage/v1, /realtime/v1 and /functions/v1; GET /functions/v1/openapi describes the functions.\n",
    { headers: { "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-cache" } },
  );
}

function notFound(): Response {
  return Response.json({ message: "Not found" }, { status: 404 });
}
