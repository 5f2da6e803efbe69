/** Accept an invitation: make the account, or recognize its owner by the password, and make it a member. */
import { adminClient } from "../_shared/auth.ts";
import type { SupabaseClient } from "../_shared/deps.ts";
import { conflict, forbidden, FunctionError, internal, invalid, unwrap } from "../_shared/errors.ts";
import type { Call } from "../_shared/serve.ts";
import type { AcceptInput, AcceptOutput } from "./schema.ts";

interface AuthFailure {
  code?: string;
  status?: number;
  message: string;
}

export async function acceptInvitation({ input, client }: Call<AcceptInput>): Promise<AcceptOutput> {
  const { token, name, password } = input;
  const { email, problem } = unwrap(await client.rpc("find_invitation", { token }));
  if (problem) throw conflict(problem, { field: "token" });
  const admin = adminClient();
  const userId = await makeAccount(admin, email, password) ?? await recognize(client, email, password);
  const redeemed = await admin.rpc("redeem_invitation", { token, user_id: userId, display_name: name ?? null });
  return { user_id: userId, email, role: unwrap(redeemed).role };
}

/** The id of a new account, or null where the address has one. */
async function makeAccount(admin: SupabaseClient, email: string, password: string): Promise<string | null> {
  const { data, error } = await admin.auth.admin.createUser({ email, password, email_confirm: true });
  if (data.user) return data.user.id;
  if (error?.code === "email_exists" || error?.code === "user_already_exists") return null;
  throw refusal(error!);
}

/** The id of the account that the address has, if the password is its own: a link alone takes over no account. */
async function recognize(client: SupabaseClient, email: string, password: string): Promise<string> {
  const { data, error } = await client.auth.signInWithPassword({ email, password });
  if (data.user) {
    await client.auth.signOut({ scope: "local" });
    return data.user.id;
  }
  if (error?.status !== 400) throw refusal(error!);
  throw forbidden(
    `${email} has an account already, and this is not its password; give that, or ask an admin for a sign-in link`,
  );
}

function refusal(error: AuthFailure): FunctionError {
  if (error.code === "weak_password") return invalid(`password: ${error.message}`, { field: "password" });
  if (error.status === 429) {
    return new FunctionError(429, "too_many_requests", "too many attempts; try again in a minute", null, {
      "Retry-After": "60",
    });
  }
  if (error.status === undefined || error.status === 0 || error.status >= 502) {
    return new FunctionError(503, "unavailable", "accounts cannot be reached; try again shortly", null, {
      "Retry-After": "1",
    });
  }
  return internal(error);
}
