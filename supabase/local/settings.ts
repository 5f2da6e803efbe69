/** The gateway's settings, read once from the environment. */
export interface Settings {
  port: number;
  databaseUrl: string;
  publishableKey: string;
  secretKey: string;
  jwtSecret: string;
  storageDir: string;
  dashboardDir: string | null;
  version: string;
}

function required(name: string): string {
  const value = Deno.env.get(name);
  if (!value) throw new Error(`${name} is not set; the gateway cannot start without it`);
  return value;
}

/** Read and check every setting, naming the one that is wrong. */
export function readSettings(): Settings {
  const port = Number(Deno.env.get("GATEWAY_PORT") ?? "0");
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    throw new Error(`GATEWAY_PORT must be a port number from 0 to 65535`);
  }
  return {
    port,
    databaseUrl: required("DATABASE_URL"),
    publishableKey: required("SUPABASE_PUBLISHABLE_KEY"),
    secretKey: required("SUPABASE_SECRET_KEY"),
    jwtSecret: required("SUPABASE_JWT_SECRET"),
    storageDir: required("STORAGE_DIR"),
    dashboardDir: Deno.env.get("DASHBOARD_DIR") || null,
    version: Deno.env.get("OPENMANUS_RL_VERSION") ?? "0.0.0",
  };
}
