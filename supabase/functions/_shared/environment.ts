/** What a function knows of its project, from the variables that hosted Supabase and the gateway both set. */
import { resolveEnv } from "./deps.ts";

/** The keys and the address of the project, in the shape `@supabase/server` takes. */
export interface Environment {
  url: string;
  publishableKeys: Record<string, string>;
  secretKeys: Record<string, string>;
  jwks: NonNullable<ReturnType<typeof resolveEnv>["data"]>["jwks"];
  version: string;
}

/** Read the environment afresh, so that a rotated key is known at once. */
export function getEnvironment(): Environment {
  const { data, error } = resolveEnv();
  if (error) throw error;
  return {
    ...data,
    publishableKeys: withLegacy(data.publishableKeys, "SUPABASE_ANON_KEY"),
    secretKeys: withLegacy(data.secretKeys, "SUPABASE_SERVICE_ROLE_KEY"),
    version: Deno.env.get("OPENMANUS_RL_VERSION") ?? "hosted",
  };
}

/** Projects older than the opaque keys have a JWT key instead, and may have both. */
function withLegacy(keys: Record<string, string>, variable: string): Record<string, string> {
  const legacy = Deno.env.get(variable);
  if (!legacy) return keys;
  return Object.keys(keys).length === 0 ? { default: legacy } : { ...keys, legacy };
}
