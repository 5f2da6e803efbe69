/** Letting browsers of any origin in: the keys decide, not the page that sends them. */

/** Those that the APIs know. */
export const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
export const METHOD_LIST = [...METHODS].join(", ");
const EXPOSED =
  "Content-Range, Content-Location, Location, Content-Length, Content-Disposition, ETag, Last-Modified, " +
  "Preference-Applied, Retry-After, X-Total-Count, Link";

export function preflight(request: Request): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Allow-Methods": METHOD_LIST,
      "Access-Control-Allow-Headers": request.headers.get("access-control-request-headers") ?? "*",
      "Access-Control-Max-Age": "86400",
    },
  });
}

export function isPreflight(request: Request): boolean {
  return request.method === "OPTIONS" && request.headers.has("access-control-request-method");
}

export function withCors(response: Response): Response {
  response.headers.set("Access-Control-Allow-Origin", "*");
  response.headers.set("Access-Control-Expose-Headers", EXPOSED);
  return response;
}
