/** GET openapi: the document that describes the functions. Needs no key. */
import document from "../openapi.json" with { type: "json" };
import { FunctionError } from "../_shared/errors.ts";
import { preflight, reply } from "../_shared/http.ts";

export default {
  fetch(request: Request): Response {
    if (request.method === "OPTIONS") return preflight(["GET"]);
    if (request.method === "GET") return reply(200, document);
    const refusal = new FunctionError(405, "method_not_allowed", "use GET");
    return reply(refusal.status, refusal.body, { Allow: "GET, OPTIONS" });
  },
};
