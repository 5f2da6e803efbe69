/** Responses: JSON, with the headers browsers ask for. */

const CORS = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": "Allow, Retry-After",
};

/** The answer to a browser's question whether it may send the request. */
export function preflight(methods: string[]): Response {
  return new Response(null, {
    status: 204,
    headers: {
      ...CORS,
      "Access-Control-Allow-Methods": [...methods, "OPTIONS"].join(", "),
      "Access-Control-Allow-Headers":
        "authorization, apikey, content-type, idempotency-key, x-client-info, x-supabase-api-version",
      "Access-Control-Max-Age": "86400",
    },
  });
}

export function reply(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers: { ...CORS, ...headers } });
}
