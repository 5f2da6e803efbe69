/** Which of a function's routes a request is for. */
import { FunctionError, invalid, notFound } from "./errors.ts";
import type { Method } from "./operation.ts";

interface Route {
  method: Method;
  path?: string;
}

type Parameters = Record<string, string>;

/** The route for a request's method and path, and what stands in place of its braces; 404 or 405 where there is none. */
export function routeOf<R extends Route>(routes: readonly R[], request: Request): { route: R; parameters: Parameters } {
  const found = routesAt(routes, request);
  const chosen = found.find(({ route }) => route.method === request.method);
  if (chosen) return chosen;
  const methods = methodsAt(found);
  throw new FunctionError(405, "method_not_allowed", `use ${methods.join(" or ")}`, null, {
    Allow: [...methods, "OPTIONS"].join(", "),
  });
}

/** The methods that a request's path takes. */
export function methodsOf(routes: readonly Route[], request: Request): Method[] {
  return methodsAt(routesAt(routes, request));
}

function methodsAt(found: { route: Route }[]): Method[] {
  return [...new Set(found.map(({ route }) => route.method))];
}

function routesAt<R extends Route>(routes: readonly R[], request: Request) {
  const segments = segmentsOf(new URL(request.url).pathname);
  const found = routes.flatMap((route) => {
    const parameters = match(route.path ?? "", segments);
    return parameters === null ? [] : [{ route, parameters }];
  });
  if (found.length === 0) {
    const known = routes.map(({ method, path }) => `${method} ${path ?? "/"}`);
    throw notFound(`there is nothing at this path; below the function's own there are ${known.join(", ")}`);
  }
  // A path that is spelled out goes before one in which anything may stand.
  return found.sort((a, b) => Object.keys(a.parameters).length - Object.keys(b.parameters).length);
}

/** What stands below the function's own path: the gateway hands on the whole path, hosted projects what follows /functions/v1. */
function segmentsOf(pathname: string): string[] {
  const rest = pathname.replace(/^(\/functions\/v1)?\/[^/]+/, "").replace(/\/+$/, "");
  try {
    return rest.split("/").slice(1).map(decodeURIComponent);
  } catch {
    throw invalid("the path is not encoded as UTF-8");
  }
}

function match(path: string, segments: string[]): Parameters | null {
  const parts = path.split("/").slice(1);
  if (parts.length !== segments.length) return null;
  const parameters: Parameters = {};
  for (const [index, part] of parts.entries()) {
    if (part.startsWith("{") && segments[index] !== "") parameters[part.slice(1, -1)] = segments[index];
    else if (part !== segments[index]) return null;
  }
  return parameters;
}
