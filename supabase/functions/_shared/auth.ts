/** Who is calling, and a database client that may do exactly what they may. */
import {
  createAdminClient,
  createContextClient,
  extractCredentials,
  type SupabaseClient,
  verifyCredentials,
} from "./deps.ts";
import { type Environment, getEnvironment } from "./environment.ts";
import { FunctionError, unauthorized } from "./errors.ts";

export type Access = "secret" | "publishable" | "user";

export interface Caller {
  kind: Access;
  /** The member's id; null for a key. */
  userId: string | null;
}

export interface Authenticated {
  caller: Caller;
  client: SupabaseClient;
}

const NEEDED: Record<Access, string> = {
  secret: "the secret key",
  publishable: "the publishable key",
  user: "a member's access token",
};

/** Check the request's key or token against what the function allows; 401 says what is needed. */
export async function authenticate(
  request: Request,
  allowed: readonly Access[],
  environment: Environment,
): Promise<Authenticated> {
  const { apikey, token } = extractCredentials(request);
  const tokenIsKey = token !== null && (await keyKind(token, environment)) !== null;
  const key = apikey ?? (tokenIsKey ? token : null);
  const kind = key === null ? null : await keyKind(key, environment);
  if (key !== null && kind === null) throw unauthorized("the API key is not one of this project's");

  if (token !== null && !tokenIsKey) {
    if (!allowed.includes("user")) throw refusal(allowed);
    const userId = await verifyUser(token, environment);
    return { caller: { kind: "user", userId }, client: clientFor("user", token, environment) };
  }
  if (kind === null || !allowed.includes(kind)) throw refusal(allowed);
  return { caller: { kind, userId: null }, client: clientFor(kind, null, environment) };
}

function refusal(allowed: readonly Access[]): FunctionError {
  const needed = allowed.map((access) => NEEDED[access]).join(" or ");
  return unauthorized(`send ${needed}, a key as the header "apikey", a token as "Authorization: Bearer"`);
}

async function keyKind(key: string, environment: Environment): Promise<"secret" | "publishable" | null> {
  const { data } = await verifyCredentials(
    { apikey: key, token: null },
    { auth: ["secret:*", "publishable:*"], env: environment },
  );
  return data?.authMode === "secret" || data?.authMode === "publishable" ? data.authMode : null;
}

/**
 * The id of the member whose token this is.
 *
 * Tokens signed with a project's asymmetric keys are verified here. Those signed with a shared secret, as older
 * projects and the embedded stack do, carry no key id, and `@supabase/server` refuses them: the auth server is asked.
 */
async function verifyUser(token: string, environment: Environment): Promise<string> {
  if (environment.jwks !== null && algorithmOf(token) !== "HS256") {
    const { data } = await verifyCredentials({ apikey: null, token }, { auth: "user", env: environment });
    if (data?.userClaims?.id) return data.userClaims.id;
    throw unauthorized("the token is invalid or has expired");
  }
  const { data, error } = await clientFor("publishable", null, environment).auth.getUser(token);
  if (data.user) return data.user.id;
  if (error && (error.status === undefined || error.status === 0 || error.status >= 500)) {
    throw new FunctionError(503, "unavailable", "the token cannot be checked now; try again shortly", null, {
      "Retry-After": "1",
    });
  }
  throw unauthorized("the token is invalid or has expired");
}

function algorithmOf(token: string): string | null {
  try {
    const header = token.split(".")[0].replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(atob(header)).alg ?? null;
  } catch {
    return null; // not a JWT; whoever verifies it will refuse it
  }
}

/** A client with the secret key, for what no caller may do: what the caller asks for was checked before. */
export function adminClient(): SupabaseClient {
  return clientFor("secret", null, getEnvironment());
}

function clientFor(kind: Access, token: string | null, environment: Environment): SupabaseClient {
  const client = kind === "secret"
    ? createAdminClient({ env: environment })
    : createContextClient({ auth: { token }, env: environment });
  return client as unknown as SupabaseClient;
}
