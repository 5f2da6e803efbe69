/** Members, their keys, invitations, and who did what. */
import { isAuthRetryableFetchError } from "@supabase/supabase-js";
import type { MemberRole, Row } from "@/database.ts";
import { answered, invoke, RequestError, rpc, supabase } from "@/supabase.ts";
import type { Results } from "./contract.ts";
import { after, type Place, placeAfter } from "./paging.ts";

export type Member = Results["list_members"][number];
export type Invitation = Row<"invitations">;
export type MemberKey = Row<"member_keys">;
export type AuditEntry = Row<"audit_log">;
export type FoundInvitation = Results["find_invitation"];

const PAGE = 100;
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
  const { token_hash } = await invoke<{ token_hash: string }>(`members/${userId}/link`, {});
  return `${document.baseURI}#token_hash=${token_hash}`;
}

// Invitations ------------------------------------------------------------------------------------------------------------

/** Those that were neither accepted nor revoked, the latest first. */
export async function readInvitations(from: Place | null, signal: AbortSignal): Promise<Invitation[]> {
  let query = supabase().from("invitations").select("*").is("accepted_at", null).is("revoked_at", null);
  if (from) query = query.or(after("created_at", from, "ascending"));
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  );
}

/** The page after one of invitations, or of keys. */
export function nextMadePage(page: { id: string; created_at: string }[]): Place | null {
  return placeAfter(page, PAGE, (made) => made.created_at);
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
  await invoke("members/accept", { token, name: name.trim() || null, password });
}

// Keys -------------------------------------------------------------------------------------------------------------------

export interface KeyFilters {
  /** null: those of all members, for whom may see them. */
  memberId: string | null;
  withEnded: boolean;
}

/** Keys, the latest first. */
export async function readKeys(
  { memberId, withEnded }: KeyFilters,
  from: Place | null,
  signal: AbortSignal,
): Promise<MemberKey[]> {
  let query = supabase().from("member_keys").select("*");
  if (memberId) query = query.eq("member_id", memberId);
  if (!withEnded) {
    query = query.is("revoked_at", null).or(`expires_at.is.null,expires_at.gt."${new Date().toISOString()}"`);
  }
  if (from) query = query.or(after("created_at", from, "ascending"));
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
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
  if (isAuthRetryableFetchError(error)) throw RequestError.offline();
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
    query.order("happened_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  );
}

export function nextLogPage(page: AuditEntry[]): Place | null {
  return placeAfter(page, PAGE, (entry) => entry.happened_at);
}

function inDays(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString();
}
