/** GET health: is the project up, and does its database answer? Needs no key. */
import { getEnvironment } from "../_shared/environment.ts";
import { preflight, reply } from "../_shared/http.ts";
import { databaseAnswers } from "./database.ts";

export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method === "OPTIONS") return preflight(["GET"]);
    if (request.method !== "GET") {
      const error = { code: "method_not_allowed", message: "use GET", details: null };
      return reply(405, { error }, { Allow: "GET, OPTIONS" });
    }
    const environment = getEnvironment();
    const reachable = await databaseAnswers(environment);
    return reply(reachable ? 200 : 503, {
      status: reachable ? "ok" : "unavailable",
      version: environment.version,
      database: reachable ? "ok" : "unreachable",
    });
  },
};
