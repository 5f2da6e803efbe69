/** The edge functions this gateway serves; listed one by one because a bundle needs static imports. */
import health from "../functions/health/index.ts";

export interface EdgeFunction {
  fetch(request: Request): Response | Promise<Response>;
}

export const functions: Record<string, EdgeFunction> = {
  health,
};
