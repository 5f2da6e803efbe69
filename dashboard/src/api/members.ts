/** Members, their keys, invitations, and who did what. */
import { FunctionsHttpError } from "@supabase/supabase-js";
import type { MemberRole, Row } from "@/database.ts";
import { answered, RequestError, rpc, supabase } from "@/supabase.ts";
import type { Results } from "./contract.ts";
import { after, type Place, placeAfter } from "./paging.ts";

export type Member = Results["list_members"][number];
export type Invitation = Row<"invitations">;
export type MemberKey = Row<"member_keys">;
export type AuditEntry = Row<"audit_log">;
export type FoundInvitation = Results["find_invitation"];

const MOST_SHOWN = 200;
const LOG_PAGE = 100;
const FORBIDDEN = "42501";

export async function readMembers(signal: AbortSignal): Promise<Member[]> {
  return await rpc("list_members", {}, signal);
}

async function refuseUnchanged(changed: PromiseLike<{ user_id: string }[]>): Promise<void> {
  if ((await changed).length === 0) throw new RequestError("Only admins may do this.", FORBIDDEN);
}

export async function changeRole(userId: string, role: MemberRole): Promise<void> {
  const query = supabase().from("members").update({ role }).eq("user_id", userId).select("user_id");
  await refuseUnchanged(answered(query));
}

export async function removeMember(userId: string): Promise<void> {
  await refuseUnchanged(answered(supabase().from("members").delete().eq("user_id", userId).select("user_id")));
}

/** A link that signs in as a member, once. */
export async function makeSignInLink(userId: string): Promise<string> {
  const { token_hash } = await call<{ token_hash: string }>(`members/${userId}/link`, {});
  return `${document.baseURI}#token_hash=${token_hash}`;
}

// Invitations ------------------------------------------------------------------------------------------------------------

/** Those that were neither accepted nor revoked, the latest first. */
export async function readInvitations(signal: AbortSignal): Promise<Invitation[]> {
  return await answered(
    supabase().from("invitations").select("*").is("accepted_at", null).is("revoked_at", null)
      .order("created_at", { ascending: false }).order("id").limit(MOST_SHOWN).abortSignal(signal),
  );
}

export interface Invited {
  email: string;
  link: string;
}

export async function inviteMember(email: string, role: MemberRole, days: number): Promise<Invited> {
  const made = await rpc("invite_member", { email, role, expires_at: inDays(days) });
  return { email: made.email, link: `${document.baseURI}invitation#token=${made.token}` };
}

export async function revokeInvitation(id: string): Promise<void> {
  await rpc("revoke_invitation", { invitation_id: id });
}

export async function findInvitation(token: string, signal: AbortSignal): Promise<FoundInvitation> {
  return await rpc("find_invitation", { token }, signal);
}

export async function acceptInvitation(token: string, name: string, password: string): Promise<void> {
  await call("members/accept", { token, name: name.trim() || null, password });
}

// Keys -------------------------------------------------------------------------------------------------------------------

/** Keys, the latest first: of one member, or of all for whom may see them. */
export async function readKeys(memberId: string | null, signal: AbortSignal): Promise<MemberKey[]> {
  let query = supabase().from("member_keys").select("*");
  if (memberId) query = query.eq("member_id", memberId);
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(MOST_SHOWN).abortSignal(signal),
  );
}

/** Make a key and return it, which can be had this once. */
export async function createKey(name: string, role: MemberRole, days: number | null): Promise<string> {
  return (await rpc("create_key", { name, role, expires_at: days === null ? null : inDays(days) })).key;
}

export async function revokeKey(id: string): Promise<void> {
  await rpc("revoke_key", { key_id: id });
}

export function stateOf({ revoked_at, expires_at }: MemberKey, now = Date.now()): "active" | "revoked" | "expired" {
  if (revoked_at) return "revoked";
  return expires_at && Date.parse(expires_at) <= now ? "expired" : "active";
}

// Oneself ----------------------------------------------------------------------------------------------------------------

export async function setDisplayName(name: string): Promise<void> {
  await rpc("set_display_name", { display_name: name.trim() || null });
}

/** Change one's password or address; the current password shows that it is oneself, unless a link just did. */
export async function changeAccount(change: { password?: string; email?: string }, current: string): Promise<void> {
  const { error } = await supabase().auth.updateUser({ ...change, ...(current ? { current_password: current } : {}) });
  if (!error) return;
  if (error.code === "reauthentication_needed") throw new RequestError("Give your current password.", error.code);
  if (error.code === "invalid_credentials") throw new RequestError("The current password is not right.", error.code);
  throw new RequestError(error.message, error.code ?? null);
}

// Who did what -----------------------------------------------------------------------------------------------------------

export interface LogFilters {
  actor: string;
  area: string;
}

export async function readLog(filters: LogFilters, from: Place | null, signal: AbortSignal): Promise<AuditEntry[]> {
  let query = supabase().from("audit_log").select("*");
  if (filters.actor) query = query.eq("actor_id", filters.actor);
  if (filters.area) query = query.like("action", `${filters.area}.*`);
  if (from) query = query.or(after("happened_at", from, "ascending"));
  return await answered(
    query.order("happened_at", { ascending: false }).order("id").limit(LOG_PAGE).abortSignal(signal),
  );
}

export function nextLogPage(page: AuditEntry[]): Place | null {
  return placeAfter(page, LOG_PAGE, (entry) => entry.happened_at);
}

function inDays(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString();
}

/** Call an edge function; what it refuses is a RequestError in its words. */
async function call<T>(name: string, body: object): Promise<T> {
  const { data, error } = await supabase().functions.invoke<T>(name, { body });
  if (!error) return data!;
  if (!(error instanceof FunctionsHttpError)) throw RequestError.offline();
  const answer = await error.context.json().catch(() => null) as { error?: { code?: string; message?: string } } | null;
  throw new RequestError(answer?.error?.message ?? error.message, answer?.error?.code ?? null);
}
