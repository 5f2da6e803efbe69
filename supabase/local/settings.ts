/** The gateway's settings, read once from the environment. */
import { type DatabaseAddress, TLS_MODES } from "./dial.ts";
import { isNetwork } from "./proxies.ts";
import type { S3Settings } from "./storage/s3.ts";

export interface Settings {
  port: number;
  /** Where to listen, beside loopback. */
  host: string;
  /** What a team's server is called from outside; null where only this machine uses it. */
  publicUrl: URL | null;
  /** Addresses and networks of proxies on other machines. */
  trustedProxies: string[];
  database: DatabaseAddress;
  publishableKey: string;
  secretKey: string;
  jwtSecret: string;
  storageDir: string;
  /** Where objects are kept instead of in the folder. */
  s3: S3Settings | null;
  dashboardDir: string | null;
  version: string;
}

/** What `OPENMANUS_RL_STORAGE` says: `s3://bucket/prefix`, or nothing for the folder. */
function readS3(): S3Settings | null {
  const location = Deno.env.get("OPENMANUS_RL_STORAGE");
  if (!location) return null;
  const match = /^s3:\/\/([^/]+)\/?(.*?)\/*$/.exec(location);
  if (!match) throw new Error("OPENMANUS_RL_STORAGE must be s3://bucket or s3://bucket/prefix");
  return {
    bucket: match[1],
    prefix: match[2] === "" ? "" : `${match[2]}/`,
    endpoint: required("AWS_ENDPOINT_URL_S3"),
    region: required("AWS_REGION"),
    accessKeyId: required("AWS_ACCESS_KEY_ID"),
    secretAccessKey: required("AWS_SECRET_ACCESS_KEY"),
    sessionToken: Deno.env.get("AWS_SESSION_TOKEN") || null,
  };
}

function required(name: string): string {
  const value = Deno.env.get(name);
  if (!value) throw new Error(`${name} is not set; the gateway cannot start without it`);
  return value;
}

function readPublicUrl(text: string): URL | null {
  if (!text) return null;
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search || url.hash || url.username) {
    throw new Error("PUBLIC_URL must be like https://rl.example.org, without a path");
  }
  return url;
}

function readProxies(text: string): string[] {
  const proxies = text.split(",").map((one) => one.trim()).filter(Boolean);
  const wrong = proxies.find((one) => !isNetwork(one));
  if (wrong) throw new Error(`TRUSTED_PROXIES: ${JSON.stringify(wrong)} is neither an address nor a network`);
  return proxies;
}

/** Read and check every setting, naming the one that is wrong. */
export function readSettings(): Settings {
  const port = Number(Deno.env.get("GATEWAY_PORT") ?? "0");
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    throw new Error(`GATEWAY_PORT must be a port number from 0 to 65535`);
  }
  return {
    port,
    host: Deno.env.get("GATEWAY_HOST") || "127.0.0.1",
    publicUrl: readPublicUrl(Deno.env.get("PUBLIC_URL") ?? ""),
    trustedProxies: readProxies(Deno.env.get("TRUSTED_PROXIES") ?? ""),
    database: readDatabase(),
    publishableKey: required("SUPABASE_PUBLISHABLE_KEY"),
    secretKey: required("SUPABASE_SECRET_KEY"),
    jwtSecret: required("SUPABASE_JWT_SECRET"),
    storageDir: required("STORAGE_DIR"),
    s3: readS3(),
    dashboardDir: Deno.env.get("DASHBOARD_DIR") || null,
    version: Deno.env.get("OPENMANUS_RL_VERSION") ?? "0.0.0",
  };
}

function readDatabase(): DatabaseAddress {
  const given = Deno.env.get("DATABASE_TLS") || "disable";
  const mode = TLS_MODES.find((known) => known === given);
  if (!mode) throw new Error(`DATABASE_TLS must be one of ${TLS_MODES.join(", ")}`);
  return {
    url: required("DATABASE_URL"),
    socketPath: Deno.env.get("DATABASE_SOCKET") || null,
    tls: mode,
    authorities: Deno.env.get("DATABASE_AUTHORITIES") || null,
    scramOnly: Deno.env.get("DATABASE_PROOF") !== "none",
  };
}
